"""Does this PyTorch accept fake tensors on `cuda`? Tried once, in a process of its own that a wrong guess would end."""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import torch

from capienza.errors import CapienzaError, Message, template
from capienza.files import write_whole
from capienza.trace import guard

LIMIT_S = 120
PROGRAM = "from capienza.trace import guard; raise SystemExit(0 if guard.prove() else 3)"
WORKS, FAILS = "works", "fails"

NO_FAKE_CUDA = template(
    "trace.no-fake-cuda",
    "PyTorch {version} does not accept fake tensors on cuda here, so the program is traced on cpu: kernels are "
    "chosen and types are cast as on cpu (attention, autocast, fused optimizers); the peak differs from that of a GPU",
    "use a release of PyTorch that was tried: 2.13",
)


@cache
def works() -> bool:
    """True where fake `cuda` can be used. The answer for a build of PyTorch is kept on disk."""
    if not guard.is_needed():
        return True
    path = _answer_path()
    with contextlib.suppress(OSError):
        text = path.read_text("ascii")
        if text in (WORKS, FAILS):
            return text == WORKS
    answer = _try()
    with contextlib.suppress(OSError, CapienzaError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, lambda file: file.write((WORKS if answer else FAILS).encode()))
    return answer


def warning() -> Message:
    """What is said where it does not work."""
    return NO_FAKE_CUDA(version=str(torch.__version__))


def _try() -> bool:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        ended = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, check=False, timeout=LIMIT_S
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return ended.returncode == 0


def _answer_path() -> Path:
    """A file of this build of PyTorch and this version of the guard."""
    library = Path(torch.__file__).parent / "lib" / "libc10.so"
    stamp = library.stat().st_mtime_ns if library.exists() else 0
    told = f"{torch.__version__} {torch.__file__} {stamp} {sys.version} {Path(guard.__file__).read_text('utf-8')}"
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "capienza" / f"fake-cuda-{hashlib.sha256(told.encode()).hexdigest()[:16]}"
