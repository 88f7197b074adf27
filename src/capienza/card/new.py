"""A card to start from: what is known is written, everything else waits in a comment that says what it is for."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from capienza import yamlmarks
from capienza.card.field import Field
from capienza.card.fields import CHILDREN, ROOT, VERSION
from capienza.card.load import parse_card
from capienza.card.model import Task
from capienza.card.rules import MODEL_SOURCES, NEEDED, ONLY_FOR
from capienza.card.training_options import OPTIONS
from capienza.errors import phrase

HEADINGS = (
    phrase("Take the # away from what you know, and correct the value."),
    phrase("What is left out is not assumed: it is reported as to be confirmed."),
)
OR_NONE = phrase("Write none where it does not apply.")
FOR_TRAINING = {
    "engine.name": "trl",
    "engine.version": '"1.16.0"',
    "engine.options": '{transformers: "5.24.0", torch: "2.13.0", peft: "0.21.2"}',
    "tokens.required": "4096",
}
"""Examples that suit fine-tuning, where those of the table suit serving."""
RARE = frozenset(f"training.{option.name}" for option in OPTIONS if not option.is_common)
"""Options of a recipe that few need to state: the reference lists them."""
COMMENT_COLUMN = 44

_WORD = re.compile(r"[A-Za-z0-9._/~-]+")


def new_card(
    model: str,
    *,
    task: Task = "inference",
    name: str | None = None,
    revision: str | None = None,
    engine: str | None = None,
    gpus: int | None = None,
    translate: Callable[[str], str] = str,
) -> str:
    """A commented card for a Hub id or a local path, ready to edit.

    `translate` turns the English comments into the reader's language. Raises `InputErrors` when what is given
    makes no valid card.
    """
    local = model.endswith(".gguf") or model.startswith((".", "/", "~"))
    stated = {
        "capienza": VERSION,
        "name": name or model.rstrip("/").rpartition("/")[2].removesuffix(".gguf").lower() or "model",
        "model.path" if local else "model.id": model,
        "model.revision": revision,
        "task": task,
        "engine.name": engine,
        "placement.gpus": gpus,
    }
    given = {path: _written(value) for path, value in stated.items() if value is not None}
    fields = _lines(ROOT, _Start(given, task, translate), waiting=False)
    headings = [f"# {translate(heading)}" for heading in HEADINGS]
    text = "\n".join([*headings, *(f"{line.text.ljust(COMMENT_COLUMN)}  # {line.comment}" for line in fields), ""])
    parse_card(text)
    return text


class _Start(NamedTuple):
    """What a new card starts from: YAML text by path, the task, and the language of its comments."""

    given: dict[str, str]
    task: Task
    translate: Callable[[str], str]


class _Line(NamedTuple):
    """A line of the card and the comment that stands beside it."""

    text: str
    comment: str


def _lines(path: str, start: _Start, *, waiting: bool) -> Iterator[_Line]:
    """The fields of one mapping; those not given stand behind a comment sign, unless the whole is `waiting` there."""
    for field in CHILDREN[path].values():
        if not _applies(field.path, start):
            continue
        known = any(f"{given}.".startswith(f"{field.path}.") for given in start.given)
        sign = "" if known or waiting else "# "
        for line in _block(field, start, waiting=not known):
            yield _Line(sign + line.text, line.comment)


def _block(field: Field, start: _Start, *, waiting: bool) -> Iterator[_Line]:
    """One field with its comment, and its own fields below it."""
    kind = field.kind
    one_line = kind.convert or kind.many or field.path not in CHILDREN
    example = FOR_TRAINING.get(field.path, field.example) if start.task == "fine-tuning" else field.example
    value = f" {start.given.get(field.path, example)}" if one_line else ""
    comment = start.translate(field.description) + (f" {start.translate(OR_NONE)}" if field.none else "")
    yield _Line(f"{field.key}:{value}", comment)
    if not one_line:
        for line in _lines(field.path, start, waiting=waiting):
            yield _Line(f"  {line.text}", line.comment)


def _applies(path: str, start: _Start) -> bool:
    """Does the field go with the task and with the model that is given? What is given is never left out."""
    if path in MODEL_SOURCES:
        return path in start.given
    if path in RARE:
        return False
    fits = ONLY_FOR.get(path, start.task) == start.task and (path not in NEEDED or NEEDED[path] in start.given)
    return fits or path in start.given


def _written(value: str | int) -> str:
    """A value as YAML, in quotes where it would be read as something else."""
    if isinstance(value, int) or (_WORD.fullmatch(value) and yamlmarks.read(value).root == yamlmarks.Node(value, 1, 1)):
        return str(value)
    return json.dumps(value, ensure_ascii=False)
