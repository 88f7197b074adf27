"""GLM-GA: GLM-4.6V under a name of its own."""

from __future__ import annotations

from capienza.architecture.families.glm46v import build

__all__ = ["build"]
