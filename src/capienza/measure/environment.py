"""The environment of a run, as `environment.json` keeps it: machine, GPUs, versions, settings, commit, command.

Neither the name of the machine nor of its user is kept, a GPU's UUID only as a digest, and of the command's secrets
nothing. Versions are those of the Python that the command runs, asked of that Python; what cannot be asked is None.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from capienza.canon import digest_bytes
from capienza.measure.nvml import Nvml, Unit
from capienza.measure.secrets import masked, masked_setting
from capienza.probe.ask import ask
from capienza.probe.gpu import Gpu, catalogue_keys
from capienza.probe.machine import PACKAGES, Machine, probe_machine

SCHEMA = "capienza.run-environment/1"
SETTINGS = re.compile(
    r"PYTORCH_\w*ALLOC\w*|PYTORCH_NO_CUDA_MEMORY_CACHING|CUDA_VISIBLE_DEVICES|CUDA_DEVICE_ORDER|CUDA_MODULE_LOADING"
    r"|CUDA_LAUNCH_BLOCKING|NVIDIA_VISIBLE_DEVICES|CUBLAS_WORKSPACE_CONFIG|NCCL_\w+|VLLM_(?!API_KEY)\w+|SGLANG_\w+"
    r"|GGML_\w+|XLA_PYTHON_CLIENT_\w+|MALLOC_\w+|OMP_NUM_THREADS|HF_HUB_OFFLINE"
)
"""Variables that move memory, or say which GPUs are seen."""
ASK_SECONDS = 20.0
_LIST = (
    "import importlib.metadata as m,sys\n"
    "print('python',sys.version.split()[0])\n"
    "for n in {names!r}:\n"
    " try: print(n,m.version(n))\n"
    " except Exception: pass\n"
)
_CUDA_TOTALS = """
import ctypes
c=ctypes.CDLL('libcuda.so.1')
def ok(r):
    if r: raise SystemExit(3)
ok(c.cuInit(0)); n=ctypes.c_int(); ok(c.cuDeviceGetCount(ctypes.byref(n)))
for i in range(n.value):
    d=ctypes.c_int(); ok(c.cuDeviceGet(ctypes.byref(d),i)); t=ctypes.c_size_t(); u=(ctypes.c_ubyte*16)()
    ok(c.cuDeviceTotalMem_v2(ctypes.byref(t),d)); ok(c.cuDeviceGetUuid(u,d)); print(bytes(u).hex(),t.value)
"""
"""CUDA's own total of each GPU, asked without a context on any."""


class RunGpu(msgspec.Struct, frozen=True, kw_only=True):
    """One unit. `keys` are the catalogue's; `uuid_sha256` the digest of its UUID."""

    scope: str
    name: str
    keys: tuple[str, ...]
    uuid_sha256: str | None
    reported_bytes: int | None
    cuda_total_bytes: int | None = None
    profile: str | None = None
    ecc: str | None = None
    compute_capability: str | None = None


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about where and how the command ran."""

    schema: str = SCHEMA
    machine: Machine
    gpus: tuple[RunGpu, ...] = ()
    driver_version: str | None = None
    cuda_max: str | None = None
    packages: dict[str, str] | None = None
    settings: dict[str, str] = {}
    git_commit: str | None = None
    git_is_dirty: bool | None = None
    command: tuple[str, ...] = ()


def environment_of(command: Sequence[str], variables: Mapping[str, str], nvml: Nvml | None) -> Environment:
    """Look around. Programs that do not answer are left; nothing here raises."""
    commit, is_dirty = _git()
    totals = _cuda_totals() if nvml is not None and nvml.units else {}
    return Environment(
        machine=probe_machine(Path()),
        gpus=tuple(_gpu(unit, totals) for unit in (nvml.units if nvml else ())),
        driver_version=nvml.driver_version if nvml else None,
        cuda_max=nvml.cuda_max if nvml else None,
        packages=_packages(command),
        settings={
            name: masked_setting(name, value) for name, value in sorted(variables.items()) if SETTINGS.fullmatch(name)
        },
        git_commit=commit,
        git_is_dirty=is_dirty,
        command=tuple(masked(command)),
    )


def _gpu(unit: Unit, totals: Mapping[str, int]) -> RunGpu:
    whole = Gpu(index=unit.index, name=unit.name, reported_bytes=None if unit.profile else unit.total_bytes)
    plain = (unit.uuid or "").removeprefix("GPU-").removeprefix("MIG-").replace("-", "").lower()
    return RunGpu(
        scope=unit.scope,
        name=unit.name,
        keys=catalogue_keys(whole),
        uuid_sha256=digest_bytes(unit.uuid.encode()) if unit.uuid else None,
        reported_bytes=unit.total_bytes,
        cuda_total_bytes=totals.get(plain),
        profile=unit.profile,
        ecc=unit.ecc,
        compute_capability=unit.capability,
    )


def interpreter_of(command: Sequence[str]) -> str | None:
    """The Python that a command runs: itself, or the one that its script names in its first line."""
    for word in command[:1]:
        path = shutil.which(word)
        if path is None:
            return None
        if re.fullmatch(r"python[0-9.]*", Path(path).name):
            return path
        try:
            with Path(path).open("rb") as file:
                first = file.readline(300).decode(errors="replace")
        except OSError:
            return None
        match = re.fullmatch(r"#!\s*(?:\S*/env\s+)?(\S*python[0-9.]*)\s*", first)
        return shutil.which(match[1]) if match else None
    return None


def _packages(command: Sequence[str]) -> dict[str, str] | None:
    python = interpreter_of(command)
    if python is None:
        return None
    answer = ask((python, "-c", _LIST.format(names=PACKAGES)), ASK_SECONDS)
    if answer.problem is not None:
        return None
    pairs = (line.partition(" ") for line in answer.text.splitlines())
    return {name: version.strip()[:64] for name, _, version in pairs if name in (*PACKAGES, "python")}


def _cuda_totals() -> dict[str, int]:
    import sys

    answer = ask((sys.executable, "-c", _CUDA_TOTALS), ASK_SECONDS)
    if answer.problem is not None:
        return {}
    pairs = (line.split() for line in answer.text.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


def _git() -> tuple[str | None, bool | None]:
    commit = ask(("git", "rev-parse", "HEAD"))
    if commit.problem is not None or not re.fullmatch(r"[0-9a-f]{40,64}\s*", commit.text):
        return None, None
    status = ask(("git", "status", "--porcelain", "--untracked-files=no"))
    return commit.text.strip(), None if status.problem is not None else bool(status.text.strip())


def child_variables(run: Path) -> dict[str, str]:
    """The variables of the command: ours, and the folder of the run."""
    from capienza.measure.tree import RUN_VARIABLE

    return {**os.environ, RUN_VARIABLE: str(run)}
