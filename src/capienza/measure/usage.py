"""What the command really executed: tokens in and out, sequences at once, what was cut.

Legend: a sequence is one request or one sample, `prompt` tokens in and `output` tokens out. Figures come from lines
that engines and clients print, and from `usage.jsonl`, which the command may write into the run's folder, one
object for each sequence or step. What nobody states is None: it covers nothing.
"""

from __future__ import annotations

import bisect
import heapq
import re
from pathlib import Path
from typing import BinaryIO

import msgspec

from capienza.errors import Message, phrase, template

USAGE_FILE = "usage.jsonl"
OF_RANKS = re.compile(r"usage\.[0-9]+\.jsonl")
"""What the Trainer's callback writes, one file for each process."""
MAX_SEQUENCES = 50_000
MAX_LINE_BYTES = 4096
MAX_TOKENS = 10**12

BAD_USAGE = template(
    "measure.usage-not-understood",
    "{file}: lines that are not understood were not counted: {count}; lines {lines}; of line {line}: {problem}",
    'write one object a line, such as {{"prompt_tokens": 512, "completion_tokens": 64, "truncated": false}}',
)
SHOWN_LINES = 20
"""Lines that were not understood are named up to so many."""
NO_TOKENS = phrase("prompt_tokens or tokens: a whole number from 0 on")
TOO_MUCH_USAGE = template("measure.usage-too-long", "only the first {count} sequences are counted")

Count = int | None


class Sequence(msgspec.Struct, frozen=True, kw_only=True):
    """One request or sample. `start` and `end` in seconds of any one clock, where they were stated."""

    prompt: int
    output: int = 0
    start: float | None = None
    end: float | None = None

    @property
    def total(self) -> int:
        """Tokens in and out."""
        return self.prompt + self.output


class Executed(msgspec.Struct, frozen=True, kw_only=True):
    """The dimensions of a run. `prompt` and `output` are of the sequence that `tokens` is about.

    `tokens` held by each of `concurrency` sequences at one moment. `sources` says where the figures are from.
    """

    tokens: Count = None
    prompt: Count = None
    output: Count = None
    concurrency: Count = None
    microbatch: Count = None
    accumulation: Count = None
    samples: Count = None
    truncated: Count = None
    dropped: Count = None
    pool_tokens: Count = None
    sources: tuple[str, ...] = ()


