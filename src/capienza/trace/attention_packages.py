"""`flash_attention_2` and `flash_attention_3` of transformers, traced without the packages that bring them.

transformers finds these packages installed while `installed` is active, and gets functions that run PyTorch's own
copy of the same kernels on fake tensors: same outputs, same tensors kept for the backward pass, heads padded to a
multiple of 8 and cut after. Unpadding, packing and the choice between the dense and the variable-length function stay
those of transformers. Sources: flash_attn/flash_attn_interface.py (2.8), hopper/flash_attn_interface.py (3), and
modeling_flash_attention_utils.py of transformers 5.24.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from capienza.trace import attention_older
from capienza.trace import attention_reasons as why
from capienza.trace.attention import described
from capienza.trace.attention_call import Call, Choice
from capienza.trace.attention_run import padded
from capienza.trace.swap import swapped

VERSION_2, VERSION_3 = "flash_attention_2", "flash_attention_3"
HEAD_STEP, LARGEST_HEAD = 8, 256
KIND = inspect.Parameter.POSITIONAL_OR_KEYWORD
PACKED = ("cu_seqlens_q", "cu_seqlens_k", "max_seqlen_q", "max_seqlen_k")
_SHARED: dict[str, Any] = {"softmax_scale": None, "causal": False, "window_size": (-1, -1), "softcap": 0.0}
PARAMETERS: dict[str, dict[str, Any]] = {
    VERSION_2: {"dropout_p": 0.0, **_SHARED, "alibi_slopes": None, "deterministic": False, "return_attn_probs": False},
    VERSION_3: {**_SHARED, "deterministic": False},
}

REMEMBERED = (
    "_loaded_implementation", "_flash_fn", "_flash_varlen_fn", "_flash_with_kvcache_fn", "_pad_fn", "_unpad_fn",
    "_process_flash_kwargs_fn", "_process_with_kvcache_kwargs_fn",
)  # fmt: skip
"""What transformers remembers of the package it loaded."""
LOADING, MODELS = "transformers.modeling_flash_attention_utils", "transformers.modeling_utils"

Report = Callable[[Choice, Call], None]


@contextlib.contextmanager
def installed(capability: tuple[int, int], on_choice: Report) -> Iterator[None]:
    """While active, transformers runs these attention implementations, also where it is imported only then."""
    with contextlib.ExitStack() as undo:

        def change() -> None:
            for owner, name, value in _changes(capability, on_choice):
                undo.enter_context(swapped(owner, name, value))

        if MODELS in sys.modules:
            change()
        else:
            finder = _AfterImport(MODELS, change)
            sys.meta_path.insert(0, finder)
            undo.callback(finder.remove)
        yield


def _changes(capability: tuple[int, int], on_choice: Report) -> Iterator[tuple[Any, str, Any]]:
    """What is set to what: in the module that loads the packages, and in the class of all models."""
    loading, models = importlib.import_module(LOADING), importlib.import_module(MODELS)
    functions = {version: _functions(version, capability, on_choice) for version in (VERSION_2, VERSION_3)}
    if attention_older.is_older(loading):
        yield from attention_older.changes(loading, models, *functions[VERSION_2])
        return
    load_before, dispatch_before = loading._lazy_imports, models.PreTrainedModel._flash_attn_can_dispatch

    def load(implementation: str | None, *rest: Any, **named: Any) -> Any:
        if implementation not in functions:
            return load_before(implementation, *rest, **named)
        return *functions[implementation], None, loading._pad_input, loading._unpad_input

    def can_dispatch(model: Any, flash_attn_version: int, is_init_check: bool = False) -> bool:
        known = flash_attn_version in (2, 3) and model._supports_flash_attn
        return known or bool(dispatch_before(model, flash_attn_version, is_init_check))

    present = {
        version: {**entry, "general_availability_check": lambda *_told, **_named: True} if version in (2, 3) else entry
        for version, entry in loading.FLASH_ATTENTION_COMPATIBILITY_MATRIX.items()
    }
    for name in REMEMBERED:
        yield loading, name, None
    yield loading, "_lazy_imports", load
    yield models.PreTrainedModel, "_flash_attn_can_dispatch", can_dispatch
    # The module of models has the table under its own name.
    yield models, "FLASH_ATTENTION_COMPATIBILITY_MATRIX", present


class _AfterImport(importlib.abc.MetaPathFinder):
    """Calls a function as soon as a module has been imported."""

    def __init__(self, name: str, call: Callable[[], None]) -> None:
        self.name, self.call = name, call

    def find_spec(self, fullname: str, *_told: Any) -> importlib.machinery.ModuleSpec | None:
        """The module's own specification, with the call after its execution."""
        if fullname != self.name:
            return None
        self.remove()
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def then(module: ModuleType) -> None:
            execute(module)
            self.call()

        spec.loader.exec_module = then  # type: ignore[method-assign]
        return spec

    def remove(self) -> None:
        """Listen no more."""
        with contextlib.suppress(ValueError):
            sys.meta_path.remove(self)


