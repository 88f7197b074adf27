"""Give something another attribute for a while."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

ABSENT = object()


@contextlib.contextmanager
def swapped(owner: Any, attribute: str, value: Any) -> Iterator[None]:
    """Inside, `owner.attribute` is `value`. After it the owner has what it had itself, perhaps nothing."""
    before = vars(owner).get(attribute, ABSENT)
    setattr(owner, attribute, value)
    try:
        yield
    finally:
        if before is ABSENT:
            delattr(owner, attribute)
        else:
            setattr(owner, attribute, before)
