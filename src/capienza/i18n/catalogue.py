"""Where the compiled catalogues are."""

from __future__ import annotations

import os

LOCALES = os.path.join(os.path.dirname(__file__), "locales")
DOMAIN = "capienza"
