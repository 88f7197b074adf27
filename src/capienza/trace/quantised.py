"""bitsandbytes on fake tensors: its own code for CUDA runs, with a native library whose functions do nothing.

Each operation of bitsandbytes for CUDA is a Python function that takes memory with `torch.empty` and then calls the
native library. That function is run as it is, so that what it takes besides its result (a dequantised weight, int32
products) is seen, and so is its choice between a fused kernel and dequantising, which asks for the card. The fake
kernels that bitsandbytes registers show results alone. Seen with bitsandbytes 0.50. Before 0.46 it registered no
operations: those functions are called directly, and meet the same silent library. Seen with 0.42 and 0.43.

Paged optimizers keep their states in managed memory, which the driver moves between the host and the GPU and which the
caching allocator does not count: here they lie on the host.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import types
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from capienza.errors import template
from capienza.trace.swap import swapped

if TYPE_CHECKING:
    from capienza.trace.tracker import Tracker

NO_KERNELS = template(
    "trace.no-bitsandbytes-kernels",
    "what bitsandbytes takes inside its operations is not counted: its code for CUDA is not where it was ({error})",
    "use a release that was tried: 0.50",
)
PAGED = template(
    "trace.paged-states",
    "{size_bytes} of optimizer states lie in managed memory, which the driver moves between the host and the GPU: "
    "they are in no figure of the allocator",
    "measure the process on the intended card",
)
LIBRARY = "bitsandbytes"
BACKENDS = (f"{LIBRARY}.backends.default.ops", f"{LIBRARY}.backends.cuda.ops")
"""What is registered for CUDA replaces what is registered for every device."""
UPDATES = "optimizer_update"
"""Operations whose names begin so write in place and take nothing."""
RAW_STREAM = "_cuda_getCurrentRawStream"


class _Silent(int):
    """Stands for the native library, its functions and what they answer: 0, and it can be called and asked."""

    def __getattr__(self, name: str) -> _Silent:
        if name.startswith("__"):
            raise AttributeError(name)
        made = _Silent()
        setattr(self, name, made)
        return made

    def __call__(self, *_args: object, **_kwargs: object) -> _Silent:
        return _Silent()


class _Functions(dict[str, tuple[_Silent, ...]]):
    """Stands for a table of functions of the native library, which older releases make only beside a GPU."""

    def __contains__(self, _name: object) -> bool:
        return True

    def __missing__(self, _name: str) -> tuple[_Silent, ...]:
        return (_Silent(),) * 3


TABLES = ("str2optimizer32bit", "str2optimizer8bit", "str2optimizer8bit_blockwise")


def is_older() -> bool:
    """Is the installed release one that registers no operations?"""
    return importlib.util.find_spec(LIBRARY) is not None and importlib.util.find_spec(f"{LIBRARY}._ops") is None


def kernels(tracker: Tracker) -> dict[Any, Callable[..., Any]]:
    """What runs the operations of bitsandbytes that take memory. Where there is none, their fake kernels do."""
    if tracker.device_type != "cuda" or is_older():
        return {}
    try:
        kernels = _kernels()
    except (ImportError, AttributeError) as error:
        tracker.unknown[NO_KERNELS.code] = NO_KERNELS(error=f"{type(error).__name__}: {error}")
        return {}
    found: dict[Any, Callable[..., Any]] = {}
    for name, kernel in kernels.items():
        operation, _, overload = name.partition(".")
        if not operation.startswith(UPDATES):
            found[getattr(getattr(torch.ops.bitsandbytes, operation), overload or "default")] = torch.no_grad()(kernel)
    return found


def changes() -> list[tuple[Any, str, Any]]:
    """What has to be another in bitsandbytes, if the program has imported it."""
    functional = sys.modules.get(f"{LIBRARY}.functional")
    if functional is None:
        return []

    def get_paged(*shape: int, dtype: torch.dtype = torch.float32, device: torch.device | None = None) -> torch.Tensor:
        made = torch.empty(shape, dtype=dtype, device="cpu")
        made.is_paged, made.page_deviceid = True, 0 if device is None else device.index  # type: ignore[attr-defined]
        return made

    def nothing(*_args: object, **_kwargs: object) -> None:
        return None

    direct: list[tuple[Any, str, Any]] = []
    if is_older():
        direct = [(functional, "lib", _Silent()), (functional, "get_ptr", _Silent())]
        direct += [(functional, table, _Functions()) for table in TABLES]
    return [
        *direct,
        # Quantiles of the first trace would be met by the next, which refuses fake tensors of another.
        (functional, "name2qmap", {}),
        (functional.GlobalPageManager.get_instance(), "paged_tensors", []),
        (functional, "get_paged", get_paged),
        (functional, "fill", nothing),
        (functional, "prefetch_tensor", nothing),
    ]


def paged_bytes(optimizer: torch.optim.Optimizer) -> int:
    """Bytes of an optimizer's states that lie in managed memory."""
    return sum(
        value.nbytes
        for states in optimizer.state.values()
        if isinstance(states, dict)
        for value in states.values()
        if getattr(value, "is_paged", False)
    )


