"""`offers`: read, check and convert files of offers."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from capienza.catalog.notes import Findings
from capienza.catalog.offer import Offer
from capienza.catalog.read import read_offers
from capienza.catalog.write import write_jsonl
from capienza.errors import InputError, UsageError, template

IN_TWO_FILES = template(
    "offers.id-in-two-files",
    "an offer with the id {found} is already in {file}",
    "Give each offer its own id, and each file once.",
)


BAD_TARGET = template(
    "offers.bad-target",
    "expected a file that ends in .jsonl and is not the one that is read, got {found}",
    "Give another name with --out.",
)


class OffersReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a file of offers holds: how many, and what must be known about them."""

    count: int
    findings: Findings


def offers(
    paths: Sequence[str | Path], findings: Findings | None = None, zone: datetime.tzinfo | None = None
) -> Iterator[Offer]:
    """The offers of some files, one by one.

    Raises `InputErrors` at the end of a file that has problems, `InputError` for an id that two of the files use.
    """
    homes: dict[str, str] = {}
    for number, path in enumerate(paths):
        home = f"{number}:{path}"
        for offer in read_offers(Path(path), findings, zone):
            if len(paths) > 1 and homes.setdefault(offer.id, home) != home:
                raise InputError(IN_TWO_FILES(found=offer.id, file=homes[offer.id].partition(":")[2]), offer.place)
            yield offer


def offers_check(paths: Sequence[str | Path]) -> OffersReport:
    """Read every offer of some files. Raises `InputErrors` with all the problems of the first bad one."""
    findings = Findings()
    count = sum(1 for _ in offers(paths, findings))
    return OffersReport(count=count, findings=findings)


def offers_import(path: str | Path, out: str | Path) -> OffersReport:
    """Convert a file of offers, of any length, to one JSON object a line. `out` appears complete or not at all.

    Raises `UsageError` for an `out` that does not end in .jsonl or is the file itself, `UnreachableError` when it
    cannot be written.
    """
    source, target = Path(path), Path(out)
    if target.suffix != ".jsonl" or (
        target.exists() and target.is_file() and source.exists() and target.samefile(source)
    ):
        raise UsageError(BAD_TARGET(found=str(out)))
    findings = Findings()
    count = write_jsonl(read_offers(source, findings, yaml_limit=None), target)
    return OffersReport(count=count, findings=findings)
