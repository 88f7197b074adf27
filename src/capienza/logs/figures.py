"""Sizes as logs print them, in bytes.

Legend: nearly every engine divides by powers of 1024 and writes KiB, MiB, GiB; many write kB, MB, GB for the same
(PyTorch's MPS back end, SGLang, older llama.cpp). A few divide by powers of 1000 (huggingface_hub's downloads): their
rows say so. The unit that stands in the log is kept in the text; here it becomes bytes.
"""

from __future__ import annotations

import re

from capienza.units import QuantityError, parse_size

NUMBER = r"[0-9]+(?:,[0-9]{3})*(?:[.,][0-9]+)?"
SIZE = rf"{NUMBER}\s?(?:[KkMGTP]i?B|[Bb]ytes|B)\b"
FIGURES = (
    "requested_bytes", "total_bytes", "free_bytes", "allocated_bytes", "reserved_unallocated_bytes",
    "reserved_total_bytes", "process_bytes", "other_process_bytes", "allowed_bytes", "private_pool_bytes",
)  # fmt: skip
"""What a size in a log can be. `process_bytes` is what the failing process itself holds by the driver's count."""

_THOUSANDS = re.compile(r",(?=[0-9]{3}(?:\D|$))")
"""A comma before three digits parts thousands; before any other number of digits it is a decimal mark."""
_PARTS = re.compile(rf"({NUMBER})\s*([A-Za-z]*)")


def size_bytes(text: str, unit: str = "", *, is_decimal: bool = False) -> int | None:
    """The bytes of a printed size; `unit` is that of a number printed without one. None for what is no size."""
    match = _PARTS.fullmatch(text.strip())
    if match is None:
        return None
    number, name = _THOUSANDS.sub("", match[1]).replace(",", "."), match[2] or unit
    if name.lower() in ("bytes", "byte", "b"):
        name = "B"
    elif not is_decimal and "i" not in name:
        name = f"{name[0].upper()}iB"
    elif name == "KB":
        name = "kB"
    try:
        return parse_size(f"{number} {name}")
    except QuantityError:
        return None
