"""PP-Chart2Table: GOT-OCR 2 under a name of its own."""

from __future__ import annotations

from capienza.architecture.families.got_ocr2 import build

__all__ = ["build"]
