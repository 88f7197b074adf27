"""The first name of EXAONE 4.5's text side, which is EXAONE 4."""

from __future__ import annotations

from capienza.architecture.families.exaone4 import build

__all__ = ["build"]
