"""Kimi K2: DeepSeek V3's modules under a name of their own.

transformers has no class for it; the published files bring a copy of DeepSeek's.
"""

from __future__ import annotations

from capienza.architecture.families.deepseek_v3 import build

__all__ = ["build"]
