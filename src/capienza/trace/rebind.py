"""Functions replaced wherever they lie: a program may have imported them by name, and imports more while it runs."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping
from typing import Any

OURS = "capienza."
"""These modules hold the real ones."""


@contextlib.contextmanager
def rebound(replacements: Mapping[Any, Any]) -> Iterator[None]:
    """Inside, every module that holds one of the functions holds its replacement; after it, none does."""
    _replace(replacements)
    try:
        yield
    finally:
        _replace({new: old for old, new in replacements.items()})


def _replace(replacements: Mapping[Any, Any]) -> None:
    by_identity = {id(old): new for old, new in replacements.items()}
    for name_of_module, module in list(sys.modules.items()):
        names = getattr(module, "__dict__", None)
        if type(names) is dict and not name_of_module.startswith(OURS):
            found = [(name, by_identity[id(value)]) for name, value in names.items() if id(value) in by_identity]
            for name, new in found:
                names[name] = new
