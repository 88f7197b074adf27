"""The GPUs that `rocm-smi` lists.

Legend: its sizes are bytes. The names of its fields differ between releases in case only, as far as they are read here.
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from capienza.errors import Message
from capienza.probe.ask import ask
from capienza.probe.gpu import Gpu
from capienza.probe.nvidia import NO_GPU, NOT_UNDERSTOOD

PROGRAM = "rocm-smi"
COMMAND = (PROGRAM, "--showproductname", "--showmeminfo", "vram", "--showdriverversion", "--showuniqueid", "--json")
MAX_BYTES = 2**50
_CARD = re.compile(r"card:?([0-9]{1,4})", re.ASCII)
_VERSION = re.compile(r"[0-9]{1,6}(?:\.[0-9]{1,6}){0,3}", re.ASCII)


class Rocm(msgspec.Struct, frozen=True, kw_only=True):
    """The GPUs, and what must be known about them."""

    gpus: tuple[Gpu, ...] = ()
    notes: tuple[Message, ...] = ()


def probe_rocm() -> Rocm:
    """Ask `rocm-smi`. Nothing that it does raises."""
    answer = ask(COMMAND)
    if answer.problem is not None:
        return Rocm(notes=(answer.problem,))
    start = answer.text.find("{")
    try:
        document = json.loads(answer.text[start:]) if start >= 0 else None
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        return Rocm(notes=(NOT_UNDERSTOOD(program=PROGRAM, line=answer.text.strip()[:120]),))
    system = _fields(document.get("system"))
    gpus = tuple(
        _gpu(int(match[1]), _fields(card), system.get("driver version", ""))
        for name, card in document.items()
        if (match := _CARD.fullmatch(name)) and isinstance(card, dict)
    )
    return Rocm(gpus=gpus, notes=() if gpus else (NO_GPU(program=PROGRAM),))


def _gpu(index: int, card: dict[str, str], driver: str) -> Gpu:
    total = card.get("vram total memory (b)", "")
    known = total.isascii() and total.isdigit() and len(total) < 20 and 0 < int(total) <= MAX_BYTES
    gfx = card.get("gfx version", "")
    return Gpu(
        index=index,
        name=(card.get("card series") or card.get("card model") or "")[:120],
        uuid=card.get("unique id") or None,
        driver_version=driver if _VERSION.fullmatch(driver) else None,
        reported_bytes=int(total) if known else None,
        gfx=gfx if re.fullmatch(r"gfx[0-9a-f]{3,6}", gfx, re.ASCII) else None,
    )


def _fields(value: Any) -> dict[str, str]:
    """The texts of an object, by name in small letters."""
    if not isinstance(value, dict):
        return {}
    return {name.lower(): text for name, text in value.items() if isinstance(text, str)}
