"""Granite 3 with experts and a shared MLP beside them."""

from __future__ import annotations

from capienza.architecture.families.granitemoe import build

__all__ = ["build"]
