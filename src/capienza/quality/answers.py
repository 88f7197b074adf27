"""The answers of one arm: a JSON Lines file whose first line says under which plan they were given.

A line is written when its answer is there, and never changed. What a killed run left is read again and gone on with:
a last line without its end is cut off, and said.
"""

from __future__ import annotations

import datetime
import math
import os
from pathlib import Path
from typing import Annotated

import msgspec

from capienza.errors import InputError, InputErrors, Message, Place, phrase, shortened, template
from capienza.jsonlines import read_objects
from capienza.quality.plan import Arm
from capienza.quality.served import Served

SCHEMA = "capienza.quality-outputs/1"
LINE_BYTES = 16 * 2**20
_MOST_PROBLEMS = 20
_BLOCK = 2**20
_LAST_SECOND = 253_402_300_799
"""The end of the year 9999, the last that dates are counted to."""
_BEGINNING = msgspec.json.encode({"schema": SCHEMA})[:-1]

NO_HEADER = template(
    "quality.outputs-without-header",
    "the first line names no plan and arm",
    "outputs are what capienza quality run writes; logs of other tools are read by their own form",
)
NOT_AN_ANSWER = template("quality.not-an-answer", "the line is no answer: {problem}", "answers are never edited")
ANSWERED_TWICE = template(
    "quality.answered-twice", "the item {id} is answered on line {line} already", "the first answer is the one given"
)
UNKNOWN_ITEM = template(
    "quality.unknown-item", "the plan has no item {id}", "give the outputs that were made under this plan"
)


BAD_FIGURE = template(
    "quality.impossible-figure",
    "{name} of item {id} is {found}; it is {accepted}",
    "the logits behind it are broken, or it is a figure of another kind; collect the outputs again",
)
_FIGURES = {
    "logprob": (-math.inf, 0.0, phrase("a number of at most 0")),
    "kl": (0.0, math.inf, phrase("a number of at least 0")),
    "same_top": (0.0, 1.0, phrase("a share from 0 to 1")),
}
_ROUNDING = 1e-6


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """The first line: plan, arm, what was asked, and when it began (None: not known, in a log of another tool)."""

    schema: str = SCHEMA
    plan: str
    arm: Arm
    target: str
    date: Annotated[datetime.datetime, msgspec.Meta(tz=True)] | None
    served: Served | None = None


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One answer. `refused` holds the server's own word for not answering; there is no output then.

    `top`: the likeliest tokens at the first place of the output, with their log-probabilities.
    `at` is when it was written down: seconds since 1970.
    """

    item: str
    output: str | None = None
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    logprob: float | None = None
    kl: float | None = None
    same_top: float | None = None
    top: dict[str, float] | None = None
    refused: str | None = None
    attempts: int = 1
    is_prompt_cut: bool = False
    at: Annotated[int, msgspec.Meta(ge=0, le=_LAST_SECOND)] | None = None

    @property
    def is_truncated(self) -> bool:
        """Was the output ended by a limit, or the prompt cut?"""
        return self.is_prompt_cut or self.finish_reason in ("length", "max_tokens", "model_length")


class Answers(msgspec.Struct, frozen=True, kw_only=True):
    """The answers of one arm by item; `findings` says what was noticed in reading.

    `tool` wrote them. Of a log of another tool, `given` holds the figures that it took itself, by metric and item;
    `marks` a digest of each item's question and target; `settings` what it was set to, by name.
    """

    file: str
    header: Header
    by_item: dict[str, Answer]
    findings: tuple[Message, ...] = ()
    tool: str = "capienza"
    given: dict[str, dict[str, float]] = {}
    marks: dict[str, bytes] = {}
    settings: dict[str, str] = {}


def read_answers(path: str) -> Answers:
    """The answers of a file that `quality run` wrote.

    Raises:
        UnreachableError: The file is not there.
        InputErrors: Lines that are no answers, items that are answered twice.
        InputError: The file has no header, or is no JSON Lines file.
    """
    header: Header | None = None
    found: dict[str, Answer] = {}
    lines: dict[str, int] = {}
    problems: list[InputError] = []
    for number, row in read_objects(path, LINE_BYTES):
        place = Place(path, line=number)
        if header is None:
            header = _header(row, place)
            continue
        try:
            answer = msgspec.convert(row, Answer)
        except msgspec.ValidationError as error:
            problems.append(InputError(NOT_AN_ANSWER(problem=str(error)[:200]), place))
        else:
            if answer.item in lines:
                twice = ANSWERED_TWICE(id=shortened(answer.item), line=lines[answer.item])
                problems.append(InputError(twice, place))
            elif message := impossible(answer):
                problems.append(InputError(message, place))
            lines.setdefault(answer.item, number)
            found.setdefault(answer.item, answer)
        if len(problems) >= _MOST_PROBLEMS:
            break
    if problems:
        raise InputErrors(problems)
    if header is None:
        raise InputError(NO_HEADER(), Place(path))
    return Answers(file=path, header=header, by_item=found)


def impossible(answer: Answer) -> Message | None:
    """What is said of a log-probability above 0, a negative KL or a share above 1; None where there is none."""
    given = [*((name, getattr(answer, name)) for name in _FIGURES)]
    given += [("logprob", value) for value in (answer.top or {}).values()]
    for name, found in given:
        least, most, accepted = _FIGURES[name]
        if found is not None and not (least - _ROUNDING <= found <= most + _ROUNDING and math.isfinite(found)):
            return BAD_FIGURE(name=name, id=shortened(answer.item, 60), found=f"{found:g}", accepted=accepted)
    return None


def _header(row: object, place: Place) -> Header:
    try:
        header = msgspec.convert(row, Header)
        if header.date is not None:
            header.date.astimezone(datetime.UTC)
    except (msgspec.ValidationError, OverflowError) as error:
        raise InputError(NO_HEADER(), place) from error
    if header.schema != SCHEMA:
        raise InputError(NO_HEADER(), place)
    return header


def mend_end(path: Path) -> int:
    """Cut off a last line that has no end, as a killed run leaves it; the bytes that were cut. For the one writer.

    Raises `InputError` for a file that does not begin as outputs do: it is not ours, and is left as it is.
    """
    with path.open("r+b") as file:
        start = file.read(len(_BEGINNING))
        if not _BEGINNING.startswith(start[: len(_BEGINNING)]):
            raise InputError(NO_HEADER(), Place(str(path)))
        size = end = file.seek(0, os.SEEK_END)
        while end:
            begin = max(0, end - _BLOCK)
            file.seek(begin)
            last = file.read(end - begin).rfind(b"\n")
            if last >= 0:
                end = begin + last + 1
                break
            end = begin
        if end < size:
            file.truncate(end)
    return size - end
