"""What a document that is signed needs of offers that pass by once, in little memory.

Offers wait as their canonical JSON in a file that stays in memory while it is small; the few that are shown in full
are read back. The digest of all of them pins what was decided on.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from capienza.canon import digest_bytes
from capienza.catalog.offer import GpuClaim, Offer
from capienza.decide.documents import offer_bytes
from capienza.decide.run import Judged
from capienza.evidence.store import root

IN_MEMORY_BYTES = 16 * 2**20


class GpuCount(NamedTuple):
    """What an offer has: a GPU claim, shared by all offers that make it, and how many."""

    claim: GpuClaim
    gpus: int


class Spot(NamedTuple):
    """Where an offer lies in the waiting file."""

    start: int
    length: int


class Gathering:
    """The offers of a run, kept as they pass."""

    def __init__(self) -> None:
        self.gpus: dict[str, GpuCount] = {}
        self._waiting = tempfile.SpooledTemporaryFile(IN_MEMORY_BYTES)  # noqa: SIM115 - read back later, gone with us
        self._spots: dict[str, Spot] = {}
        self._digests: list[str] = []

    def watch(self, judged: Iterable[Judged]) -> Iterator[Judged]:
        """Let them pass, each kept."""
        end = 0
        for one in judged:
            data = offer_bytes(one.offer)
            self.gpus[one.offer.id] = GpuCount(one.offer.gpu, one.offer.gpus)
            self._spots[one.offer.id] = Spot(end, len(data))
            self._digests.append(digest_bytes(data))
            end += self._waiting.write(data)
            yield one

    def offer(self, name: str) -> Offer:
        """An offer that has passed."""
        start, length = self._spots[name]
        self._waiting.seek(start)
        return msgspec.json.decode(self._waiting.read(length), type=Offer)

    def digest(self) -> str:
        """The Merkle root of the digests of all that have passed, whatever their order."""
        return root(self._digests)
