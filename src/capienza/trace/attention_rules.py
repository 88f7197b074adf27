"""Which kernel PyTorch runs for `scaled_dot_product_attention` on a CUDA card.

PyTorch asks the kernels in an order; the first whose conditions all hold runs the call. The conditions, and the order
in which they are tested, are those of `aten/src/ATen/native/transformers/cuda/sdp_utils.cpp` (cited as sdp_utils.cpp;
at pytorch commit 001f694a, and as it was about 2.9 and 2.12) and of `.../transformers/sdp_utils_cpp.h` (2.13.0, shipped
in the wheel). They were read, not run: no choice here was compared with a card.

| rule | since | source |
|---|---|---|
| cuDNN first on capability 9.0 and 10.0 | 2.9 | pull request 162073 |
| ... with cuDNN above 9.15.0, also on 10.3 | 2.10 | pull requests 170800 and 169849; transformers 48163 |
| cuDNN takes a dropout in sixteenths only | 2.12, perhaps 2.11 | pull request 174245 (merged February 2026) |
| cuDNN takes heads above 128 with cuDNN above 9.22 only | 2.13 | pull request 185553 (May 2026) |
| the efficient kernel takes grouped heads; offsets aligned | 2.14 | pull request 191085 (July 2026) |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeAlias

from capienza.errors import Message, Parameter, Template
from capienza.trace import attention_reasons as why
from capienza.trace.attention_call import (
    CUDNN,
    EFFICIENT,
    FLASH,
    HALF_TYPES,
    ITEM_BYTES,
    KERNELS,
    MATH,
    Call,
    Choice,
    Machine,
    Operand,
    Refusal,
)

BUNDLED_CUDNN = {(2, 6): 90100, (2, 7): 90501, (2, 8): 91002, (2, 9): 91002, (2, 10): 91002, (2, 11): 91900}
"""cuDNN of the published wheels. 2.13 needs nvidia-cudnn-cu13 9.20.0.48; that of 2.11 is above 9.15 (transformers
pull request 48163); the others are recalled, not verified."""
NEWEST_BUNDLED_CUDNN = 92000
LARGEST_FUSED_HEAD = 256
CUDNN_GRID_LIMIT = 65535

Reason: TypeAlias = Message | None
Rule: TypeAlias = Callable[[Call, Machine], Reason]


def choose(call: Call, machine: Machine) -> Choice:
    """The kernel for this call. Asks in PyTorch's order; `math` takes everything unless it is switched off."""
    refused: list[Refusal] = []
    for kernel in order(machine):
        if kernel == MATH:
            reason = None if MATH in machine.enabled else why.SWITCHED_OFF()
        else:
            reason = next(_reasons(kernel, call, machine), None)
        if reason is None:
            return Choice(kernel, tuple(refused), tuple(_assumptions(kernel, call, machine)))
        refused.append(Refusal(kernel, reason))
    return Choice(None, tuple(refused), tuple(_assumptions(None, call, machine)))


def order(machine: Machine) -> tuple[str, ...]:
    """The order in which the kernels are asked: the program's, else that of the card."""
    if machine.order is not None:
        return machine.order
    return (CUDNN, FLASH, EFFICIENT, MATH) if prefers_cudnn(machine) else KERNELS


def prefers_cudnn(machine: Machine) -> bool:
    """Is cuDNN asked first? (sdp_utils.cpp, `check_prefer_cudnn_attention`)."""
    major, minor = machine.capability
    if machine.cudnn_first is False or major not in (9, 10):
        return False
    if machine.torch >= (2, 10):
        return cudnn_release(machine) > 91500 and (minor in (0, 3) or machine.torch >= (2, 14))
    return minor == 0 and (machine.torch >= (2, 9) or machine.cudnn_first is True)


def cudnn_release(machine: Machine) -> int:
    """The release of cuDNN: as given, else the one PyTorch brings."""
    if machine.cudnn is not None:
        return machine.cudnn
    return BUNDLED_CUDNN.get(machine.torch, NEWEST_BUNDLED_CUDNN)


