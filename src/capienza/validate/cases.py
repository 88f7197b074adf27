"""Measured cases from a JSON Lines file, each given to the reader of its kind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from capienza.errors import InputError, Place, template
from capienza.validate.scored import Scored

NOT_JSON = template("validate.not-json", "the line is not JSON: {problem}", "each line is one case, a JSON object")
NOT_A_CASE = template(
    "validate.not-a-case",
    "the line is no measured case: {problem}",
    "a case has id, measured, and engine or framework; the fields are those of the cases' own README",
)
TOO_LONG = template(
    "validate.line-too-long", "the line has more than {limit} bytes", "a case is a few kilobytes; check the file"
)
NO_FILE = template("validate.no-file", "there is no file {found}", "name a .jsonl file of measured cases")
NO_CASES = template("validate.no-cases", "the file holds no case", "name a .jsonl file of measured cases")
ODD_KEY = template("validate.odd-key", "the value of {key} is not of the form that cases have ({found})")
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
RANKS = ("tp", "pp", "num_gpus")
MAX_RANKS = 2**20
LINE_BYTES = 4 * 2**20
LLAMACPP_ENGINES = ("llama.cpp", "llamacpp", "ik_llama.cpp", "ollama", "llama-cpp-python", "koboldcpp")
Row = dict[str, Any]


def read_cases(path: str) -> Iterator[tuple[int, Row]]:
    """Each case with its line number. Raises `InputError` naming file and line."""
    try:
        file = Path(path).open("rb")  # noqa: SIM115 - closed below
    except OSError as error:
        raise InputError(NO_FILE(found=Path(path).name), Place(path)) from error
    count = 0
    with file:
        for number, line in enumerate(_lines(file, path), start=1):
            if line.strip():
                count += 1
                yield number, _row(line, path, number)
    if not count:
        raise InputError(NO_CASES(), Place(path))


def scored_rows(path: str) -> Iterator[Scored]:
    """Every quantity of every case of a file, in the file's order."""
    name = Path(path).name
    for _, row in read_cases(path):
        for scored in _scored(row):
            yield msgspec.structs.replace(scored, file=name)


def _scored(row: Row) -> Iterator[Scored]:
    odd = _odd_key(row)
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


def _odd_key(row: Row) -> str | None:
    """The first key whose value has not the form that cases have; None when all have."""
    if isinstance(row["measured"], list) and "framework" not in row:
        return "measured"
    for key, forms in FORMS.items():
        value = row.get(key)
        if value is not None and not isinstance(value, forms):
            return key
    for key in RANKS:
        value = row.get(key)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_RANKS):
            return key
    return None


def _unread(row: Row, key: str) -> Scored:
    """A case that is listed, and says why nothing is predicted for it."""
    return Scored(
        id=str(row["id"])[:200],
        quantity="none",
        engine=str(row.get("engine") or row.get("framework") or "?")[:60],
        arch="?",
        weight_format="?",
        model="?",
        status="skipped",
        reason=str(ODD_KEY(key=key, found=type(row[key]).__name__)),
    )


def _lines(file: Any, path: str) -> Iterator[bytes]:
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
        raise InputError(NOT_JSON(problem=str(error)[:120]), place) from error
    if not isinstance(row, dict):
        raise InputError(NOT_A_CASE(problem=type(row).__name__), place)
    for name in ("id", "measured"):
        if row.get(name) is None:
            raise InputError(NOT_A_CASE(problem=f"{name} is missing"), place)
    if "engine" not in row and "framework" not in row:
        raise InputError(NOT_A_CASE(problem="engine and framework are missing"), place)
    return row
