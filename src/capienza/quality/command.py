"""Asks a command: one JSON object a line on its standard input for each item, one a line back for each answer.

A question has `item`, `prompt` or `messages`, and the decoding parameters with the seed; an answer has `item`, `output`
and, where known, `finish_reason`, `prompt_tokens`, `output_tokens`, `logprob`. Answers may come in any order.
"""

from __future__ import annotations

import contextlib
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
_PATIENCE_SECONDS, _GLANCE_SECONDS = 5, 0.1
_MOST_WAITING_LINES = 4
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
    lines: queue.Queue[bytes] = queue.Queue(maxsize=_MOST_WAITING_LINES)
    questions: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    is_over = threading.Event()
    reader = threading.Thread(target=_read, args=(process.stdout, lines, is_over), daemon=True)
    # In a thread of its own: a command that does not read would hold up whoever waits for its answers.
    writer = threading.Thread(target=_write, args=(process.stdin, questions), daemon=True)
    reader.start()
    writer.start()
    try:
        yield from _talk(plan, process, (questions, lines), items, concurrency, seconds)
    finally:
        is_over.set()
        questions.put(None)
        _stop(process)
        # What the command has started may hold its output open; then the reader is left to its end.
        reader.join(_PATIENCE_SECONDS)


def _talk(
    plan: QualityPlan,
    process: subprocess.Popen[bytes],
    queues: tuple[queue.SimpleQueue[bytes | None], queue.Queue[bytes]],
    items: Iterable[Item],
    concurrency: int,
    seconds: float,
) -> Iterator[Asked]:
    questions, lines = queues
    left, waiting, number = iter(items), dict[str, Item](), 0
    while True:
        while len(waiting) < concurrency and (item := next(left, None)) is not None:
            waiting[item.id] = item
            questions.put(_question(plan, item))
        if not waiting:
            return
        try:
            line = lines.get(timeout=seconds)
        except queue.Empty:
            yield from _all_failed(waiting, SILENT(seconds=f"{seconds:g}"))
            return
        if not line:
            yield from _all_failed(waiting, ENDED(code=_stop(process)))
            return
        number += 1
        answer = _answer(line, Place(OUTPUT, line=number))
        if waiting.pop(answer.item, None) is None:
            raise InputError(NOT_ASKED(id=shortened(answer.item, 60)), Place(OUTPUT, line=number))
        yield Asked(answer.item, answer)


def _all_failed(waiting: dict[str, Item], failure: Message) -> Iterator[Asked]:
    for identity in waiting:
        yield Asked(identity, failure=failure)


def _question(plan: QualityPlan, item: Item) -> bytes:
    """The line that asks one item."""
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
    return msgspec.json.encode(question) + b"\n"


def _write(command: IO[bytes], questions: queue.SimpleQueue[bytes | None]) -> None:
    """Write the questions, then close; where the command no longer reads, its end is found by the reader."""
    with contextlib.suppress(OSError):
        while (question := questions.get()) is not None:
            command.write(question)
            command.flush()
    with contextlib.suppress(OSError):
        command.close()


def _read(output: IO[bytes], lines: queue.Queue[bytes], is_over: threading.Event) -> None:
    """Hand on each line, an empty one at the end; no more than a few are held, however fast the command writes."""
    line = b"-"
    with output:
        while line and not is_over.is_set():
            line = output.readline(LINE_BYTES + 1)
            _hand_on(line, lines, is_over)


def _hand_on(line: bytes, lines: queue.Queue[bytes], is_over: threading.Event) -> None:
    while not is_over.is_set():
        with contextlib.suppress(queue.Full):
            lines.put(line, timeout=_GLANCE_SECONDS)
            return


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


def _stop(process: subprocess.Popen[bytes]) -> int:
    """Give it a moment to end by itself, its input being closed, then end it; its code."""
    try:
        return process.wait(timeout=_PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
