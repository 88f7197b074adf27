"""Capienza: which GPU configuration fits a defined workload, at what cost, and what proves it.

The public functions live in `capienza.api`, one for each command; they are loaded on first use so that
`import capienza` stays instant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import capienza.api as api

__version__ = "0.1.0"

__all__ = ["__version__", "api"]


def __getattr__(name: str) -> Any:
    if name == "api":
        import importlib

        return importlib.import_module("capienza.api")
    message = f"module 'capienza' has no attribute {name!r}"
    raise AttributeError(message)