def _reasons(kernel: str, call: Call, machine: Machine) -> Iterator[Message]:
    return (reason for rule in RULES[kernel] if (reason := rule(call, machine)) is not None)


def _assumptions(kernel: str | None, call: Call, machine: Machine) -> Iterator[Message]:
    major = machine.capability[0]
    if major in (9, 10) and machine.cudnn is None and CUDNN in machine.enabled and machine.order is None:
        release = cudnn_release(machine)
        version = f"{release // 10000}.{release // 100 % 100}.{release % 100}"
        yield why.CUDNN_ASSUMED(version=version, release=_dotted(machine.torch))
    if machine.torch[:2] == (2, 9) and kernel == CUDNN:
        yield why.RULE_UNVERIFIED(release="2.9")
    largest = max((operand.shape[-1] for operand in (call.query, call.value) if operand.shape), default=0)
    if (
        128 < largest <= LARGEST_FUSED_HEAD
        and machine.torch[:2] == (2, 13)
        and prefers_cudnn(machine)
        and CUDNN in machine.enabled
    ):
        yield why.RULE_UNVERIFIED(release="2.13")


def _is_on(kernel: str, _call: Call, machine: Machine) -> Reason:
    return None if kernel in machine.enabled else why.SWITCHED_OFF()


def _has_four_dimensions(call: Call, _machine: Machine) -> Reason:
    found = {name: len(operand.shape) for name, operand in _inputs(call).items()}
    return None if set(found.values()) == {4} else why.NOT_4D(**found)


def _is_not_nested(call: Call, _machine: Machine) -> Reason:
    # A fused kernel takes nested tensors under conditions on their sizes, which a trace does not know.
    return why.NESTED() if call.is_nested else None


def _has_no_mask(call: Call, _machine: Machine) -> Reason:
    return None if call.mask is None else why.HAS_MASK()


def _has_flash_heads(call: Call, _machine: Machine) -> Reason:
    size = call.query.shape[-1]
    if size == call.key.shape[-1] == call.value.shape[-1] and size <= LARGEST_FUSED_HEAD:
        return None
    return _told(why.HEAD_SIZES, call, -1, accepted=why.EQUAL_HEADS())


def _is_within(lowest: tuple[int, int], _call: Call, machine: Machine) -> Reason:
    highest = (12, 1) if machine.torch >= (2, 7) else (9, 0)
    if lowest <= machine.capability <= highest:
        return None
    return why.CAPABILITY(lowest=_dotted(lowest), highest=_dotted(highest), found=_dotted(machine.capability))


def _trains_such_heads(call: Call, machine: Machine) -> Reason:
    size = call.query.shape[-1]
    small_shared_memory = (8, 6) <= machine.capability <= (8, 9) or (12, 0) <= machine.capability <= (12, 1)
    if not (call.trains and small_shared_memory):
        return None
    if size <= 192 or (size > 224 and call.dropout == 0):
        return None
    return why.TRAINING_HEAD(found=_dotted(machine.capability), size=size)


def _is_square_if_causal(call: Call, _machine: Machine) -> Reason:
    queries, keys = call.query.shape[-2], call.key.shape[-2]
    return why.CAUSAL_LENGTHS(queries=queries, keys=keys) if call.is_causal and queries != keys else None


def _has_type(ampere: tuple[str, ...], older: tuple[str, ...], call: Call, machine: Machine) -> Reason:
    accepted = ampere if machine.capability[0] >= 8 else older
    found = {name: operand.dtype for name, operand in _inputs(call).items()}
    if len(set(found.values())) == 1 and call.query.dtype in accepted:
        return None
    return why.TYPE(accepted=", ".join(accepted), **found)


