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
from capienza.catalog.jsonmarks import MAX_DEPTH, TOO_DEEP
from capienza.catalog.lines import LINE_LIMIT, LINE_TOO_LONG, MAX_LINE, lines
from capienza.catalog.offer import Offer
from capienza.catalog.session import Session
from capienza.errors import Place, template
from capienza.yamlmarks import Node, read_bytes

NOT_UTF8 = template("catalog.not-utf8", "the line is not UTF-8 text", "Save the file as UTF-8.")
NOT_A_LIST = template(
    "catalog.not-a-json-list",
    "expected a list of offers, which begins with [",
    "A .json file holds one list [...]; a file with one offer for each line ends in .jsonl.",
)
LIST_OPEN = template("catalog.json-list-open", "the list does not end", "Close it with ].")
AFTER_LIST = template(
    "catalog.json-after-list", "there is text after the end of the list", "Delete it, or move it into the list."
)
LIST_TOO_LONG = template(
    "catalog.json-list-too-long",
    "more than {limit} offers in one JSON list are not read",
    "Write one offer for each line: `jq -c '.[]' {file} > offers.jsonl`",
)

MAX_JSON = 16 * 1024**2
MAX_LIST = 50_000
_FLAT, _FULL = msgspec.json.Decoder(FlatOffer), msgspec.json.Decoder(FullOffer)
_ESCAPE = re.compile(rb"\\u(?:00[01789]|20[23]|[fF][eE])|[\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\xa8\xa9]|\xef\xbb\xbf")
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[\]{},]', re.DOTALL)
_SPACE = re.compile(rb"[ \t\r\n]*")


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
    decode = _Decoder(session)
    position, line, line_start = 0, 1, 0
    for start, end in _elements(data, session):
        line += data.count(b"\n", position, start)
        line_start = max(line_start, data.rfind(b"\n", position, start) + 1)
        if session.seen == MAX_LIST:
            session.stop(LIST_TOO_LONG(limit=MAX_LIST, file=session.file), Place(session.file, line))
        if offer := decode(data[start:end], line, start - line_start + 1):
            yield offer
        position = start


def _elements(data: bytes, session: Session) -> Iterator[tuple[int, int]]:
    """Where each element of the outer list begins and ends, found by brackets, commas and strings alone."""
    opening = _start(data, 0, len(data))
    if data[opening : opening + 1] != b"[":
        session.stop(NOT_A_LIST(), _place_at(data, opening, session.file))
    depth, begin = 0, opening + 1
    for token in _TOKEN.finditer(data, opening):
        kind, position = token[0], token.start()
        if kind in (b"[", b"{"):
            depth += 1
            if depth > MAX_DEPTH:
                session.stop(TOO_DEEP(limit=MAX_DEPTH), _place_at(data, position, session.file))
        elif kind in (b"]", b"}"):
            depth -= 1
        if depth == 0 or (kind == b"," and depth == 1):
            start = _start(data, begin, position)
            if depth or start < position or begin > opening + 1:  # an empty list has no element
                yield start, position
            begin = token.end()
            if depth == 0:
                break
        elif position - begin > MAX_LINE:
            session.stop(LINE_TOO_LONG(limit=LINE_LIMIT), _place_at(data, begin, session.file))
    after = _start(data, begin, len(data))
    if depth or after < len(data):
        session.stop(LIST_OPEN() if depth else AFTER_LIST(), _place_at(data, after, session.file))


def _start(data: bytes, begin: int, end: int) -> int:
    """The first position from `begin` that is not a space."""
    match = _SPACE.match(data, begin, end)
    return match.end() if match else begin


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
            _repeats(line.decode())
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


_repeats = json.JSONDecoder(object_pairs_hook=_once).decode
"""Ordinary JSON readers keep the last of two equal keys and say nothing; this one raises."""


def _unescaped(line: bytes) -> str:
    """The line with its escapes read, so that what they hide is seen."""
    text = line.decode(errors="replace")
    return re.sub(r"\\u([0-9a-fA-F]{4})", lambda match: chr(int(match[1], 16)), text)


def _place_at(data: bytes, position: int, file: str) -> Place:
    before = data[:position]
    return Place(file, before.count(b"\n") + 1, len(before) - before.rfind(b"\n"))
