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
DIGEST_BYTES = 32


class GpuCount(NamedTuple):
    """What an offer has: a GPU claim, shared by all offers that make it, and how many."""

    claim: GpuClaim
    gpus: int


class Gathering:
    """The offers of a run, kept as they pass, until the end of its `with` block."""

    def __init__(self) -> None:
        # One offer a line. Closed at the end of the block.
        self._waiting = tempfile.SpooledTemporaryFile(IN_MEMORY_BYTES)  # noqa: SIM115
        self._starts: dict[str, int] = {}
        self._digests = bytearray()

    def __enter__(self) -> Gathering:
        return self

    def __exit__(self, *_: object) -> None:
        self._waiting.close()

    def watch(self, judged: Iterable[Judged]) -> Iterator[Judged]:
        """Let them pass, each kept."""
        end = 0
        for one in judged:
            data = offer_bytes(one.offer)
            self._starts[one.offer.id] = end
            self._digests += bytes.fromhex(digest_bytes(data))
            end += self._waiting.write(data + b"\n")
            yield one

    def offer(self, name: str) -> Offer:
        """An offer that has passed."""
        self._waiting.seek(self._starts[name])
        return msgspec.json.decode(self._waiting.readline(), type=Offer)

    def digest(self) -> str:
        """The Merkle root of the digests of all that have passed, whatever their order."""
        starts = range(0, len(self._digests), DIGEST_BYTES)
        return root(self._digests[start : start + DIGEST_BYTES].hex() for start in starts)
