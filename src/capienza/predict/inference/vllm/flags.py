"""The flags that vLLM knows: a card that states another one is refused, with the nearest.

The names are those of the engine's and the server's arguments in 0.6.3, 0.8.5, 0.11.2 and 0.33.0
(`data/vllm_options.txt`). A release after the last one read may know more: there an unknown flag is noted, not refused.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path

from capienza.errors import InputError, Message, Place, template, with_suggestion
from capienza.predict.inference.vllm.version import NEWEST_READ, Version

NAMES_FILE = Path(__file__).parents[2] / "data" / "vllm_options.txt"
UNKNOWN_FLAG = template(
    "predict.vllm-unknown-flag",
    "vLLM has no option {found}",
    "write it as vLLM's own arguments are named (capienza reads those of 0.6.3 to 0.33.0), or leave it out",
)
NEWER_FLAG = template(
    "predict.vllm-newer-flag",
    "vLLM {version} may have an option {found}, but it is newer than what was read (0.33.0)",
    "nothing is assumed about what it does to memory",
)


def known_flags() -> frozenset[str]:
    """Every name, with underscores."""
    return frozenset(NAMES_FILE.read_text("ascii").split())


def check_flags(names: Iterable[str], version: Version, file: str | None = None) -> tuple[Message, ...]:
    """Notes on flags that only a newer release may know. Raises `InputError` for a flag that no release had."""
    known = known_flags()
    notes = []
    for name in names:
        plain = name.strip().lstrip("-").replace("-", "_").casefold()
        if plain in known or plain.removeprefix("no_") in known:
            continue
        if version.number > NEWEST_READ:
            notes.append(NEWER_FLAG(version=".".join(map(str, version.number)), found=name))
            continue
        near = difflib.get_close_matches(plain[:80], known, n=1, cutoff=0.6)
        message = with_suggestion(UNKNOWN_FLAG(found=name[:80]), near[0] if near else None)
        raise InputError(message, Place(file, key=f"engine.options.{name}"))
    return tuple(notes)
