"""What an importer is: a form that others write, how it is known, and how one of its rows becomes offers."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterable
from typing import Any, Literal

import msgspec

from capienza.catalog.forms import FullDocument, FullGpu, FullOffer, FullPrice
from capienza.catalog.importers.row import Row

_PARTS = re.compile(r"[\s,;/]+")


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """The file being read, and what the caller says of it. `retrieved` None: the offers have no date."""

    form: str
    file: str
    version: str
    provider: str | None = None
    retrieved: datetime.datetime | None = None
    valid_until: datetime.datetime | None = None

    def offer(
        self,
        row: Row,
        identity: Iterable[str | None],
        *,
        provider: str,
        gpu: FullGpu,
        gpus: int,
        price: FullPrice,
        **fields: Any,
    ) -> FullOffer:
        """The full form of an offer of this file. `identity` are the words that name it; empty ones are left out."""
        retrieved = self.retrieved.isoformat() if self.retrieved else None
        words = (self.form, *identity)
        return FullOffer(
            offer_id="/".join(_PARTS.sub("-", word).strip("-") for word in words if word and word.strip(" ,;/")),
            provider=provider,
            source=f"{self.file}:{row.number_in_file}",
            retrieved_at=retrieved,
            valid_until=self.valid_until.isoformat() if self.valid_until else None,
            document=FullDocument(id=f"{self.form}:{self.file}"[:200], version=self.version, retrieved=retrieved),
            gpu=gpu,
            gpus_total=gpus,
            price=price,
            **fields,
        )


Reader = Callable[[Row], Iterable[FullOffer]]


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """One form.

    `marks` are columns that its header has (CSV), or keys of which a row has at least one (JSON). `paths` lead to the
    list, or the object, whose members are the rows. `columns` say where the value of a full path stands.
    """

    name: str
    title: str
    ending: Literal[".csv", ".json"]
    marks: frozenset[str]
    columns: dict[str, str]
    reader: Callable[[Source], Reader]
    paths: tuple[tuple[str, ...], ...] = ()
    needs_provider: bool = False
