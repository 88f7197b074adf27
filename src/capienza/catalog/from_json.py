"""Offers in JSON: one for each line (streamed), or one list in a small file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from capienza.catalog import jsonmarks
from capienza.catalog.forms import FlatOffer, FullOffer
from capienza.catalog.lines import LINE_LIMIT, LINE_TOO_LONG, MAX_LINE, lines
from capienza.catalog.offer import Offer
from capienza.catalog.session import Session
from capienza.errors import Place, template
from capienza.yamlmarks import Node, read_bytes

NOT_UTF8 = template("catalog.not-utf8", "the line is not UTF-8 text", "Save the file as UTF-8.")
NOT_A_LIST = template(
    "catalog.not-a-json-list",
    "expected a list of offers: {problem}",
    "A .json file holds one list [...]; a file with one offer for each line ends in .jsonl.",
)

MAX_JSON = 16 * 1024**2
_FLAT, _FULL = msgspec.json.Decoder(FlatOffer), msgspec.json.Decoder(FullOffer)
_ESCAPE = re.compile(rb"\\u(?:00[01789]|20[23]|[fF][eE])|[\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\xa8\xa9]|\xef\xbb\xbf")
_BYTE = re.compile(r"\(byte ([0-9]+)\)")


class RepeatedKeyError(ValueError):
    """A key is written twice in one object."""


def read_jsonl(path: Path, session: Session) -> Iterator[Offer]:
    """One offer for each line that is not blank."""
    decode = _Decoder(session)
    for number, line in lines(path):
        if not line.isspace() and (offer := decode(line, number, 1)):
            yield offer


def read_json(path: Path, session: Session) -> Iterator[Offer]:
    """The offers of one list. The file is at most `MAX_JSON` bytes: a longer list belongs in a .jsonl file."""
    data = read_bytes(path, MAX_JSON).removeprefix(b"\xef\xbb\xbf")
    try:
        items = msgspec.json.decode(data, type=list[msgspec.Raw])
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        session.stop(NOT_A_LIST(problem=str(error)[:200]), _place_of(data, str(error), session.file))
    decode = _Decoder(session)
    position, line, line_start = 0, 1, 0
    for item in items:
        raw = bytes(item)
        start = data.index(raw, position)
        line += data.count(b"\n", position, start)
        line_start = max(line_start, data.rfind(b"\n", position, start) + 1)
        if offer := decode(raw, line, start - line_start + 1):
            yield offer
        position = start + len(raw)
        line += raw.count(b"\n")
        line_start = max(line_start, start + raw.rfind(b"\n") + 1)


class _Decoder:
    """Decodes with the form that fitted last, then with the other; what fits neither is explained."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.order: list[msgspec.json.Decoder[Any]] = [_FULL, _FLAT]

    def __call__(self, line: bytes, number: int, column: int) -> Offer | None:
        session = self.session
        place = Place(session.file, number, column)
        if len(line) > MAX_LINE:
            session.count(place)
            session.problems.add(LINE_TOO_LONG(limit=LINE_LIMIT), place)
            return None
        if _ESCAPE.search(line) and session.hidden(_unescaped(line), number):
            session.count(place)
            return None
        try:
            form = self.decode(line)
            json.loads(line, object_pairs_hook=_once)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            session.refused(place, lambda: self.tree(line, number, column), error)
            return None
        return session.offer(form, place, lambda: self.tree(line, number, column))

    def decode(self, line: bytes) -> FlatOffer | FullOffer:
        first, second = self.order
        try:
            return first.decode(line)  # type: ignore[no-any-return]
        except msgspec.ValidationError:
            form = second.decode(line)
        self.order.reverse()
        return form  # type: ignore[no-any-return]

    def tree(self, line: bytes, number: int, column: int) -> Node | None:
        """The marked tree of one value; what is wrong with its form is noted."""
        session = self.session
        try:
            text = line.rstrip(b"\r\n").decode()
        except UnicodeDecodeError:
            session.problems.add(NOT_UTF8(), Place(session.file, number))
            return None
        node, problems = jsonmarks.read(text, number, column)
        for message, at_line, at_column in problems:
            session.problems.add(message, Place(session.file, at_line, at_column))
        return node if not problems else None


def _once(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) != len(pairs):
        raise RepeatedKeyError


def _unescaped(line: bytes) -> str:
    """The line with its escapes read, so that what they hide is seen."""
    text = line.decode(errors="replace")
    return re.sub(r"\\u([0-9a-fA-F]{4})", lambda match: chr(int(match[1], 16)), text)


def _place_of(data: bytes, message: str, file: str) -> Place:
    """Line and column of the byte that a decoder's message names."""
    match = _BYTE.search(message)
    if match is None:
        return Place(file)
    before = data[: int(match[1])]
    return Place(file, before.count(b"\n") + 1, len(before) - before.rfind(b"\n"))
