"""The worlds of `tests/decide` are those of pages too."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "decide"))
