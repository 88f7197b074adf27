"""TensorFlow and JAX. Sizes of their pool are of a share of the card, not of the card."""

from __future__ import annotations

from capienza.logs.said import enters, said

_NODE = r"OOM when allocating tensor(?:[^\[]|\[(?!\[))*\[\[(?:Node: |\{\{node )"
"""Up to the name of the first node, which is the one that failed."""

ROWS = (
    said(
        "tf.not-a-failure",
        "the caller indicates that this is not a failure",
        is_fatal=False,
        memory="device",
        rank="notice",
    ),
    said(
        "tf.initialiser",
        "oom when allocating tensor",
        _NODE + r"\S*(?:Initializer|initial_value|/Assign|restore)",
        phase="load",
        memory="device",
        is_wrapped=True,
    ),
    said(
        "tf.backward",
        "oom when allocating tensor",
        _NODE + r"\S*(?:gradients/|_grad/|Grad)",
        phase="backward",
        memory="device",
        is_wrapped=True,
    ),
    said(
        "tf.optimizer",
        "oom when allocating tensor",
        _NODE + r"\S*(?:Adam|Momentum|RMSProp|Adagrad|train_op|optimizer|Optimizer)",
        phase="optimizer_step",
        memory="device",
        is_wrapped=True,
    ),
    said(
        "tf.forward",
        "oom when allocating tensor | resource exhausted: oom",
        r"(?:OOM when allocating tensor|Resource exhausted: OOM)(?:.{0,600}?device:GPU:<gpu>)?",
        rank="error",
        phase="forward",
        memory="device",
        is_wrapped=True,
    ),
    said(
        "tf.bfc",
        "ran out of memory trying to allocate",
        r"Allocator \(GPU_<gpu>_bfc\) ran out of memory trying to allocate <requested>(?!.{0,300}not a failure)",
        memory="device",
    ),
    said(
        "tf.allocate",
        "from device: cuda_error_out_of_memory",
        r"failed to allocate \S+ \(<requested>\) from device",
        phase="startup",
        memory="device",
        is_fatal=False,
    ),
    said(
        "tf.host",
        "allocation of | exceeds 10% of free system memory",
        r"Allocation of <requested> exceeds \d+% of (?:free )?system memory",
        unit="B",
        rank="notice",
        memory="host",
        is_fatal=False,
    ),
    said(
        "tf.exhausted",
        "resourceexhaustederror",
        r"ResourceExhaustedError",
        rank="error",
        memory="device",
    ),
    said(
        "tf.missing",
        "could not load dynamic library | cannot dlopen some gpu libraries | dnn library is not found",
        rank="notice",
        phase="environment",
        cause="compatibility",
        memory="no",
        is_fatal=False,
    ),
    said(
        "jax.allocate",
        "out of memory while trying to allocate | out of memory allocating | failed to allocate request for",
        r"(?:Out of memory (?:while trying to allocate|allocating) |Failed to allocate request for \S+ \()<requested>"
        r"(?:\) on device ordinal <gpu>)?",
        unit="B",
        memory="device",
    ),
    said(
        "jax.compile",
        "ran out of memory in memory space",
        r"Ran out of memory in memory space \w+\. Used <requested> of <total>",
        phase="",
        memory="device",
        is_wrapped=True,
    ),
    said(
        "jax.exhausted",
        "resource_exhausted",
        r"RESOURCE_EXHAUSTED",
        rank="error",
    ),
    enters(
        "tf.card",
        "totalmemory:",
        "*",
        r"totalMemory: <total> freeMemory: <free>",
    ),
    enters(
        "tf.device",
        "created tensorflow device",
        "*",
        r"device:GPU:<gpu>",
    ),
    enters(
        "tf.limit",
        "limit:",
        "*",
        r"^\s*Limit: <total>\s*$",
    ),
    enters(
        "tf.in-use",
        "inuse:",
        "*",
        r"^\s*InUse: <allocated>\s*$",
    ),
)
