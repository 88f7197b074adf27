"""Formulas and sources of a training's entries, as templates."""

from __future__ import annotations

from capienza.errors import template

ROUNDING = template(
    "training.formula-rounding", "every tensor is a block of whole 512 B: {total} B more than the weights hold"
)
WIDENED = template(
    "training.formula-widened",
    "what is not quantised is held in fp32 rather than {dtype} ({rest} parameters, {kept}): {total} B more",
)
ALL_OF_IT = template("training.all-of-it", "all of them")
BUT_EMBEDDINGS = template("training.but-embeddings", "embedding and head excepted")
UNTIED = template(
    "training.formula-untied", "a head of its own beside the embedding that the model ties it to: {total} B"
)
BUFFERS = template("training.formula-buffers", "tables that the program makes for positions and masks: {total} B")
REFERENCE = template("training.formula-reference", "the reference model, frozen beside the trained one: {total} B")
ADAPTERS = template(
    "training.formula-adapters",
    "rank {rank}, {parameters} parameters beside {count} matrices ({targets}) x {size} B, in blocks: {total} B",
)
COPIES = template(
    "training.formula-copies", "{names} trained whole beside the frozen original: {parameters} parameters, {total} B"
)
GRADIENTS = template(
    "training.formula-gradients", "one gradient for each of {parameters} trained parameters, in its format: {total} B"
)
ONE_GRADIENT = template(
    "training.formula-one-gradient", "each gradient goes as soon as its parameter is updated; the largest: {total} B"
)
STATES = template(
    "training.formula-states",
    "{optimizer}: {per_parameter} B for each of {parameters} trained parameters, in blocks: {total} B",
)
MANAGED = template(
    "training.formula-managed",
    "paged states lie in memory that the driver moves between host and GPU, outside of PyTorch's counters: {total} B",
)
FOREACH = template(
    "training.formula-foreach",
    "{optimizer} runs over all tensors at once and takes {lists} more of their size: {total} B",
)
NO_TRANSIENT = template("training.formula-no-transient", "{optimizer} updates in place: nothing more than states")
ONE_TENSOR = template(
    "training.formula-one-tensor",
    "{optimizer} runs tensor by tensor; its temporaries for the largest, of {elements} elements: {total} B",
)
LOADING = template(
    "training.formula-loading", "at most {peak} B while weights are loaded, of which {stays} B stay: {total} B more"
)
SLACK = template(
    "training.formula-slack",
    "what quantising the weights freed left blocks too large to be split, {total} B beyond what they hold",
)
WORKSPACES = template(
    "training.formula-workspaces", "cuBLAS takes one for the main thread and one for autograd's: {count} x {size} B"
)
BATCH = template(
    "training.formula-batch",
    "{tensors} x 8 B x {tokens} tokens of the last batch, and {scalars} B of single numbers that the loop keeps",
)
KEPT_OUTPUTS = template(
    "training.formula-kept-outputs", "the loop keeps the outputs: logits of {tokens} tokens x {vocabulary} x {size} B"
)
NOTHING_KEPT = template(
    "training.formula-saving", "each tensor goes to the host by itself: nothing more than what is there"
)
MERGE = template(
    "training.formula-merge", "adapters are merged matrix by matrix; for the largest its temporaries take {total} B"
)
PASS = template(
    "training.formula-pass", "when the pass holds most, {where}: {tokens} tokens x {per_token} B = {total} B"
)
PASS_GRADIENTS = template(
    "training.formula-pass-gradients", "gradients that are there when the pass holds most, {where}: {total} B"
)
IN_LAYER = template("training.in-layer", "in layer {layer}")
AT_PART = template("training.at-part", "at its part {part}")
BY_TRACE = template(
    "training.proof-by-trace",
    "the program itself, run on fake tensors through the trace, or peaks by phase on the intended card",
    "capienza trace CARD",
)
BY_HEADERS = template(
    "training.proof-by-headers",
    "the headers of the model's own files",
    "name the model by its id, or a folder with them",
)
MERGED_ON_HOST = template("training.formula-merged-on-host", "adapters are merged in main memory, not on the GPU")
KEPT_LOGITS = template(
    "training.formula-kept-logits",
    "{rows} rows x {row} B of logits wait for the end, and while the last are joined to them they are there twice: "
    "{total} B above the pass",
)
CONTEXT = template("training.formula-context", "{release}: {least_bytes} at the start, {most_bytes} at work")
CONTEXT_ONCE = template("training.formula-context-once", "{release}: {most_bytes}")
CONTEXT_AT_START = template(
    "training.formula-context-at-start",
    "{release}: {most_bytes} at the start; kernels of a training add up to {added_bytes} where that was read",
)
CONTEXT_ELSEWHERE = template(
    "training.formula-context-elsewhere",
    "not read on this card: on {readings} others, those of its compute capability where there are any, {least_bytes} "
    "to {most_bytes}, and up to {ceiling_bytes} with a training's kernels",
)
KEPT = template(
    "training.formula-kept", "{reserved_bytes} reserved at most up to here, {allocated_bytes} allocated at most"
)
SPREAD = template(
    "training.formula-spread",
    "{behind} {factor} x the {above_bytes} expected to be allocated above the weights",
)
CEILING = template(
    "training.formula-ceiling", "{formula}; ceiling: {behind} {factor} x the {expected_bytes} expected by this counter"
)
DEVICE_SPREAD = template(
    "training.formula-device-spread",
    "{behind} {factor} x the {expected_bytes} expected by the driver's counter: what is left of it above the ceilings "
    "of all other entries, up to the card's end",
)
NO_CASES = template(
    "training.formula-no-cases",
    "no measured case stands behind it: twice what is expected and not exact ({expected_bytes}) is taken",
)
ROLLOUT = template("training.formula-rollout", "the engine beside the trainer takes {share} of {total_bytes}")
ROLLOUT_CACHE = template(
    "training.formula-rollout-cache", "completions of one update, {rows} rows x ({layers}) = {total} B"
)
SAMPLED = template(
    "training.formula-sampled",
    "the next token of each row is drawn from its logits, copied and made probabilities: {rows} rows x {vocabulary} x "
    "{size} B = {total} B",
)
CACHE_WIDENING = template(
    "training.formula-cache-widening",
    "one layer's keys are joined to the new ones, or keys and values repeated for every head: {rows} rows x {tokens} "
    "tokens, {total} B",
)
ASLEEP = template(
    "training.formula-asleep",
    "libraries and handles that a sleeping engine keeps, as one project's profiles measured them: {total} B",
)
SOURCES = template("training.source", "{sources}")
READING = template(
    "training.proof-context",
    "the driver's reading of the process less torch.cuda.memory_reserved, on that card",
    "measure the run on the intended card",
)
PHASE_PEAKS = template(
    "training.proof-phase-peaks",
    "peaks by phase ({phases}), read on the intended card at the required dimensions",
    "run the complete load once on the intended card and keep the counters of each phase",
)
