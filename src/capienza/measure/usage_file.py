"""What a training program really executed, as lines of `usage.<rank>.jsonl` in the folder of the run.

Legend: a line stands for `samples` sequences of `tokens` (as they went through the model, padding included) in batches
of `microbatch`. A shape is written when it first appears, so that a program that is killed has told it; how often it
came again is written from time to time and at the end.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

from capienza.measure.recorder import refuse

WRITE_SECONDS = 10.0


class UsageFile:
    """Counts the sequences of one process. A disk that refuses is said once; the program is never stopped by it."""

    def __init__(self, folder: Path, rank: int, accumulation: int | None) -> None:
        self._path = folder / f"usage.{rank}.jsonl"
        self._accumulation = accumulation
        self._waiting: dict[tuple[int, int], int] = {}
        self._seen: set[tuple[int, int]] = set()
        self._written = time.monotonic()
        self._is_refused = False

    def add(self, tokens: int, microbatch: int) -> None:
        """One batch went through the model."""
        shape = (tokens, microbatch)
        self._waiting[shape] = self._waiting.get(shape, 0) + microbatch
        if shape not in self._seen or time.monotonic() - self._written > WRITE_SECONDS:
            self._seen.add(shape)
            self.write()

    def write(self) -> None:
        """Write what was counted since the last time."""
        rows = [
            {"tokens": tokens, "microbatch": microbatch, "accumulation": self._accumulation, "samples": samples}
            for (tokens, microbatch), samples in self._waiting.items()
        ]
        self._waiting.clear()
        self._written = time.monotonic()
        if not rows or self._is_refused:
            return
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write("".join(f"{json.dumps(row)}\n" for row in rows))
        except OSError as error:
            self._is_refused = True
            refuse(self._path, error)
