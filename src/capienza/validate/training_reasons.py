"""Why a training case, or one figure of it, is not compared."""

from __future__ import annotations

from capienza.errors import template

NO_ARCHITECTURE = template("validate.training-no-architecture", "the case does not state the model's dimensions")
NO_DIMENSIONS = template("validate.training-dimensions-missing", "the case does not state {names}")
BAD_DIMENSION = template("validate.training-dimension", "{key} is {found}; accepted: {accepted}")
UNKNOWN_FAMILY = template(
    "validate.training-family",
    "{model} names no family that is known, and no family with these dimensions has {stated} parameters",
)
UNKNOWN_NAME = template(
    "validate.training-family-unknown", "{model} names no family that is known, and the case states no parameter count"
)
OTHER_COUNT = template(
    "validate.training-other-count",
    "the dimensions give {found} parameters as {family}, the case states {stated}",
)
NOT_DESCRIBED = template("validate.training-not-described", "the dimensions are not understood: {why}")
NO_LANGUAGE_MODEL = template(
    "validate.training-no-language-model", "{model} is no language model: image and speech models go through the trace"
)
ONE_OPERATION = template("validate.training-one-operation", "the case measures one operation, not a training: {method}")
OTHER_HEAD = template("validate.training-other-head", "the model has another head than a language model's: {loss}")
OTHER_METHOD = template("validate.training-method", "the method {method} is not one that is predicted")
OTHER_OPTIMIZER = template("validate.training-optimizer", "the optimizer {found} is not one that is predicted")
OTHER_WEIGHTS = template("validate.training-weights", "the weight format {found} is not one that is predicted")
SEVERAL_RUNS = template("validate.training-several", "the case names several models or settings at once: {found}")
NO_LENGTH = template("validate.training-length", "the length of the sequences is not stated")
NO_MICROBATCH = template("validate.training-microbatch", "the microbatch is not stated")
NO_RANK = template("validate.training-rank", "the rank of the adapters is not stated")
BAD_VALUE = template("validate.training-value", "{key} is {found}; accepted: {accepted}")
OFFLOADED = template("validate.training-offloaded", "a part of the model waits in main memory: {what}")
SEVERAL_GPUS = template("validate.training-several-gpus", "how several GPUs share the work is not predicted yet")
NOT_COVERED = template("validate.training-not-covered", "not predicted: {why}")
MEAN_OF_STEPS = template("validate.training-mean", "the figure is one of many steps, not a peak: {phase}")
UNKNOWN_COUNTER = template("validate.training-counter", "which counter this is, the case does not say ({counter})")
NO_SUCH_FIGURE = template("validate.training-no-figure", "this figure is not predicted for such a case: {kind}")
NOT_A_READING = template("validate.training-reading", "{key} is {found}; a reading is an object with its bytes")
NO_BYTES = template("validate.training-no-bytes", "the unit of the figure is ambiguous, so its bytes are not known")
NEAR_THE_CARD = template(
    "validate.training-near-the-card",
    "the device is {share} % full: there the allocator gives back what it keeps, and the reading shows no need",
)
PROSE = template("validate.training-prose", "the figure is a rounded one from a text, and may be the card's size")
UNDER_HALF = template(
    "validate.training-under-half",
    "by its own count the case states less than half of what a run is told by ({completeness})",
)
SUSPICIOUS = template("validate.training-suspicious", "the case itself says that the figure is odd")
OTHER_CARDS = template("validate.pipeline-cards", "what lies outside of PyTorch is not known for {gpu}")
COMPILED = template("validate.training-compiled", "what a compiled program or one in fp8 holds is not predicted")
STOPPED = template(
    "validate.training-stopped",
    "the prediction stopped ({what})",
    "please report it with the case: an unknown model should be refused by name",
)
OTHER_ADAPTERS = template(
    "validate.training-other-adapters",
    "the adapters as stated have {found} parameters, the case says that {stated} are trained",
)