def parts(module: torch.nn.Module) -> Iterator[torch.Tensor]:
    """Tensors that belong to a module's quantised weight and are no parameters: scales, tables, offsets."""
    weight = getattr(module, "weight", None)
    for holder in (getattr(weight, "quant_state", None), getattr(weight, "SCB", None), getattr(module, "state", None)):
        yield from _tensors(holder)


def quantise_linears(
    model: torch.nn.Module,
    kind: str = "nf4",
    *,
    double_quant: bool = True,
    compute_dtype: torch.dtype = torch.bfloat16,
    skip: tuple[str, ...] = ("lm_head",),
    threshold: float = 6.0,
    device: str = "cuda",
) -> torch.nn.Module:
    """Put bitsandbytes' layers in the place of every `Linear`, as transformers does when it loads a model quantised.

    `kind` is `nf4`, `fp4` or `int8`; `threshold` is that of outliers in int8. Names in `skip`, or below them, stay as
    they are. Layers are quantised one by one in their dtype. Of a model made on `meta` each weight comes to the device
    when its turn is, as when a checkpoint is loaded; the rest follows it.
    """
    layers = importlib.import_module(f"{LIBRARY}.nn")
    for name, module in list(model.named_modules()):
        if type(module) is not torch.nn.Linear or _is_skipped(name, skip):
            continue
        sizes = module.in_features, module.out_features, module.bias is not None
        with torch.device("meta"):
            if kind == "int8":
                made = layers.Linear8bitLt(*sizes, has_fp16_weights=False, threshold=threshold)
            else:
                made = layers.Linear4bit(*sizes, compute_dtype, compress_statistics=double_quant, quant_type=kind)
        made.requires_grad_(False)
        weight = _arrived(module.weight.data, device)
        if kind == "int8":
            # It is quantised on its way from the host.
            data = layers.Int8Params(weight.to("cpu"), requires_grad=False)
        else:
            told = {"compress_statistics": double_quant, "quant_type": kind, "module": made}
            data = layers.Params4bit(weight, requires_grad=False, **told)
        made.weight = data.to(weight.device)
        if module.bias is not None:
            made.bias = torch.nn.Parameter(module.bias.data, requires_grad=False)
        made.train(module.training)
        model.set_submodule(name, made)
    model._apply(lambda tensor: _arrived(tensor, device))
    model.is_loaded_in_8bit = kind == "int8"  # type: ignore[assignment]
    model.is_loaded_in_4bit = kind != "int8"  # type: ignore[assignment]
    return model


def _arrived(tensor: torch.Tensor, device: str) -> torch.Tensor:
    return torch.empty_like(tensor, device=device) if tensor.is_meta else tensor


def _is_skipped(name: str, skip: tuple[str, ...]) -> bool:
    return any(f".{one}." in f".{name}." for one in skip)


def _kernels() -> dict[str, Callable[..., Any]]:
    """Its functions for CUDA by the name of the operation. Loaded anew for every trace: they remember the card."""
    found: dict[str, Callable[..., Any]] = {}

    def register_kernel(name: str, _backend: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def keep(function: Callable[..., Any]) -> Callable[..., Any]:
            found[name.partition("::")[2]] = function
            return function

        return keep

    changed = (
        (importlib.import_module(f"{LIBRARY}._ops"), "register_kernel", register_kernel),
        (importlib.import_module(f"{LIBRARY}.cextension"), "lib", _Silent()),
        (torch._C, RAW_STREAM, lambda _device: 0),
    )
    with contextlib.ExitStack() as undo:
        for owner, attribute, value in changed:
            undo.enter_context(swapped(owner, attribute, value))
        for name in BACKENDS:
            module = _private(name)
            module.CUBLAS_Context = module.get_ptr = _Silent()  # type: ignore[attr-defined]
    return found


def _private(name: str) -> types.ModuleType:
    """A copy of a module that nobody else sees."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        raise ImportError(name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _tensors(holder: object) -> Iterator[torch.Tensor]:
    if isinstance(holder, torch.Tensor):
        yield holder
    elif type(holder).__module__.startswith(LIBRARY):
        for value in vars(holder).values():
            if isinstance(value, torch.Tensor):
                yield value
            elif type(value) is type(holder):
                yield from _tensors(value)
