"""The answer of `alternatives`: where the search began, and what it found."""

from __future__ import annotations

import msgspec

from capienza.decide.alternatives.find import Found
from capienza.decide.alternatives.scene import Scene
from capienza.errors import Message
from capienza.ledger.phase import Phase


class Alternatives(msgspec.Struct, frozen=True, kw_only=True):
    """`offer` is the id of the current offer, `failed` the phase that failed, as they were named.

    `findings` say what of the records was not read.
    """

    scene: Scene
    found: Found
    offer: str | None = None
    failed: Phase | None = None
    findings: tuple[Message, ...] = ()
