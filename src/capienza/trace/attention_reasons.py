"""Why an attention kernel does not take a call, and what the choice of a kernel had to assume."""

from __future__ import annotations

from capienza.errors import template

SWITCHED_OFF = template("trace.attention.switched-off", "the program switched it off")
NOT_4D = template(
    "trace.attention.not-4d", "query, key and value have {query}, {key} and {value} dimensions; it needs 4"
)
HAS_MASK = template("trace.attention.mask", "it takes no mask")
HEAD_SIZES = template(
    "trace.attention.head-sizes", "heads of {query}, {key} and {value} (query, key, value): it needs {accepted}"
)
EQUAL_HEADS = template("trace.attention.equal-heads", "equal sizes, at most 256")
ALIGNED_HEADS = template("trace.attention.aligned-heads", "query and key alike, multiples of {step}")
HEADS_OF_EIGHT = template("trace.attention.heads-of-eight", "multiples of 8, at most {limit}")
TRAINED_HEADS = template(
    "trace.attention.trained-heads", "at most 128, 192 over 128, or 256, where a backward pass follows"
)
CAPABILITY = template(
    "trace.attention.capability", "it runs on compute capability {lowest} to {highest}, not on {found}"
)
TRAINING_HEAD = template(
    "trace.attention.training-head",
    "on compute capability {found} it does not train heads of {size} (193 to 224, or above 224 with dropout)",
)
CAUSAL_LENGTHS = template(
    "trace.attention.causal-lengths", "with is_causal it needs as many queries as keys, not {queries} and {keys}"
)
TYPE = template("trace.attention.type", "types {query}, {key} and {value}: on this card it takes {accepted}")
BATCHES = template("trace.attention.batches", "batches of {query}, {key} and {value} (query, key, value) differ")
HEADS = template(
    "trace.attention.heads", "{query}, {key} and {value} heads (query, key, value) differ, and enable_gqa is not set"
)
GROUPS = template(
    "trace.attention.groups", "{query} heads of query over {key} and {value} of key and value cannot be grouped"
)
NO_GROUPS = template("trace.attention.no-groups", "it takes no grouped heads ({query} over {key})")
EMPTY = template("trace.attention.empty", "no query or no key")
STRIDE = template("trace.attention.stride", "the last dimension of query, key, value or mask is not contiguous")
ALIGNMENT = template("trace.attention.alignment", "query, key or value does not begin at a multiple of {bytes} bytes")
NESTED = template("trace.attention.nested", "nested tensors")
MASK_SHAPE = template("trace.attention.mask-shape", "a mask of {found} does not spread to {accepted}")
MASK_GRADIENT = template("trace.attention.mask-gradient", "a gradient is asked of the mask")
NOT_DETERMINISTIC = template("trace.attention.not-deterministic", "deterministic algorithms are asked for")
DROPOUT = template("trace.attention.dropout", "a dropout of {found}: it takes {accepted}")
CUDNN_RELEASE = template("trace.attention.cudnn-release", "cuDNN {found} has no such kernel")
LENGTHS = template(
    "trace.attention.lengths",
    "{queries} queries and {keys} keys: it needs more than one key, and with dropout more than one query",
)
TOO_MANY = template("trace.attention.too-many", "a batch of {batch} or {heads} heads: it takes at most {accepted}")

CUDNN_ASSUMED = template(
    "trace.attention.cudnn-assumed", "cuDNN {version} is assumed: the one that PyTorch {release} is built with"
)
RULE_UNVERIFIED = template(
    "trace.attention.rule-unverified",
    "this rule changed about PyTorch {release}; which of the two holds is not verified",
)
AS_VERSION_2 = template(
    "trace.attention.as-version-2",
    "FlashAttention 3 is traced as FlashAttention 2: it keeps the same tensors; what its backward pass needs besides "
    "is not verified",
)