class _Line(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int = 0
    tokens: int | None = None
    microbatch: int | None = None
    accumulation: int | None = None
    samples: int | None = None
    truncated: bool | int | None = None
    dropped: bool | int | None = None
    finish_reason: str | None = None
    start: float | None = None
    end: float | None = None


class Usage:
    """Gathers figures from lines and from the file."""

    def __init__(self) -> None:
        self.notes: list[Message] = []
        self._sequences: list[Sequence] = []
        self._most: dict[str, int] = {}
        self._sums: dict[str, int] = {}
        self._sources: dict[str, None] = {}
        self._is_cut_told = True
        self._has_file = False
        self._samples = 0
        self._prompt: int | None = None

    def line(self, text: str) -> None:
        """One line of the command's output."""
        lower = text.lower()
        for anchor, pattern, kind in _ROWS:
            if anchor in lower:
                match = pattern.search(text)
                if match is not None:
                    self._printed(kind, match)

    def folder(self, folder: Path) -> None:
        """What the command wrote into the run's folder: what it says itself, else what the Trainer's callback saw."""
        own = folder / USAGE_FILE
        paths = (
            [own] if own.is_file() else sorted(path for path in folder.glob("usage.*") if OF_RANKS.fullmatch(path.name))
        )
        for path in paths:
            try:
                with path.open("rb") as file:
                    self._file(file, path.name)
            except OSError:
                continue

    def _file(self, file: BinaryIO, name: str) -> None:
        bad: list[tuple[int, str]] = []
        for number in range(1, MAX_SEQUENCES + 1):
            data = file.readline(MAX_LINE_BYTES)
            if not data:
                break
            if not self._has_file:
                # The data itself speaks: lines that were printed besides are about the same sequences.
                self._sequences.clear()
                self._sums.clear()
                self._samples = 0
                self._is_cut_told, self._has_file = True, True
            if data.strip():
                problem = self._stated(data, name)
                bad += [(number, problem)] if problem else []
        else:
            if file.read(1):
                self._too_many()
        if bad:
            self._is_cut_told = False
            lines = [*(str(number) for number, _ in bad[:SHOWN_LINES]), *(["..."] if len(bad) > SHOWN_LINES else [])]
            self.notes.append(BAD_USAGE(file=name, count=len(bad), lines=lines, line=bad[0][0], problem=bad[0][1]))

    def executed(self, wanted: int | None) -> Executed:
        """The dimensions; `wanted` is how many sequences the card asks for at once."""
        best = at_once(self._sequences, wanted)
        samples = self._samples or self._most.get("samples")
        told = bool(self._sequences) and self._is_cut_told
        printed = self._most.get("concurrency")
        concurrency = None if best is None else best[1]
        if best is not None and printed is not None and not any(one.start is not None for one in self._sequences):
            concurrency = printed if _is_one_size(self._sequences) else concurrency
        return Executed(
            tokens=best[0].total if best else None,
            prompt=best[0].prompt if best else None,
            output=best[0].output if best else None,
            concurrency=concurrency,
            microbatch=self._most.get("microbatch"),
            accumulation=self._most.get("accumulation"),
            samples=samples,
            truncated=self._sums.get("truncated", 0 if told else None),
            dropped=self._sums.get("dropped", 0 if told else None),
            pool_tokens=self._most.get("pool_tokens"),
            sources=tuple(self._sources),
        )

    def _printed(self, kind: str, match: re.Match[str]) -> None:
        figures = {name: int(text.replace(",", "")) for name, text in match.groupdict().items() if text is not None}
        if any(figure > MAX_TOKENS for figure in figures.values()):
            return
        self._sources[kind] = None
        if kind in ("truncated", "dropped"):
            self._sums[kind] = self._sums.get(kind, 0) + 1
        elif kind == "llama.cpp prompt":
            self._prompt = figures["prompt"]
        elif kind == "llama.cpp output":
            # Of the tokens that are written, the first comes out of the prompt's own pass.
            self._add(Sequence(prompt=self._prompt or 0, output=figures["output"]), cut=None)
            self._prompt = None
        elif "prompt" in figures:
            self._add(Sequence(prompt=figures["prompt"], output=figures.get("output", 0)), cut=None)
        else:
            for name, figure in figures.items():
                self._most[name] = max(figure, self._most.get(name, 0))

    def _stated(self, data: bytes, name: str) -> str:
        """One line of a file; what is wrong with it, if anything."""
        try:
            line = msgspec.json.decode(data, type=_Line)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            return str(error)[:200]
        prompt = line.prompt_tokens if line.prompt_tokens is not None else line.tokens
        if (
            prompt is None
            or min(prompt, line.completion_tokens) < 0
            or max(prompt, line.completion_tokens) > MAX_TOKENS
        ):
            return NO_TOKENS
        self._sources[name] = None
        for sum_of, count in (("truncated", line.truncated), ("dropped", line.dropped)):
            if count:
                self._sums[sum_of] = self._sums.get(sum_of, 0) + int(count)
        for most_of, figure in (("microbatch", line.microbatch), ("accumulation", line.accumulation)):
            if figure is not None and figure > 0:
                self._most[most_of] = max(figure, self._most.get(most_of, 0))
        one = Sequence(prompt=prompt, output=line.completion_tokens, start=line.start, end=line.end)
        self._add(one, cut=None if line.truncated is None else bool(line.truncated), samples=max(1, line.samples or 1))
        return ""

    def _add(self, one: Sequence, cut: bool | None, samples: int = 1) -> None:
        self._is_cut_told = self._is_cut_told and cut is not None
        self._samples += samples
        if len(self._sequences) < MAX_SEQUENCES:
            self._sequences.append(one)
        else:
            self._too_many()

    def _too_many(self) -> None:
        self._is_cut_told = False
        if TOO_MUCH_USAGE(count=MAX_SEQUENCES) not in self.notes:
            self.notes.append(TOO_MUCH_USAGE(count=MAX_SEQUENCES))


def at_once(sequences: list[Sequence], wanted: int | None) -> tuple[Sequence, int] | None:
    """The moment that says most: the smallest of the sequences in flight together, and how many they were.

    With `wanted` at once at some moment, the largest that each of so many reached; else of the most there were. A
    sequence without times was alone as far as anybody can tell. None: there are none.
    """
    if not sequences:
        return None
    longest = max(sequences, key=lambda one: one.total)
    timed = [one for one in sequences if one.start is not None and one.end is not None and one.end > one.start]
    best: tuple[int, int, int] | None = None
    flying: list[tuple[int, int, int]] = []  # by total, ascending: total, prompt, output
    ends: list[tuple[float, tuple[int, int, int]]] = []
    for one in sorted(timed, key=lambda one: one.start or 0.0):
        while ends and ends[0][0] <= (one.start or 0.0):
            _, gone = heapq.heappop(ends)
            del flying[bisect.bisect_left(flying, gone)]
        size = one.total, one.prompt, one.output
        bisect.insort(flying, size)
        heapq.heappush(ends, (one.end or 0.0, size))
        count = min(wanted or 1, len(flying))
        best = max(best or (0, 0, 0), (count, flying[-count][0], flying[-count][1]))
    if best is None or best[0] == 1:
        return longest, 1
    count, total, prompt = best
    return Sequence(prompt=prompt, output=total - prompt), count


def _is_one_size(sequences: list[Sequence]) -> bool:
    return len({(one.prompt, one.output) for one in sequences}) == 1


def _row(anchor: str, pattern: str, kind: str) -> tuple[str, re.Pattern[str], str]:
    number = r"(\d{1,3}(?:,\d{3})+|\d{1,15})"
    for name in ("prompt", "output", "concurrency", "microbatch", "accumulation", "samples", "pool_tokens"):
        pattern = pattern.replace(f"<{name}>", f"(?P<{name}>{number[1:]}")
    return anchor, re.compile(pattern, re.IGNORECASE), kind


_ROWS = (
    # Answers in the form of the OpenAI interface, as clients print them.
    _row('prompt_tokens"', r'"prompt_tokens"\s*:\s*<prompt>(?:.{0,200}?"completion_tokens"\s*:\s*<output>)?', "usage"),
    _row("prompt_tokens=", r"prompt_tokens=<prompt>(?:.{0,200}?completion_tokens=<output>)?", "usage"),
    _row("prompt eval time", r"prompt eval time\s*=.*?/\s*<prompt> tokens", "llama.cpp prompt"),
    _row("eval time", r"(?<!prompt )\beval time\s*=.*?/\s*<output> (?:runs|tokens)", "llama.cpp output"),
    _row("request concurrency", r"request concurrency:\s*<concurrency>", "client"),
    _row("running:", r"running: <concurrency> reqs", "vLLM"),
    _row("#running-req", r"#running-req: <concurrency>", "SGLang"),
    _row("kv cache size", r"GPU KV cache size: <pool_tokens> tokens", "vLLM"),
    _row("max_total_num_tokens", r"max_total_num_tokens=<pool_tokens>", "SGLang"),
    _row("max batch total tokens", r"max batch total tokens to <pool_tokens>", "TGI"),
    _row("num examples", r"num examples ?=? ?:?\s*<samples>", "Trainer"),
    _row("instantaneous batch size", r"batch size per device ?=\s*<microbatch>", "Trainer"),
    _row("gradient accumulation steps", r"gradient accumulation steps ?=\s*<accumulation>", "Trainer"),
    # What was cut. Each such line is one.
    _row("truncat", r"(?:prompt|input|sequence)s? (?:was|were|is|has been|will be) truncated"
         r"|truncating (?:the )?(?:prompt|input)|truncated = 1|longer than .{0,60}truncat", "truncated"),
    _row("skipping", r"skipping (?:sample|example|batch|request|prompt)", "dropped"),
    _row("dropp", r"dropp(?:ed|ing) (?:the )?(?:sample|example|request|prompt)", "dropped"),
    _row("longer than the maximum model length", r"longer than the maximum model length", "dropped"),
    _row("maximum context length is", r"maximum context length is", "dropped"),
)  # fmt: skip
