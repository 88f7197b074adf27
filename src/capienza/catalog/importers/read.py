"""Offers from a file that others wrote: every row is an offer, several, or a finding that says why it is none."""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec

from capienza.catalog.convert import to_offer
from capienza.catalog.devices import load_devices
from capienza.catalog.forms import FullOffer
from capienza.catalog.from_json import MAX_JSON
from capienza.catalog.importers.form import Form, Source
from capienza.catalog.importers.members import check, find, members
from capienza.catalog.importers.row import LeaveOut, Row
from capienza.catalog.lines import LINE_LIMIT, LINE_TOO_LONG, MAX_LINE
from capienza.catalog.notes import Finding, Findings, Notes
from capienza.catalog.offer import Offer
from capienza.catalog.records import column_at, records
from capienza.catalog.session import MAX_OFFERS, TOO_MANY_OFFERS, Session, hidden_character
from capienza.errors import InputError, InputErrors, Message, Place, template
from capienza.yamlmarks.source import read_bytes

LEFT_OUT = template("import.left-out", "left out: {reason}")
NO_OFFER_MADE = template(
    "import.no-offer-made",
    "none of the {rows} rows makes an offer; the first: {reason}",
    "Check that it is the file you meant, and what is said of it.",
)
NO_ROWS = template("import.no-rows", "the file has no row", "Fetch it again, or check that it is the file you meant.")
NOT_JSON = template("import.not-json", "this is not valid JSON: {problem}", "Fetch it again: it may be cut short.")
NOT_THIS_FORM = template(
    "import.not-this-form",
    "this is not the form {form}: expected {accepted}",
    "Leave --from out to have the form recognised, or give the right one.",
)
NOT_AN_OFFER = template("import.not-an-offer", "what it states cannot be an offer: {problem}")
NOT_AN_OBJECT = template("import.not-an-object", "expected keys and values: {problem}")
KEY_TWICE = template("import.key-twice", "a key is written twice, and nothing says which is meant")
WIDTH = template("import.row-width", "{found} cells under {wanted} columns: which is which is not known")
HIDDEN = template("import.hidden-character", "it holds the hidden character {found}")
REPEATED_ID = template(
    "import.repeated-id",
    "another row of this file makes an offer of the same name; this one is called {name}",
    "Both are kept: compare them before signing.",
)
AFTERMARKET = template(
    "import.aftermarket",
    "the memory is that of {found}: a board that its maker never sold, under a usual name and often at a usual price",
)
NOT_READ = template("import.columns-not-read", "not read, because no requirement asks for them: {columns}")

_ENCODER, _DECODER = msgspec.json.Encoder(), msgspec.json.Decoder(FullOffer)
_ROW = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal)
_MAX_NAMES = 400


def read_foreign(path: Path, form: Form, source: Source, findings: Findings) -> Iterator[Offer]:
    """The offers of one file in a foreign form, as they are read.

    Raises `InputErrors` when the file cannot be read as that form, or none of its rows makes an offer.
    """
    intake = _Intake(str(path), form, source, findings)
    session = intake.session
    try:
        for row in _csv_rows(path, form, intake) if form.ending == ".csv" else _json_rows(path, form, intake):
            yield from intake.offers(row)
    except InputErrors:
        raise
    except InputError as error:
        session.stop(error.message, error.place)
    if not session.seen:
        session.stop(NO_ROWS(), Place(session.file))
    if not intake.made:
        session.stop(NO_OFFER_MADE(rows=session.seen, reason=intake.first_reason), Place(session.file))
    session.end()


def _csv_rows(path: Path, form: Form, intake: _Intake) -> Iterator[Row]:
    session = intake.session
    names: list[str] = []
    for line, cells, text in records(path, session, refuse_hidden=False):
        if not names:
            names = [cell.strip() for cell in cells]
            if not form.marks <= set(names) or len(set(names)) < len(names):
                accepted = ", ".join(sorted(form.marks))
                session.stop(NOT_THIS_FORM(form=form.name, accepted=accepted), Place(session.file, line))
            intake.columns_read(names, Place(session.file, line))
            continue

        place = functools.partial(_csv_place, session.file, names, line, text)
        session.count(place(None))
        if (found := hidden_character(text)) is not None:
            intake.leave_out(HIDDEN(found=found), place(None))
        elif len(cells) != len(names):
            intake.leave_out(WIDTH(found=len(cells), wanted=len(names)), place(None))
        else:
            yield Row(dict(zip(names, cells, strict=True)), line, place, intake.once)


def _csv_place(file: str, names: list[str], line: int, text: str, column: str | None) -> Place:
    if column not in names:
        return Place(file, line, 1)
    return Place(file, line, column_at(text, names.index(column)) or None, column)


def _json_rows(path: Path, form: Form, intake: _Intake) -> Iterator[Row]:
    session = intake.session
    data = read_bytes(path, MAX_JSON).removeprefix(b"\xef\xbb\xbf")
    try:
        check(data)
        where = next((start for one in form.paths if (start := find(data, one)) is not None), None)
    except (msgspec.DecodeError, RecursionError) as error:
        session.stop(NOT_JSON(problem=str(error)[:200]), Place(session.file))
    if where is None:
        accepted = ", ".join(".".join(one) or "[...]" for one in form.paths)
        session.stop(NOT_THIS_FORM(form=form.name, accepted=accepted), Place(session.file, 1))
    line, seen_to, line_start = 1, 0, 0
    for number, (key, begin, end) in enumerate(members(data, where), start=1):
        line += data.count(b"\n", seen_to, begin)
        line_start = max(line_start, data.rfind(b"\n", seen_to, begin) + 1)
        seen_to = begin
        place = functools.partial(_json_place, session.file, line, begin - line_start + 1, str(key))
        session.count(place(None))
        values = _values(data[begin:end], intake, place(None))
        if values is not None:
            if number == 1:
                intake.columns_read(list(values), place(None))
            yield Row(values, number, place, intake.once)


