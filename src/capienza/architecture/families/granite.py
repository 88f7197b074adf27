"""Granite 3 dense: full attention and a gated MLP, as Llama with other scales."""

from __future__ import annotations

from capienza.architecture.families.llama import build

__all__ = ["build"]
