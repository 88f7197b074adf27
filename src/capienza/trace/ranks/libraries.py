"""What libraries remember of their process: each rank begins with nothing, and after it all is as before."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

KINDS = ("PartialState", "AcceleratorState", "GradientState")


@contextlib.contextmanager
def forgotten() -> Iterator[None]:
    """Inside, accelerate knows no process; it may be imported inside."""
    before = {name: dict(shared) for name, shared in _shared()}
    for _, shared in _shared():
        shared.clear()
    try:
        yield
    finally:
        for name, shared in _shared():
            shared.clear()
            shared.update(before.get(name, {}))


def _shared() -> Iterator[tuple[str, Any]]:
    module = sys.modules.get("accelerate.state")
    for name in KINDS:
        shared = getattr(getattr(module, name, None), "_shared_state", None)
        if shared is not None:
            yield name, shared
