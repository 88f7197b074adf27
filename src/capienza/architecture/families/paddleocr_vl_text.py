"""The text side of PaddleOCR-VL: dense ERNIE 4.5."""

from __future__ import annotations

from capienza.architecture.families.ernie4_5 import build

__all__ = ["build"]
