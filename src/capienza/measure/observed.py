"""What an engine prints of its own memory, line by line, beside the entries that the ledger has for it.

Legend: a figure is what the engine says of itself, in bytes, of one rank; the largest of several is kept. One line
may stand for several entries together.
"""

from __future__ import annotations

import re

import msgspec

from capienza.ledger.ledger import Ledger
from capienza.logs.figures import NUMBER, size_bytes


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One line: the entries it covers, what was predicted for them, and what was printed. None is not known."""

    entries: tuple[str, ...]
    predicted_bytes: int | None
    floor_bytes: int | None
    ceiling_bytes: int | None
    observed_bytes: int | None
    line: str = ""

    @property
    def difference_bytes(self) -> int | None:
        """Observed less predicted; None when either is not known."""
        if self.observed_bytes is None or self.predicted_bytes is None:
            return None
        return self.observed_bytes - self.predicted_bytes


class _Row(msgspec.Struct, frozen=True):
    anchor: str
    entries: tuple[str, ...]
    pattern: re.Pattern[str]


def _row(anchor: str, entries: str, pattern: str) -> _Row:
    size = rf"({NUMBER}\s?[KMG]i?B)"
    return _Row(anchor, tuple(entries.split()), re.compile(pattern.replace("<X>", size), re.IGNORECASE))


ROWS = (
    _row("model loading took", "weights loaded_extra", r"model loading took <X>"),
    _row("loading model weights took", "weights loaded_extra", r"loading model weights took <X>"),
    _row("model weights take", "weights loaded_extra", r"model weights take <X>"),
    _row("load weight end", "weights loaded_extra", r"load weight end\..*?mem usage=<X>"),
    _row("activation peak memory", "activation_peak", r"activation peak memory takes <X>"),
    _row("non_torch_memory", "non_torch", r"non_torch_memory takes <X>"),
    _row("graph capturing finished", "cuda_graph", r"graph capturing finished in .{1,40}?took <X>"),
    _row("capture cuda graph end", "cuda_graph", r"capture cuda graph end\..*?mem usage=<X>"),
    _row("model buffer size", "weights", r"CUDA\d+ model buffer size =\s*<X>"),
    _row("kv buffer size", "kv_cache", r"CUDA\d+ KV buffer size =\s*<X>"),
    _row("rs buffer size", "state", r"CUDA\d+ RS buffer size =\s*<X>"),
    _row("compute buffer size", "compute_buffer", r"CUDA\d+ compute buffer size =\s*<X>"),
    _row("output buffer size", "output_buffer", r"CUDA\d+ output buffer size =\s*<X>"),
)
"""A pool (vLLM, SGLang, TGI) is what the engine takes, not what the load needs: it stands beside no entry."""

VERSIONS = (
    ("llm engine (v", re.compile(r"LLM engine \(v(\d[\w.+]{0,40})\)"), ""),
    ("api server version", re.compile(r"vLLM API server version v?(\d[\w.+]{0,40})"), ""),
    ("build: ", re.compile(r"^build: (\d{3,6}) \("), "b"),
)
"""Lines in which an engine names its own version: vLLM, and llama.cpp, whose build 9849 is b9849."""


class Observed:
    """Gathers the figures that an engine prints."""

    def __init__(self) -> None:
        self.figures: dict[tuple[str, ...], tuple[int, str]] = {}
        self.version: str | None = None

    def line(self, text: str) -> None:
        """One line of the command's output."""
        lower = text.lower()
        for anchor, pattern, prefix in VERSIONS:
            if self.version is None and anchor in lower and (match := pattern.search(text)):
                self.version = prefix + match[1]
        for row in ROWS:
            if row.anchor in lower:
                match = row.pattern.search(text)
                size = size_bytes(match[1]) if match else None
                if size is not None and size > self.figures.get(row.entries, (-1, ""))[0]:
                    self.figures[row.entries] = size, text.strip()[:200]


def beside(ledger: Ledger, device: str, observed: Observed) -> tuple[Part, ...]:
    """Every entry of a device with what was printed of it; entries that a line covers together are one part."""
    entries = {entry.name: entry for entry in ledger.on(device)}
    parts: list[Part] = []
    covered: set[str] = set()
    for names, (size, line) in observed.figures.items():
        known = tuple(name for name in names if name in entries and name not in covered)
        if known:
            covered.update(known)
            parts.append(_part(known, ledger, device, size, line))
    parts += [_part((name,), ledger, device, None, "") for name in entries if name not in covered]
    order = list(entries)
    return tuple(sorted(parts, key=lambda part: order.index(part.entries[0])))


def _part(names: tuple[str, ...], ledger: Ledger, device: str, size: int | None, line: str) -> Part:
    amounts = [entry.amount for entry in ledger.on(device) if entry.name in names]
    known = [amount for amount in amounts if amount is not None]
    is_known = len(known) == len(amounts)
    return Part(
        entries=names,
        predicted_bytes=sum(amount.expected for amount in known) if is_known else None,
        floor_bytes=sum(amount.floor for amount in known) if is_known else None,
        ceiling_bytes=sum(amount.ceiling for amount in known) if is_known else None,
        observed_bytes=size,
        line=line,
    )
