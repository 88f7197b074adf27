"""The names of the parts of a split GGUF model; knows names only, so that a folder can be sorted without the reader."""

from __future__ import annotations

import re

from capienza.errors import InputError, Place, template

MAX_PARTS = 1024
PART_NAME = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.DOTALL)

TOO_MANY_PARTS = template(
    "artifacts.gguf-too-many-parts",
    "is one of {found} parts; at most {accepted} are read",
    "check the name of the file",
)
NOT_FIRST_PART = template(
    "artifacts.gguf-not-first-part",
    "is part {number} of {count} of a split model",
    "name the first part; the others are found beside it",
)


def part_names(name: str) -> tuple[str, ...]:
    """The names of all the parts of a split model, given its first; of a whole file, that name alone.

    Raises `InputError` when `name` is a later part.
    """
    match = PART_NAME.fullmatch(name)
    if match is None:
        return (name,)
    count, number = int(match["count"]), int(match["number"])
    if count > MAX_PARTS:
        raise InputError(TOO_MANY_PARTS(found=count, accepted=MAX_PARTS), Place(name))
    if number != 1:
        raise InputError(NOT_FIRST_PART(number=number, count=count), Place(name))
    return tuple(f"{match['stem']}-{part:05}-of-{count:05}.gguf" for part in range(1, count + 1))