def _has_matching_heads(kernel: str, call: Call, machine: Machine) -> Reason:
    query, key, value = call.query.shape, call.key.shape, call.value.shape
    if not query[0] == key[0] == value[0]:
        return _told(why.BATCHES, call, 0)
    takes_groups = kernel != EFFICIENT or machine.torch >= (2, 14)
    if not (call.enable_gqa and takes_groups):
        if query[1] == key[1] == value[1]:
            return None
        return why.NO_GROUPS(query=query[1], key=key[1]) if call.enable_gqa else _told(why.HEADS, call, 1)
    # cuDNN alone takes a different number of heads for key and value.
    alike = key[1] == value[1] or kernel == CUDNN
    divides = all(heads and query[1] % heads == 0 for heads in (key[1], value[1]))
    return None if alike and divides else _told(why.GROUPS, call, 1)


def _is_not_empty(call: Call, _machine: Machine) -> Reason:
    return why.EMPTY() if 0 in (call.query.shape[-2], call.key.shape[-2]) else None


def _has_last_stride_one(single_element_excused: bool, call: Call, _machine: Machine) -> Reason:
    plain = all(operand.strides[-1] == 1 for operand in _inputs(call).values())
    plain = plain or (single_element_excused and call.query.shape[-1] == 1)
    return None if plain and (call.mask is None or call.mask.strides[-1] == 1) else why.STRIDE()


def _has_aligned_heads(call: Call, machine: Machine) -> Reason:
    step = head_alignment(call.query.dtype, machine)
    query, key, value = call.query.shape[-1], call.key.shape[-1], call.value.shape[-1]
    if query == key and query > 0 and value > 0 and query % step == 0 and value % step == 0:
        return None
    return _told(why.HEAD_SIZES, call, -1, accepted=why.ALIGNED_HEADS(step=step))


