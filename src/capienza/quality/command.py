"""Asks a command: one JSON object a line on its standard input for each item, one a line back for each answer.

A question has `item`, `prompt` or `messages`, and the decoding parameters with the seed; an answer has `item`, `output`
and, where known, `finish_reason`, `prompt_tokens`, `output_tokens`, `logprob`. Answers may come in any order.
"""

from __future__ import annotations

import queue
import subprocess
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any

import msgspec

from capienza.errors import InputError, Message, Place, UnreachableError, shortened, template
from capienza.jsonlines import row_of
from capienza.quality.answers import LINE_BYTES, NOT_AN_ANSWER, Answer, impossible
from capienza.quality.collect import Asked
from capienza.quality.corpus import Item
from capienza.quality.plan import QualityPlan, seed_of

NOT_STARTED = template("quality.command-not-started", "the command does not start: {reason}", "check its name and path")
ENDED = template("quality.command-ended", "the command ended with code {code} before it had answered")
SILENT = template("quality.command-silent", "the command wrote no line for {seconds} seconds and was stopped")
LINE_TOO_LONG = template("quality.command-line-too-long", "the command wrote a line of more than {limit} bytes")
NOT_ASKED = template("quality.command-not-asked", "the command answers item {id}, which was not asked of it")
_PATIENCE_SECONDS = 5
OUTPUT = "(standard output of the command)"


def ask_command(
    plan: QualityPlan, command: Sequence[str], items: Iterable[Item], concurrency: int, seconds: float
) -> Iterator[Asked]:
    """What came of each item; at most `concurrency` questions are without their answer.

    Raises:
        UnreachableError: The command does not start.
        InputError: It writes a line that is no answer, or answers what was not asked.
    """
    try:
        process = subprocess.Popen(list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    except (OSError, ValueError) as error:
        raise UnreachableError(NOT_STARTED(reason=getattr(error, "strerror", None) or str(error))) from error
    assert process.stdin is not None and process.stdout is not None  # noqa: PT018 - both are pipes
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    reader = threading.Thread(target=_read, args=(process.stdout, lines), daemon=True)
    reader.start()
    try:
        yield from _talk(plan, process, lines, items, concurrency, seconds)
    finally:
        _stop(process)
        # What the command has started may hold its output open; then the reader is left to the end of the program.
        reader.join(_PATIENCE_SECONDS)
        if not reader.is_alive():
            process.stdout.close()


def _talk(
    plan: QualityPlan,
    process: subprocess.Popen[bytes],
    lines: queue.SimpleQueue[bytes],
    items: Iterable[Item],
    concurrency: int,
    seconds: float,
) -> Iterator[Asked]:
    left, waiting, number = iter(items), dict[str, Item](), 0
    while True:
        while len(waiting) < concurrency and (item := next(left, None)) is not None:
            waiting[item.id] = item
            _send(process, plan, item)
        if not waiting:
            return
        try:
            line = lines.get(timeout=seconds)
        except queue.Empty:
            yield from _all_failed(waiting, SILENT(seconds=f"{seconds:g}"))
            return
        if not line:
            yield from _all_failed(waiting, ENDED(code=process.wait()))
            return
        number += 1
        answer = _answer(line, Place(OUTPUT, line=number))
        if waiting.pop(answer.item, None) is None:
            raise InputError(NOT_ASKED(id=shortened(answer.item, 60)), Place(OUTPUT, line=number))
        yield Asked(answer.item, answer)


def _all_failed(waiting: dict[str, Item], failure: Message) -> Iterator[Asked]:
    for identity in waiting:
        yield Asked(identity, failure=failure)


def _send(process: subprocess.Popen[bytes], plan: QualityPlan, item: Item) -> None:
    """Write one question; where the command no longer reads, its end is found by the reader."""
    asked: dict[str, Any] = {"messages": list(item.messages)} if item.messages else {"prompt": item.prompt}
    decoding = plan.decoding
    question = {
        "item": item.id,
        **asked,
        "temperature": float(decoding.temperature),
        "top_p": float(decoding.top_p),
        "max_tokens": decoding.max_tokens,
        "stop": list(decoding.stop),
        "seed": seed_of(plan.id, item.id),
    }
    try:
        assert process.stdin is not None
        process.stdin.write(msgspec.json.encode(question) + b"\n")
        process.stdin.flush()
    except OSError:
        pass


def _read(output: IO[bytes], lines: queue.SimpleQueue[bytes]) -> None:
    while line := output.readline(LINE_BYTES + 1):
        lines.put(line)
    lines.put(b"")


def _answer(line: bytes, place: Place) -> Answer:
    if len(line) > LINE_BYTES:
        raise InputError(LINE_TOO_LONG(limit=LINE_BYTES), place)
    try:
        answer = msgspec.convert(row_of(line, place), Answer)
    except msgspec.ValidationError as error:
        raise InputError(NOT_AN_ANSWER(problem=str(error)[:200]), place) from error
    if message := impossible(answer):
        raise InputError(message, place)
    return answer


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Close its input, give it a moment to end by itself, then end it."""
    try:
        if process.stdin:
            process.stdin.close()
    except OSError:
        pass
    try:
        process.wait(timeout=_PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
