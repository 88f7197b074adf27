"""One function for each command; every one takes plain values and returns a frozen result."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from capienza.api.arithmetic import arithmetic as arithmetic
    from capienza.api.size import size as size

_HOMES = {"size": "size", "arithmetic": "arithmetic"}

__all__ = ["arithmetic", "size"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        message = f"module 'capienza.api' has no attribute {name!r}"
        raise AttributeError(message)
    return getattr(importlib.import_module(f"capienza.api.{home}"), name)