def head_alignment(dtype: str, machine: Machine) -> int:
    """Elements a head must be a multiple of for the efficient kernel (sdp_utils.cpp, `minimum_gemm_alignment`)."""
    major = machine.capability[0]
    is_half = dtype in HALF_TYPES
    step = 4 if major >= 8 else 1
    uses_tensor_cores = major >= 8 or (major == 7 and is_half)
    return max(step, 128 // (16 if is_half else 32)) if uses_tensor_cores else step


def _begins_aligned(call: Call, machine: Machine) -> Reason:
    if machine.torch < (2, 14) or machine.capability[0] < 8:
        return None
    item_bytes = ITEM_BYTES.get(call.query.dtype, 4)
    step_bytes = head_alignment(call.query.dtype, machine) * item_bytes
    aligned = all(
        not operand.elements or operand.offset * item_bytes % step_bytes == 0 for operand in _inputs(call).values()
    )
    return None if aligned else why.ALIGNMENT(bytes=step_bytes)


def _has_cudnn_mask(call: Call, _machine: Machine) -> Reason:
    mask = call.mask
    if mask is None:
        return None
    if mask.requires_grad:
        return why.MASK_GRADIENT()
    batch, heads, queries = call.query.shape[:3]
    wanted = (batch, heads, queries, call.key.shape[2])
    spreads = len(mask.shape) in (2, 4) and all(
        size in (1, full) for size, full in zip(reversed(mask.shape), reversed(wanted), strict=False)
    )
    return None if spreads else why.MASK_SHAPE(found=str(mask.shape), accepted=str(wanted))


def _is_not_deterministic(_call: Call, machine: Machine) -> Reason:
    return why.NOT_DETERMINISTIC() if machine.deterministic else None


def _has_cudnn_dropout(call: Call, machine: Machine) -> Reason:
    release = cudnn_release(machine)
    if call.dropout > 0 and 91100 < release < 91400:
        return why.DROPOUT(found=call.dropout, accepted="0")
    if machine.torch >= (2, 12) and (call.dropout * 16) % 1:
        return why.DROPOUT(found=call.dropout, accepted="n/16")
    return None


def _has_cudnn_shapes(call: Call, machine: Machine) -> Reason:
    batch, heads, queries, size = call.query.shape
    keys, value_size = call.key.shape[2], call.value.shape[3]
    if cudnn_release(machine) < 90000:
        return why.CUDNN_RELEASE(found=cudnn_release(machine))
    if machine.torch >= (2, 14) and max(batch, heads) > CUDNN_GRID_LIMIT:
        return why.TOO_MANY(batch=batch, heads=heads, accepted=CUDNN_GRID_LIMIT)
    limit = _cudnn_head_limit(size, value_size, machine)
    if max(size, value_size) > limit or size % 8 or value_size % 8:
        return _told(why.HEAD_SIZES, call, -1, accepted=why.HEADS_OF_EIGHT(limit=limit))
    if keys == 1 or (queries == 1 and call.dropout):
        return why.LENGTHS(queries=queries, keys=keys)
    return None


def _cudnn_head_limit(size: int, value_size: int, machine: Machine) -> int:
    release, (major, minor) = cudnn_release(machine), machine.capability
    data_centre = (major, minor) == (9, 0) or major == 10
    if machine.torch >= (2, 13):
        if data_centre and release > 92200 and not (machine.capability == (10, 7) and release <= 92500):
            return LARGEST_FUSED_HEAD
        latent = data_centre and release >= 91100 and (size, value_size) == (192, 128)
        return 192 if latent else 128
    if (major, minor) == (9, 0) and release >= 91000:
        return LARGEST_FUSED_HEAD
    latent = major == 10 and release >= 91100 and (size, value_size) == (192, 128)
    return 192 if latent and machine.torch >= (2, 10) else 128


def _trains_such_cudnn_heads(call: Call, machine: Machine) -> Reason:
    sizes = (call.query.shape[3], call.value.shape[3])
    limited = machine.torch >= (2, 13) and _cudnn_head_limit(*sizes, machine) == LARGEST_FUSED_HEAD
    if not (call.trains and limited) or max(sizes) <= 128 or sizes in ((192, 128), (256, 256)):
        return None
    return _told(why.HEAD_SIZES, call, -1, accepted=why.TRAINED_HEADS())


def _inputs(call: Call) -> dict[str, Operand]:
    return {"query": call.query, "key": call.key, "value": call.value}


def _told(said: Template, call: Call, axis: int, **more: Parameter) -> Message:
    """That text, with the size of query, key and value along an axis."""
    return said(**{name: operand.shape[axis] for name, operand in _inputs(call).items()}, **more)


def _dotted(pair: tuple[int, int]) -> str:
    return f"{pair[0]}.{pair[1]}"


RULES: dict[str, tuple[Rule, ...]] = {
    # can_use_flash_attention
    FLASH: (
        partial(_is_on, FLASH),
        _is_not_nested,
        _has_four_dimensions,
        _has_no_mask,
        _has_flash_heads,
        partial(_is_within, (8, 0)),
        _trains_such_heads,
        _is_square_if_causal,
        partial(_has_type, HALF_TYPES, ("float16",)),
        partial(_has_matching_heads, FLASH),
        _is_not_empty,
        partial(_has_last_stride_one, True),
    ),
    # can_use_mem_efficient_attention
    EFFICIENT: (
        partial(_is_on, EFFICIENT),
        _is_not_nested,
        partial(_is_within, (5, 0)),
        _has_four_dimensions,
        _has_aligned_heads,
        _begins_aligned,
        _is_not_empty,
        partial(_has_last_stride_one, False),
        partial(_has_matching_heads, EFFICIENT),
        partial(_has_type, ("float16", "float32", "bfloat16"), ("float16", "float32")),
    ),
    # can_use_cudnn_attention
    CUDNN: (
        partial(_is_on, CUDNN),
        _has_cudnn_dropout,
        _is_not_nested,
        _has_four_dimensions,
        _is_not_deterministic,
        partial(_has_type, HALF_TYPES, ("float16",)),
        _has_cudnn_mask,
        partial(_is_within, (8, 0)),
        _is_not_empty,
        partial(_has_last_stride_one, True),
        partial(_has_matching_heads, CUDNN),
        _has_cudnn_shapes,
        _trains_such_cudnn_heads,
    ),
}
