"""Offers in YAML: a list. Each item that begins a line with "- " is read by itself, so memory does not grow."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import msgspec

from capienza.catalog.forms import TEXT_KEYS
from capienza.catalog.lines import lines
from capienza.catalog.offer import Offer
from capienza.catalog.session import Session, form_of
from capienza.catalog.walk import NOT_LIST, OFFER, plain, shown
from capienza.errors import Place, template
from capienza.yamlmarks import Limits, Node, read, read_bytes

TOO_MANY = template(
    "catalog.too-many-yaml-offers",
    "more than {limit} offers in YAML are not read",
    "Convert the file once: `capienza offers import {file} --out offers.jsonl`",
)

MAX_YAML_OFFERS = 20_000
_ITEM_LIMITS = Limits(max_bytes=64 * 1024, max_nodes=5_000, max_depth=8)
_WHOLE_LIMITS = Limits(max_bytes=1024**2, max_nodes=100_000, max_depth=8)
"""For a list in brackets or indented, which cannot be read item by item."""


def read_yaml(path: Path, session: Session, limit: int | None) -> Iterator[Offer]:
    """The offers of one YAML list. With a `limit`, a longer list is refused before any offer is read."""
    count = _items(path, limit)
    if limit is not None and count > limit:
        session.stop(TOO_MANY(limit=limit, file=session.file), Place(session.file))
    for first, text in _chunks(path) if count else [(1, read_bytes(path, _WHOLE_LIMITS.max_bytes))]:
        reading = read(text, session.file, _ITEM_LIMITS if count else _WHOLE_LIMITS)
        for problem in reading.problems:
            session.problems.add(problem.message, _moved(problem.place, first - 1))
        if reading.root is None:
            session.seen += 1
            continue
        items = reading.root.value
        if not isinstance(items, list):
            session.problems.add(
                NOT_LIST(found=shown(reading.root), example=f"- {OFFER}"), Place(session.file, reading.root.line, 1)
            )
            continue
        for item in items:
            node = _settled(item, first - 1)
            place = Place(session.file, node.line, node.column)
            if reading.problems:
                session.count(place)
                session.explain(node, place)
            elif (offer := _offer(node, place, session)) is not None:
                yield offer


def _items(path: Path, limit: int | None) -> int:
    """How many lines begin an item, counted to just above `limit`; 0 when the file is not a list written that way."""
    count = 0
    for _, line in lines(path):
        if _begins(line):
            count += 1
            if limit is None or count > limit:
                break
        elif not count and not (line.isspace() or line.startswith((b"#", b"---"))):
            return 0
    return count


def _begins(line: bytes) -> bool:
    return line.startswith((b"- ", b"-\n", b"-\r\n"))


def _chunks(path: Path) -> Iterator[tuple[int, bytes]]:
    """Each item with the number of its first line; what stands before the first item belongs to it."""
    first, held, size, begun = 1, list[bytes](), 0, False
    for number, line in lines(path):
        if _begins(line) and begun:
            yield first, b"".join(held)
            first, held, size = number, [], 0
        begun = begun or _begins(line)
        if size <= _ITEM_LIMITS.max_bytes:  # one item that is too long is refused by the limits, not kept
            held.append(line)
            size += len(line)
    yield first, b"".join(held)


def _offer(node: Node, place: Place, session: Session) -> Offer | None:
    try:
        form = msgspec.convert(plain(node), form_of(node))
    except msgspec.ValidationError as error:
        session.refused(place, lambda: node, error)
        return None
    return session.offer(form, place, lambda: node)


def _settled(node: Node, by: int, key: str | None = None) -> Node:
    """The same tree `by` lines further down, with the numbers that stand for text as text."""
    value = node.value
    if isinstance(value, dict):
        value = {name: _settled(child, by, name) for name, child in value.items()}
    elif isinstance(value, list):
        value = [_settled(child, by) for child in value]
    elif key in TEXT_KEYS and isinstance(value, int | Decimal) and not isinstance(value, bool):
        value = str(value)
    return Node(value, node.line + by, node.column, node.key_line + by if node.key_line else 0, node.key_column)


def _moved(place: Place, by: int) -> Place:
    return Place(place.file, place.line + by if place.line else None, place.column, place.key)
