"""Real values beside small fake tensors, so that a program's questions about them get true answers.

A program asks: is the mask all ones, are positions packed, has every sequence ended? A fake tensor has no values. So a
small tensor that comes from a factory (`arange`, `zeros`, a constant) keeps a real companion on the CPU, operations on
companions make companions, and an operation in place acts on both. A tensor that is written by something without a
companion loses its own. What stays unknown is answered by stated defaults, and each such answer is written down.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch

aten = torch.ops.aten
MOST_WHOLE, MOST_REAL = 1 << 20, 1 << 12
"""Elements of the largest companion: of whole numbers and truth values, and of real numbers."""
FACTORIES = frozenset(
    {
        aten.arange.default, aten.arange.start, aten.arange.start_step, aten.full.default, aten.zeros.default,
        aten.ones.default, aten.linspace.default, aten.lift_fresh.default, aten.eye.default, aten.eye.m,
        aten.scalar_tensor.default, aten.tril_indices.default, aten.triu_indices.default,
    }
)  # fmt: skip
SHAPED = frozenset(
    {
        aten.zeros_like.default, aten.ones_like.default, aten.full_like.default, aten.new_zeros.default,
        aten.new_ones.default, aten.new_full.default,
    }
)  # fmt: skip
"""They read the shape of their argument, not its values."""
EMPTY = frozenset(
    {
        aten.empty.memory_format, aten.empty_like.default, aten.empty_strided.default, aten.new_empty.default,
        aten.new_empty_strided.default,
    }
)  # fmt: skip
CHANCE = (
    "rand", "randn", "rand_like", "randn_like", "multinomial", "bernoulli", "bernoulli_", "native_dropout", "normal",
    "normal_", "uniform_", "random_", "exponential_", "log_normal_", "geometric_", "cauchy_", "poisson", "randperm",
    "randint", "randint_like",
)  # fmt: skip
RANDOM = frozenset(
    getattr(packet, overload) for packet in (getattr(aten, name) for name in CHANCE) for overload in packet.overloads()
)
"""What they give is chance, so no companion tells it."""
WHOLE = frozenset(
    {torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}
)  # fmt: skip
REAL = frozenset({torch.float32, torch.float16, torch.bfloat16, torch.float64})


UNKNOWN = object()


def is_small(tensor: torch.Tensor) -> bool:
    """May it have a companion?"""
    dtype = tensor.dtype
    if dtype in WHOLE:
        return tensor.numel() <= MOST_WHOLE
    return dtype in REAL and tensor.numel() <= MOST_REAL


def of(tensor: torch.Tensor) -> torch.Tensor | None:
    """The companion, if it has one that nothing unknown was written to."""
    value: torch.Tensor | None = getattr(tensor, "_capienza_shadow", None)
    if value is None or getattr(value.untyped_storage(), "is_unknown", False):
        return None
    return value


def give(tensor: torch.Tensor, value: torch.Tensor) -> None:
    """Let `value` be the companion."""
    tensor._capienza_shadow = value  # type: ignore[attr-defined]


def scalar(value: int) -> torch.Tensor:
    """A companion of one number."""
    with torch._C._DisableTorchDispatch():
        return torch.tensor(value)


def forget(tensor: torch.Tensor) -> None:
    """Something whose values are not known was written to it: its views do not know them either."""
    value: torch.Tensor | None = getattr(tensor, "_capienza_shadow", None)
    if value is not None:
        value.untyped_storage().is_unknown = True  # type: ignore[attr-defined]
        del tensor._capienza_shadow  # type: ignore[attr-defined]


def run(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The operation on the companions; `UNKNOWN` where an argument has none, or the operation refuses them."""
    unknown: list[bool] = []

    def companion(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            found = value if is_plain(value) else of(value)
            if found is None:
                unknown.append(True)
            return found
        if isinstance(value, list | tuple):
            return [companion(item) for item in value]
        return value

    real_args = [companion(value) for value in args]
    real_kwargs = {name: companion(value) for name, value in kwargs.items()}
    if unknown:
        return UNKNOWN
    if "device" in real_kwargs:
        real_kwargs["device"] = torch.device("cpu")
    if real_kwargs.get("pin_memory"):
        real_kwargs["pin_memory"] = False
    try:
        with torch._C._DisableTorchDispatch():
            return func(*real_args, **real_kwargs)
    except (RuntimeError, NotImplementedError, IndexError, TypeError, ValueError):
        return UNKNOWN


def is_plain(tensor: torch.Tensor) -> bool:
    """A tensor with values of its own: made before the trace, or by C++."""
    return type(tensor) in (torch.Tensor, torch.nn.Parameter)


def tensors_in(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    """Every tensor among arguments or results, in lists too."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from tensors_in(value)
