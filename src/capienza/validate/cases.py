"""Measured cases from a JSON Lines file, each given to the reader of its kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from capienza.errors import InputError, Message, Place, phrase, template
from capienza.jsonlines import Row, read_objects
from capienza.validate.foreign import foreign_rows
from capienza.validate.row_check import odd_ranks, shown
from capienza.validate.scored import Scored

NOT_A_CASE = template(
    "validate.not-a-case",
    "the line is no measured case: {problem}",
    "a case has id, measured, and engine or framework; the fields are those of the cases' own README",
)
REPEATED_ID = template("validate.repeated-id", "the id stands on line {line} of {file} already; a case counts once")
NO_CASES = template("validate.no-cases", "the file holds no case", "name a .jsonl file of measured cases")
ODD_KEY = template("validate.odd-key", "the value of {key} is not of the form that cases have ({found})")
MISSING = {
    "id": phrase("id is missing"), "measured": phrase("measured is missing"),
    "engine": phrase("engine and framework are missing"),
}  # fmt: skip
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


def read_cases(path: str) -> Iterator[tuple[int, Row]]:
    """Each case with its line number. Raises `InputError` or `UnreachableError` naming file and line."""
    count = 0
    for number, row in read_objects(path, LINE_BYTES):
        count += 1
        yield number, _checked(row, Place(path, line=number))
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


def _checked(row: Row, place: Place) -> Row:
    """Raises `InputError` where what every case has is missing."""
    for name in ("id", "measured"):
        if row.get(name) is None:
            raise InputError(NOT_A_CASE(problem=MISSING[name]), place)
    if "engine" not in row and "framework" not in row:
        raise InputError(NOT_A_CASE(problem=MISSING["engine"]), place)
    return row
