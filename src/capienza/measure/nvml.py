"""What NVML says: the GPUs and their MIG instances, the memory in use, and who uses it.

Legend: a unit is what a program can run on: a whole GPU, or one instance of a GPU in MIG mode. `used_bytes` is NVML's
`used` of the first form of its memory call, which holds what the driver keeps for itself: total less free. Every answer
that NVML refuses is a message, never a zero.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from capienza.errors import Message, MissingPartError, template

MEMORY_CALL = "nvmlDeviceGetMemoryInfo.used"
PROCESS_CALL = "nvmlDeviceGetComputeRunningProcesses.usedGpuMemory"
MAX_UNITS = 1024

NO_PACKAGE = template(
    "measure.no-nvml-package",
    "there is an NVIDIA driver here, and the package that asks it for memory is not installed",
    "pip install 'capienza[measure]'",
)
NO_DRIVER = template("measure.no-driver", "no GPU is read: {problem}")
REFUSED = template("measure.nvml-refused", "{scope}: {call} was refused: {problem}")
LOST = template(
    "measure.gpu-lost",
    "{scope} was lost during the run: {problem}",
    "the readings before it are kept; look at the system's log",
)
DRIVER_FILES = ("/dev/nvidiactl", "/proc/driver/nvidia/version")


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to run on. `scope` is "gpu:0", or "gpu:0/mig:1" with the MIG profile; `index` is NVML's of the GPU."""

    scope: str
    index: int
    name: str
    uuid: str | None = None
    total_bytes: int | None = None
    profile: str | None = None
    ecc: str | None = None
    capability: str | None = None


class Nvml:
    """An open NVML. No method raises for what the driver refuses."""

    def __init__(self, library: Any) -> None:
        self._nvml = library
        self._handles: dict[str, Any] = {}
        self.notes: list[Message] = []
        self.driver_version = self._text(library.nvmlSystemGetDriverVersion)
        version = self._value(library.nvmlSystemGetCudaDriverVersion)
        self.cuda_max = f"{version // 1000}.{version % 1000 // 10}" if version else None
        self.units = tuple(self._found_units())

    def memory(self, unit: Unit) -> int | Message:
        """The bytes in use on a unit."""
        try:
            return int(self._nvml.nvmlDeviceGetMemoryInfo(self._handles[unit.scope]).used)
        except self._nvml.NVMLError as error:
            return self._refused(unit.scope, MEMORY_CALL, error)

    def processes(self, unit: Unit) -> dict[int, int | None] | Message:
        """Bytes by process; None for a process whose share the driver does not tell."""
        handle = self._handles[unit.scope]
        found: dict[int, int | None] = {}
        try:
            for process in self._nvml.nvmlDeviceGetComputeRunningProcesses(handle):
                found[process.pid] = process.usedGpuMemory
        except self._nvml.NVMLError as error:
            return self._refused(unit.scope, PROCESS_CALL, error)
        for call in ("nvmlDeviceGetGraphicsRunningProcesses", "nvmlDeviceGetMPSComputeRunningProcesses"):
            with contextlib.suppress(
                self._nvml.NVMLError
            ):  # not on every GPU; lists may be read, as the first call told
                for process in getattr(self._nvml, call)(handle):
                    found.setdefault(process.pid, process.usedGpuMemory)
        return found

    def close(self) -> None:
        """Let the library go."""
        with contextlib.suppress(self._nvml.NVMLError):
            self._nvml.nvmlShutdown()

    def _found_units(self) -> Iterator[Unit]:
        count = self._value(self._nvml.nvmlDeviceGetCount) or 0
        for index in range(min(count, MAX_UNITS)):
            scope = f"gpu:{index}"
            try:
                handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
            except self._nvml.NVMLError as error:
                self.notes.append(self._refused(scope, "nvmlDeviceGetHandleByIndex", error))
                continue
            if self._value(self._nvml.nvmlDeviceGetMigMode, handle, quiet=True) in ([1, 1], [1, 0]):
                yield from self._instances(index, handle)
            else:
                self._handles[scope] = handle
                yield self._unit(scope, index, handle)

    def _instances(self, index: int, parent: Any) -> Iterator[Unit]:
        for number in range(min(self._value(self._nvml.nvmlDeviceGetMaxMigDeviceCount, parent) or 0, MAX_UNITS)):
            try:
                handle = self._nvml.nvmlDeviceGetMigDeviceHandleByIndex(parent, number)
            except self._nvml.NVMLError as error:
                if error.value != self._nvml.NVML_ERROR_NOT_FOUND:
                    self.notes.append(self._refused(f"gpu:{index}/mig:{number}", "nvmlDeviceGetMigDevice...", error))
                continue
            scope = f"gpu:{index}/mig:{number}"
            self._handles[scope] = handle
            unit = self._unit(scope, index, handle)
            name, _, profile = unit.name.partition(" MIG ")
            parent_name = self._text(self._nvml.nvmlDeviceGetName, parent) or name
            yield msgspec.structs.replace(unit, name=parent_name, profile=profile.strip() or None)

    def _unit(self, scope: str, index: int, handle: Any) -> Unit:
        memory = self._value(self._nvml.nvmlDeviceGetMemoryInfo, handle)
        ecc = self._value(self._nvml.nvmlDeviceGetEccMode, handle, quiet=True)
        capability = self._value(self._nvml.nvmlDeviceGetCudaComputeCapability, handle, quiet=True)
        return Unit(
            scope=scope,
            index=index,
            name=self._text(self._nvml.nvmlDeviceGetName, handle) or "",
            uuid=self._text(self._nvml.nvmlDeviceGetUUID, handle),
            total_bytes=int(memory.total) if memory is not None else None,
            ecc=None if ecc is None else "on" if ecc[0] else "off",
            capability=None if capability is None else f"{capability[0]}.{capability[1]}",
        )

    def _value(self, call: Callable[..., Any], *arguments: Any, quiet: bool = False) -> Any:
        try:
            return call(*arguments)
        except self._nvml.NVMLError as error:
            if not quiet:
                self.notes.append(self._refused("NVML", call.__name__, error))
            return None

    def _text(self, call: Callable[..., Any], *arguments: Any) -> str | None:
        text = self._value(call, *arguments)
        return text.decode(errors="replace") if isinstance(text, bytes) else text

    def _refused(self, scope: str, call: str, error: Any) -> Message:
        if error.value == self._nvml.NVML_ERROR_GPU_IS_LOST:
            return LOST(scope=scope, problem=str(error))
        return REFUSED(scope=scope, call=call, problem=str(error))


def open_nvml() -> Nvml | Message:
    """NVML with its GPUs, or why there is none to read.

    Raises `MissingPartError` when a driver is there and the package that asks it is not.
    """
    try:
        import pynvml  # type: ignore[import-untyped]
    except ImportError as error:
        if any(Path(file).exists() for file in DRIVER_FILES):
            raise MissingPartError(NO_PACKAGE()) from error
        return NO_DRIVER(problem="nvidia-ml-py is not installed")
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return NO_DRIVER(problem=str(error))
    return Nvml(pynvml)