def _json_place(file: str, line: int, column: int, key: str, inner: str | None) -> Place:
    return Place(file, line, column, f"{key}.{inner}" if inner else key)


def _values(text: bytes, intake: _Intake, place: Place) -> dict[str, Any] | None:
    """The keys and values of one member; None when it is left out."""
    if len(text) > MAX_LINE:
        intake.leave_out(LINE_TOO_LONG(limit=LINE_LIMIT), place)
        return None
    try:
        values: dict[str, Any] = _ROW.decode(text)
        json.loads(text, object_pairs_hook=_once)
    except _KeyTwiceError:
        intake.leave_out(KEY_TWICE(), place)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        intake.leave_out(NOT_AN_OBJECT(problem=str(error)[:120]), place)
    else:
        if (found := hidden_character(json.dumps(values, default=str, ensure_ascii=False))) is None:
            return values
        intake.leave_out(HIDDEN(found=found), place)
    return None


class _KeyTwiceError(ValueError):
    """A key is written twice in one object."""


def _once(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) != len(pairs):
        raise _KeyTwiceError


class _Intake:
    """The state of one import: what was made, what was left out, and what was said of the whole file."""

    def __init__(self, file: str, form: Form, source: Source, findings: Findings) -> None:
        self.session = Session(file, findings, None)
        self.form = form
        self.read = form.reader(source)
        self.made = 0
        self.first_reason: Message | str = ""
        self.said: set[str] = set()
        self.repeats: Counter[str] = Counter()

    def columns_read(self, names: list[str], place: Place) -> None:
        """Say which columns say nothing to us."""
        idle = [name for name in names if name not in self.form.columns.values()]
        if idle:
            self.once_at(NOT_READ(columns=", ".join(idle)[:_MAX_NAMES]), place)

    def once(self, message: Message, column: str | None) -> None:
        self.once_at(message, Place(self.session.file, key=column))

    def once_at(self, message: Message, place: Place) -> None:
        if message.code not in self.said:
            self.said.add(message.code)
            self.session.findings.add(Finding(message, place))

    def offers(self, row: Row) -> Iterator[Offer]:
        """The offers of one row; why there is none is a finding."""
        try:
            forms = list(self.read(row))
        except LeaveOut as left:
            self.leave_out(left.message, row.place(left.column))
            return
        for position, form in enumerate(forms):
            offer = self.offer(form, row, row.notes if not position else Notes())
            if offer is not None:
                self.made += 1
                if self.made > MAX_OFFERS:  # a row may make many
                    self.session.stop(TOO_MANY_OFFERS(limit=MAX_OFFERS), row.place(None))
                yield offer

    def offer(self, form: FullOffer, row: Row, notes: Notes) -> Offer | None:
        """One offer, checked like one that is read from a file of our own: it is what that file will hold."""
        try:
            full = _DECODER.decode(_ENCODER.encode(form))
        except msgspec.ValidationError as error:
            self.leave_out(NOT_AN_OFFER(problem=str(error)[:200]), row.place(None))
            return None
        name = self.unused(full.offer_id)
        if name != full.offer_id:
            notes.finding(REPEATED_ID(name=name))
            full = msgspec.structs.replace(full, offer_id=name)
        offer = to_offer(full, notes, Place(self.session.file, row.number_in_file), self.session.claims)
        if offer.gpu.candidates and all(key in _aftermarket() for key in offer.gpu.candidates):
            notes.finding(AFTERMARKET(found=offer.gpu.candidates), "gpu", "memory_reported_mib")
        for path, message in notes.problems[:1]:
            self.leave_out(message, self.place(row, path))
        if notes.problems:
            return None
        self.session.ids.add(name)
        if full.price.currency:
            self.session.currencies.add(full.price.currency)
        for path, message in notes.findings:
            place = self.place(row, path) if self.session.findings.has_room(message.code) else _row_start(row)
            self.session.findings.add(Finding(message, place, name))
        return offer

    def unused(self, name: str) -> str:
        """The name, with a number when another offer has it already."""
        free = name
        while free in self.session.ids:
            self.repeats[name] += 1
            free = f"{name}#{self.repeats[name] + 1}"
        return free

    def place(self, row: Row, path: tuple[str | int, ...]) -> Place:
        """Where the value of a full path, or of a column, stands in the file."""
        key = ".".join(map(str, path))
        column = self.form.columns.get(key, key if len(path) == 1 and key in row.values else None)
        return row.place(column)

    def leave_out(self, reason: Message, place: Place) -> None:
        """Say why a row makes no offer; reasons of one kind are counted together."""
        self.first_reason = self.first_reason or reason
        message = msgspec.structs.replace(LEFT_OUT(reason=reason), code=f"{LEFT_OUT.code}.{reason.code}")
        self.session.findings.add(Finding(message, place))


@functools.cache
def _aftermarket() -> frozenset[str]:
    return frozenset(key for key, device in load_devices().items() if "aftermarket" in device.name)


def _row_start(row: Row) -> Place:
    """A place that costs nothing to find, for a finding that is only counted."""
    return Place(line=row.number_in_file)
