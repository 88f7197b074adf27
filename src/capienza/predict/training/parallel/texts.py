"""Formulas of the entries of one rank, as templates."""

from __future__ import annotations

from capienza.errors import template

CUT = template(
    "training.formula-cut",
    "{sharding} over {ranks} GPUs: ({parts}) / {ranks}, padded and in blocks: {total} B",
)
WHOLE = template("training.formula-whole", "{sharding}: every GPU holds the whole model, {parts}, in blocks: {total} B")
ADAPTERS = template(
    "training.formula-adapters-cut",
    "{sharding} over {ranks} GPUs: this GPU's part of the adapters, in blocks: {total} B",
)
BESIDE = template(
    "training.formula-beside",
    "constants of quantised weights, tables and what stays out of {sharding}: whole on every GPU, {total} B",
)
GATHERED = template(
    "training.formula-gathered",
    "whole weights when the phase holds most, {where}: {total} B; as stored the root is {root} B, the largest layer "
    "{layer} B",
)
BUFFERS = template(
    "training.formula-buffers-of-ranks",
    "what {sharding} gathers into, reduces from or keeps as buckets when the phase holds most, {where}: {total} B",
)
OWN_GRADIENTS = template(
    "training.formula-own-gradients",
    "this GPU's part of the gradients that are reduced when the phase holds most, {where}: {total} B",
)
WHOLE_GRADIENTS = template(
    "training.formula-whole-gradients",
    "gradients that are still whole when the phase holds most, {where}: {total} B ({microbatches} microbatches an "
    "update)",
)
STATES = template(
    "training.formula-states-cut",
    "{optimizer}: {per_parameter} B for each of the {parameters} trained parameters of this GPU's part, in blocks: "
    "{total} B",
)
TRANSIENT = template("training.formula-transient-cut", "{optimizer}, during the step on this GPU's part: {total} B")
ENDS = template(
    "training.formula-block-ends",
    "blocks of the allocator too large for what is in them, by too little to be split: {total} B",
)
LOADING = template(
    "training.formula-loading-ranks",
    "{sharding}: beside its part a GPU holds {what} for a while, {total} B",
)
SAVING_NOTHING = template("training.formula-saving-ranks", "every GPU writes its own part: nothing more")
SAVING_WHOLE = template(
    "training.formula-saving-whole", "whole weights are put together ({what}) and go to main memory: {total} B"
)
TWO_UNITS = template("training.two-units", "twice the largest unit, as it comes and laid flat")
ONE_UNIT = template("training.one-unit", "the largest unit whole")
ONE_WEIGHT = template("training.one-weight", "the largest weight whole")
WHOLE_MODEL = template("training.whole-model", "the whole model and a copy of at most 250 MiB that is sent")
NOTHING_WHOLE = template("training.nothing-whole", "nothing whole")
ROOT_AND_LAYER = template("training.root-and-layer", "the root and the largest layer")
OFFLOADED = template(
    "training.formula-offloaded",
    "{what} wait in main memory: {each} B for each of {ranks} GPUs, {total} B",
)
COMMUNICATOR = template(
    "training.formula-communicator",
    "{groups} communicators x {channels} channels x {sets} sets of buffers x {set} B = {total} B; at least a ring of "
    "{least} channels, at most {most} channels",
)
OF_STEP = template("training.at-the-step", "at the optimizer step")
RANK_PROOF = template(
    "training.proof-rank",
    "the peak of each rank by phase: predict_peak of the program with world_size={ranks}, or a run on those GPUs",
    "trace the program, or measure the run on the intended GPUs",
)
REFERENCE_CUT = template(
    "training.formula-reference-cut", "the reference model, shared out as the trained one: {total} / {ranks} = {part} B"
)
