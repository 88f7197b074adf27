"""Operations that CUDA has a kernel for, and that are taken apart where a build without CUDA has none.

PyTorch keeps for a few operations both kernels and a composition of others, for devices without a kernel. Autograd's
side of `cuda` would take the composition here, with temporaries that no card has. A kernel is declared for them; it
never runs, as fake tensors are served before it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NoReturn

import torch

NAMES = ("silu_backward", "mish_backward", "native_channel_shuffle")
"""All that torch 2.13 has: a kernel for the CPU, and a composition."""


@contextlib.contextmanager
def declared() -> Iterator[None]:
    """Inside, these count as operations that `cuda` has."""
    library = torch.library.Library("aten", "IMPL")
    for name in NAMES:
        if not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "CUDA"):
            library.impl(name, _never, "CUDA")
    try:
        yield
    finally:
        library._destroy()


def _never(*_args: Any, **_named: Any) -> NoReturn:
    raise NotImplementedError
