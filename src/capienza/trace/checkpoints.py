"""Files of weights in a traced program: what is read becomes fake tensors, and nothing is written.

safetensors reads into an address that it asks a tensor for, and writes from one. Fake tensors have none, so both would
end the process. Its files are opened in main memory instead, outside the modes of a trace, and brought to the device
that was asked for as any tensor is. What torch.save did not write, torch.load says.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
from collections.abc import Callable, Iterator
from typing import Any

import torch

from capienza.errors import UsageError, template
from capienza.trace.rebind import rebound
from capienza.trace.swap import swapped
from capienza.trace.tracker import Tracker

NOT_SAVED = template("trace.not-saved", "{name} wrote nothing: tensors without data are no checkpoint")
NOT_LOADED = template(
    "trace.not-loaded",
    "the program loads {file}, which it saved while it was traced: nothing was written",
    "keep the state dict in memory, or load a checkpoint that was there before the trace",
)
FILE = ("f", "filename")
"""What these functions call the file."""
IN_BACKGROUND = "HF_DEACTIVATE_ASYNC_LOAD"
"""Transformers reads weights in threads of its own, which know nothing of a trace."""


@contextlib.contextmanager
def followed(tracker: Tracker) -> Iterator[None]:
    """Inside, files of weights are read for fake tensors, and none is written."""
    unwritten: dict[Any, Any] = {}
    real_load = torch.load

    def saver(name: str, place: int) -> Callable[..., None]:
        def save(*args: Any, **named: Any) -> None:
            told = NOT_SAVED(name=name)
            tracker.assumed[str(told)] = told
            for file in (*args[place : place + 1], *(named[one] for one in FILE if one in named)):
                unwritten[_key(file)] = file

        return save

    def load(f: Any, *args: Any, **named: Any) -> Any:
        if _key(f) in unwritten:
            raise UsageError(NOT_LOADED(file=os.fspath(f) if isinstance(f, str | os.PathLike) else type(f).__name__))
        return real_load(f, *args, **named)

    with contextlib.ExitStack() as undo:
        # It empties the file before it finds that a fake tensor cannot be written.
        undo.enter_context(swapped(torch, "save", saver("torch.save", 1)))
        undo.enter_context(swapped(torch, "load", load))
        undo.enter_context(_in_this_thread())
        if importlib.util.find_spec("safetensors") is not None:
            undo.enter_context(rebound(_of_safetensors(saver, unwritten)))
        yield


def _of_safetensors(saver: Callable[[str, int], Callable[..., None]], unwritten: dict[Any, Any]) -> dict[Any, Any]:
    import safetensors
    import safetensors.torch

    real_open, real_load = safetensors.safe_open, safetensors.torch.load

    def opened(filename: Any, framework: str = "pt", device: Any = "cpu", **named: Any) -> Any:
        if _key(filename) in unwritten:
            raise UsageError(NOT_LOADED(file=os.fspath(filename)))
        return _Opened(real_open(filename, framework=framework, device="cpu", **named), device)

    def load(data: bytes) -> dict[str, torch.Tensor]:
        with _without_modes():
            found: dict[str, torch.Tensor] = real_load(data)
        return found

    return {
        real_open: opened,
        real_load: load,
        safetensors.torch.save: lambda *_args, **_named: saver("safetensors.torch.save", 2)() or b"",
        safetensors.torch.save_file: saver("safetensors.torch.save_file", 1),
        safetensors.torch.save_model: saver("safetensors.torch.save_model", 1),
    }


class _Opened:
    """An open file of safetensors: its tensors come from main memory to the device that was asked for."""

    def __init__(self, real: Any, device: Any) -> None:
        self._real, self._device = real, device

    def __enter__(self) -> _Opened:
        self._real.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._real.__exit__(*error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def get_tensor(self, name: str) -> torch.Tensor:
        """One tensor."""
        with _without_modes():
            found = self._real.get_tensor(name)
        return self._brought(found)

    def get_tensors(self) -> dict[str, torch.Tensor]:
        """All tensors by name."""
        return {name: self.get_tensor(name) for name in self._real.keys()}  # noqa: SIM118 - it is no dict

    def get_slice(self, name: str) -> _Slice:
        """One tensor that is read when it is indexed."""
        return _Slice(self._real.get_slice(name), self._brought)

    def _brought(self, found: torch.Tensor) -> torch.Tensor:
        device = torch.device(self._device if not isinstance(self._device, int) else f"cuda:{self._device}")
        return found if device.type == "cpu" else found.to(device)


class _Slice:
    """A tensor of an open file that is read when it is indexed."""

    def __init__(self, real: Any, brought: Callable[[torch.Tensor], torch.Tensor]) -> None:
        self._real, self._brought = real, brought

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def __getitem__(self, place: Any) -> torch.Tensor:
        with _without_modes():
            found = self._real[place]
        return self._brought(found)


@contextlib.contextmanager
def _without_modes() -> Iterator[None]:
    with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction():
        yield


@contextlib.contextmanager
def _in_this_thread() -> Iterator[None]:
    before = os.environ.get(IN_BACKGROUND)
    os.environ[IN_BACKGROUND] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[IN_BACKGROUND]
        else:
            os.environ[IN_BACKGROUND] = before


def _key(file: Any) -> Any:
    """A file by its path, or the object it is."""
    return os.path.realpath(file) if isinstance(file, str | os.PathLike) else id(file)
