"""Where the compiled catalogues are."""

from __future__ import annotations

from pathlib import Path

LOCALES = Path(__file__).parent / "locales"
DOMAIN = "capienza"