def _functions(version: str, capability: tuple[int, int], on_choice: Report) -> tuple[Callable[..., Tensor], ...]:
    """The dense and the variable-length function, with the parameters by which transformers tells what they can do."""
    return tuple(_function(version, packed, capability, on_choice) for packed in ((), PACKED))


def _function(
    version: str, packed: tuple[str, ...], capability: tuple[int, int], on_choice: Report
) -> Callable[..., Tensor]:
    required = [inspect.Parameter(name, KIND) for name in ("q", "k", "v", *packed)]
    optional = [inspect.Parameter(name, KIND, default=value) for name, value in PARAMETERS[version].items()]
    signature = inspect.Signature([*required, *optional])

    def attend(*operands: Any, **named: Any) -> Tensor:
        bound = signature.bind(*operands, **named)
        bound.apply_defaults()
        told = bound.arguments
        query, key, value = told["q"], told["k"], told["v"]
        dropout = told.get("dropout_p", 0.0)
        _check(query, capability)
        inputs = [operand if packed else operand.transpose(1, 2) for operand in (query, key, value)]
        assumed = () if version == VERSION_2 else (why.AS_VERSION_2(),)
        on_choice(Choice(version, assumed=assumed), described(inputs, None, dropout, told["causal"], False))
        lengths = (
            (told["cu_seqlens_q"], told["cu_seqlens_k"], int(told["max_seqlen_q"]), int(told["max_seqlen_k"]))
            if packed
            else (None, None, query.shape[1], key.shape[1])
        )
        return _attend(query, key, value, lengths, dropout, told["softmax_scale"], told["causal"], told["window_size"])

    attend.__signature__ = signature  # type: ignore[attr-defined]
    return attend


def _attend(
    query: Tensor, key: Tensor, value: Tensor, lengths: tuple[Any, ...], dropout: float, scale: float | None,
    causal: bool, window: tuple[int, int],
) -> Tensor:  # fmt: skip
    size = query.shape[-1]
    scale = size**-0.5 if scale is None else scale
    operands = [padded(operand, HEAD_STEP) for operand in (query, key, value)]
    operands = [operand if operand.stride(-1) == 1 else operand.contiguous() for operand in operands]
    left, right = window
    out: Tensor = torch.ops.aten._flash_attention_forward(
        *operands, *lengths, dropout, causal, False, scale=scale, window_size_left=left, window_size_right=right
    )[0]
    return out if out.shape[-1] == size else out[..., :size]


def _check(query: Tensor, capability: tuple[int, int]) -> None:
    """Raise what the package raises."""
    if capability < (8, 0):
        message = "FlashAttention only supports Ampere GPUs or newer."
        raise RuntimeError(message)
    if query.dtype not in (torch.float16, torch.bfloat16):
        message = "FlashAttention only support fp16 and bf16 data type"
        raise RuntimeError(message)
    if query.shape[-1] > LARGEST_HEAD:
        message = "FlashAttention forward only supports head dimension at most 256"
        raise RuntimeError(message)
