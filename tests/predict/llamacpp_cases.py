"""The measured llama.cpp cases, scored once for all the tests that look at them."""

from __future__ import annotations

import importlib.util
import json
from functools import lru_cache
from pathlib import Path
from types import ModuleType

import pytest

from capienza.validate.llamacpp_rows import Quantity, quantities

SHARED = Path(__file__).parents[2] / ".." / "shared"


def shared(*parts: str) -> Path:
    """A shared file; the test is skipped, aloud, without it."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"shared/{'/'.join(parts)} is not here")
    return path


def rows(name: str) -> list[dict]:
    """The rows of one file of cases."""
    return [json.loads(line) for line in shared("cases", name).read_text().splitlines()]


def geometries() -> ModuleType:
    """The tool that writes metadata-only files: `M` maps a name to (metadata, tensor table)."""
    path = shared("tools", "llamacpp_oracle", "synth_gguf.py")
    specification = importlib.util.spec_from_file_location("synth_gguf", path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@lru_cache
def scored(name: str) -> tuple[Quantity, ...]:
    """Every quantity of a file that can be judged."""
    return tuple(q for row in rows(name) for q in quantities(row) if q.status == "scored")


def of_kind(quantities: tuple[Quantity, ...], *kinds: str) -> list[Quantity]:
    """Those whose name begins with one of the kinds."""
    return [quantity for quantity in quantities if quantity.name.partition("@")[0] in kinds]


def share_within(found: list[Quantity], relative: float = 0.0, absolute_bytes: int = 0) -> float:
    """Share of the quantities whose expectation lies that near to what was measured."""
    near = [
        abs(q.predicted.expected - q.measured_bytes) <= max(absolute_bytes, relative * q.measured_bytes) for q in found
    ]
    return sum(near) / len(near)
