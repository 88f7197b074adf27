"""Measured cases from a JSON Lines file, each given to the reader of its kind."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from capienza.errors import InputError, Message, Parameter, Place, Template, phrase, template
from capienza.validate.foreign import foreign_rows
from capienza.validate.row_check import odd_ranks, shown
from capienza.validate.scored import Scored
from capienza.yamlmarks.source import open_file

NOT_JSON = template(
    "validate.not-json", "the line is not JSON: {problem}", "each line is one whole case, a JSON object on one line"
)
NOT_A_CASE = template(
    "validate.not-a-case",
    "the line is no measured case: {problem}",
    "a case has id, measured, and engine or framework; the fields are those of the cases' own README",
)
REPEATED_KEY = template(
    "validate.repeated-key", "the key {key} is written twice in one object", "keep the value that was logged"
)
REPEATED_ID = template("validate.repeated-id", "the id stands on line {line} of {file} already; a case counts once")
TOO_LONG = template(
    "validate.line-too-long", "the line has more than {limit} bytes", "a case is a few kilobytes; check the file"
)
NO_CASES = template("validate.no-cases", "the file holds no case", "name a .jsonl file of measured cases")
PACKED = template("validate.packed", "the file is packed ({kind}), not text", "unpack it, and name the .jsonl file")
OTHER_TEXT = template(
    "validate.other-text",
    "the file is {kind}; cases are read as UTF-8 without a byte order mark",
    "save it as UTF-8 without a byte order mark",
)
ODD_KEY = template("validate.odd-key", "the value of {key} is not of the form that cases have ({found})")
AT_BYTE = template("validate.at-byte", "what stands at byte {byte} cannot stand there")
KINDS = {
    dict: phrase("it is an object"), list: phrase("it is a list, not an object"),
    str: phrase("it is a text, not an object"), int: phrase("it is a number, not an object"),
    float: phrase("it is a number, not an object"), bool: phrase("it is true or false, not an object"),
    type(None): phrase("it is null, not an object"),
}  # fmt: skip
CUT = phrase("it ends before its object does")
TOO_DEEP = phrase("it is nested too deeply")
NOT_UTF8 = phrase("it is not UTF-8 text")
UNREADABLE = phrase("it cannot be read")
MISSING = {
    "id": phrase("id is missing"), "measured": phrase("measured is missing"),
    "engine": phrase("engine and framework are missing"),
}  # fmt: skip
STARTS: dict[bytes, tuple[Template, str]] = {
    b"\x1f\x8b": (PACKED, "gzip"),
    b"\x28\xb5\x2f\xfd": (PACKED, "zstd"),
    b"PK\x03\x04": (PACKED, "zip"),
    b"\xfd7zXZ": (PACKED, "xz"),
    b"BZh": (PACKED, "bzip2"),
    b"\xef\xbb\xbf": (OTHER_TEXT, phrase("UTF-8 with a byte order mark")),
    b"\xff\xfe": (OTHER_TEXT, "UTF-16"),
    b"\xfe\xff": (OTHER_TEXT, "UTF-16"),
    b"{\x00": (OTHER_TEXT, "UTF-16"),
    b"\x00{": (OTHER_TEXT, "UTF-16"),
}
"""How a file begins that is no plain UTF-8 text."""
FORMS: dict[str, tuple[type, ...]] = {
    "measured": (dict, list),
    "arch": (dict,),
    "flags": (dict,),
    "oom": (dict, list),
    "lora": (dict,),
    "runtime": (dict,),
    "config": (dict,),
    "consistency": (dict,),
}
LINE_BYTES = 4 * 2**20
LLAMACPP_ENGINES = ("llama.cpp", "llamacpp", "ik_llama.cpp", "ollama", "llama-cpp-python", "koboldcpp")
Row = dict[str, Any]


def read_cases(path: str) -> Iterator[tuple[int, Row]]:
    """Each case with its line number. Raises `InputError` or `UnreachableError` naming file and line."""
    count = 0
    with open_file(Path(path)) as file:
        _check_start(file, path)
        for number, line in enumerate(_lines(file, path), start=1):
            if line.strip():
                count += 1
                yield number, _row(line, path, number)
    if not count:
        raise InputError(NO_CASES(), Place(path))


def scored_rows(paths: Sequence[str]) -> Iterator[Scored]:
    """Every quantity of every case of the files, in their order; a case that was there already is listed alone."""
    seen: dict[str, list[tuple[str, int, int]]] = {}
    for path in paths:
        name = Path(path).name
        foreign = foreign_rows(path)
        if foreign is not None:
            yield from (msgspec.structs.replace(scored, file=name) for scored in foreign)
            continue
        for number, row in read_cases(path):
            whole = hash(msgspec.json.encode(row, order="sorted"))
            before = seen.setdefault(str(row["id"]), [])
            # The same id in another file may be another run; a whole row is the same case wherever it stands.
            first = next((place for place in before if place[0] == path or place[2] == whole), None)
            before.append((path, number, whole))
            repeated = first and REPEATED_ID(line=first[1], file=Path(first[0]).name)
            for scored in [_unread(row, repeated)] if repeated else _scored(row):
                yield msgspec.structs.replace(scored, file=name)


def _scored(row: Row) -> Iterator[Scored]:
    odd = _odd(row)
    if odd is not None:
        return iter([_unread(row, odd)])
    if "framework" in row and "engine" not in row:
        from capienza.validate.training_rows import training_row

        return training_row(row)
    if str(row["engine"]).lower().startswith(LLAMACPP_ENGINES):
        from capienza.validate.llamacpp_rows import llamacpp_row

        return llamacpp_row(row)
    from capienza.validate.inference_rows import inference_row

    return inference_row(row)


def _odd(row: Row) -> Message | None:
    """What is wrong with the first value that has not the form that cases have; None when all have."""
    if isinstance(row["measured"], list) and "framework" not in row:
        return ODD_KEY(key="measured", found=shown(row["measured"]))
    for key, forms in FORMS.items():
        value = row.get(key)
        if value is not None and not isinstance(value, forms):
            return ODD_KEY(key=key, found=shown(value))
    return odd_ranks(row)


def _unread(row: Row, reason: Message) -> Scored:
    """A case that is listed, and says why nothing is predicted for it."""
    return Scored(
        id=str(row["id"])[:200],
        quantity="none",
        engine=str(row.get("engine") or row.get("framework") or "?")[:60],
        arch="?",
        weight_format="?",
        model="?",
        status="skipped",
        reason=str(reason),
    )


def _check_start(file: BinaryIO, path: str) -> None:
    """Raises `InputError` for a file that its first bytes show to be no plain text."""
    start = file.read(8)
    file.seek(0)
    for bytes_, (said, kind) in STARTS.items():
        if start.startswith(bytes_):
            raise InputError(said(kind=kind), Place(path))


def _lines(file: BinaryIO, path: str) -> Iterator[bytes]:
    number = 0
    while line := file.readline(LINE_BYTES + 1):
        number += 1
        if len(line) > LINE_BYTES:
            raise InputError(TOO_LONG(limit=LINE_BYTES), Place(path, line=number))
        yield line


def _row(line: bytes, path: str, number: int) -> Row:
    place = Place(path, line=number)
    try:
        row = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise InputError(NOT_JSON(problem=_problem(error)), place) from error
    if not isinstance(row, dict):
        raise InputError(NOT_A_CASE(problem=KINDS[type(row)]), place)
    _check_keys(line, place)
    for name in ("id", "measured"):
        if row.get(name) is None:
            raise InputError(NOT_A_CASE(problem=MISSING[name]), place)
    if "engine" not in row and "framework" not in row:
        raise InputError(NOT_A_CASE(problem=MISSING["engine"]), place)
    return row


def _problem(error: Exception) -> Parameter:
    """What is wrong with a line, without the decoder's own paths."""
    text = str(error)
    byte = re.search(r"\(byte (\d+)\)", text)
    if isinstance(error, RecursionError) or "recursion" in text.casefold():
        return TOO_DEEP
    if isinstance(error, UnicodeDecodeError) or "UTF-8" in text:
        return NOT_UTF8
    if "truncated" in text:
        return CUT
    return AT_BYTE(byte=int(byte[1])) if byte else UNREADABLE


def _check_keys(line: bytes, place: Place) -> None:
    """Raises `InputError` for a key that an object of the line has twice: nothing says which value is meant."""

    def once(pairs: list[tuple[str, Any]]) -> None:
        names = [name for name, _ in pairs]
        if len(set(names)) < len(names):
            twice = next(name for index, name in enumerate(names) if name in names[:index])
            raise InputError(REPEATED_KEY(key=shown(twice)), Place(place.file, line=place.line))

    try:
        json.loads(line, object_pairs_hook=once, parse_int=len, parse_float=len)
    except (ValueError, RecursionError) as error:
        raise InputError(
            NOT_JSON(problem=TOO_DEEP if isinstance(error, RecursionError) else UNREADABLE), place
        ) from error
