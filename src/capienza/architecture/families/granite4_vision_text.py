"""The text side of Granite 4 Vision: Llama's block with Granite's multipliers, which are no parameters."""

from __future__ import annotations

from capienza.architecture.families.granite import build

__all__ = ["build"]
