"""The libraries that a card's program is built from."""

from __future__ import annotations

from typing import Any

from capienza.errors import MissingPartError, template

NO_LIBRARY = template(
    "trace.no-library", "{name} is not installed, and the card's program needs it", "pip install {name}"
)


def library(name: str) -> Any:
    """An optional library. Raises `MissingPartError` when it is not installed."""
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingPartError(NO_LIBRARY(name=name)) from error
