"""`offers`: read, check and convert files of offers, our own and those of others."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from capienza.catalog.importers.form import Form, Source
from capienza.catalog.importers.read import read_foreign
from capienza.catalog.importers.table import FORMS, form_of
from capienza.catalog.moments import parse_day, parse_moment
from capienza.catalog.notes import Finding, Findings
from capienza.catalog.offer import Offer
from capienza.catalog.read import read_offers
from capienza.catalog.write import write_jsonl
from capienza.errors import InputError, Place, UsageError, template
from capienza.units import QuantityError, parse_duration
from capienza.yamlmarks.source import open_file

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
UNKNOWN_FORM = template(
    "offers.unknown-form", "there is no form {found}; known: {accepted}", "Leave --from out to have it recognised."
)
OTHER_FORM = template(
    "offers.other-form",
    "this is not the form {form}: by its columns or keys it is {seen}",
    "Give --from {name}, or leave --from out to have the form recognised.",
)
NOT_A_DATE = template(
    "offers.not-a-date",
    "expected a date such as 2026-11-30, or a date-time with an offset, got {found}",
    "Write year-month-day.",
)
NOT_A_TIME = template("offers.not-a-time", "expected hours or days such as 7 days, got {found}", "Write the unit too.")
FRESH_SINCE_WHEN = template(
    "offers.fresh-since-when",
    "for how long the prices hold says nothing without the day they were read",
    "Add --retrieved.",
)
OWN_FORM = template(
    "offers.own-form",
    "{options} go with a form of others, and this file is not recognised as one",
    "Leave them out for a form of ours, or give the form with --from: then it is said what is wrong with the file.",
)
UNDATED = template(
    "offers.undated",
    "the file has no date, so its prices have no age and stay to confirm",
    "Give the day it was fetched with --retrieved.",
)


class OffersReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a file of offers holds: how many, and what must be known about them. `form` is that of others, if any."""

    count: int
    findings: Findings
    form: str | None = None


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


def offers_import(
    path: str | Path,
    out: str | Path,
    form: str | None = None,
    *,
    provider: str | None = None,
    retrieved: str | None = None,
    fresh_for: str | None = None,
) -> OffersReport:
    """Convert a file of offers, of any length, to one JSON object a line. `out` appears complete or not at all.

    `form` is the name of a form of others, None to recognise it. For such a form `provider` is who sells, `retrieved`
    the day the file was fetched, and `fresh_for` how long its prices hold from then ("7 days").

    Raises `UsageError` for an `out` that does not end in .jsonl or is the file itself, and for words that are not
    understood, `InputErrors` for a file that cannot be used, `UnreachableError` when `out` cannot be written.
    """
    source, target = Path(path), Path(out)
    if target.suffix != ".jsonl" or (
        target.exists() and target.is_file() and source.exists() and target.samefile(source)
    ):
        raise UsageError(BAD_TARGET(found=str(out)))
    foreign = _form(form, source)
    findings = Findings()
    if foreign is None:
        options = {"--provider": provider, "--retrieved": retrieved, "--fresh-for": fresh_for}
        if given := ", ".join(name for name, value in options.items() if value is not None):
            raise UsageError(OWN_FORM(options=given))
        return OffersReport(
            count=write_jsonl(read_offers(source, findings, yaml_limit=None), target), findings=findings
        )
    date = _date(retrieved)
    said = Source(
        form=foreign.name,
        file=source.name,
        version=_digest(source),
        provider=provider,
        retrieved=date,
        valid_until=_end(date, fresh_for),
    )
    if date is None:
        findings.add(Finding(UNDATED(), Place(str(source))))
    count = write_jsonl(read_foreign(source, foreign, said, findings), target)
    return OffersReport(count=count, findings=findings, form=foreign.title)


def _form(name: str | None, path: Path) -> Form | None:
    """The form of others that is meant, or that the file is in; None for a form of ours."""
    if name is None:
        return form_of(path)
    if name not in FORMS:
        raise UsageError(UNKNOWN_FORM(found=name[:60], accepted=tuple(FORMS)))
    form = FORMS[name]
    seen = form_of(path)
    if seen is not None and seen.ending != form.ending:
        raise InputError(OTHER_FORM(form=form.title, seen=seen.title, name=seen.name), Place(str(path)))
    return form


def _date(text: str | None) -> datetime.datetime | None:
    """The moment a file was fetched: of a bare date its first moment in UTC, the age that says most."""
    if text is None:
        return None
    day = parse_day(text, datetime.UTC)
    moment = day[0] if day else parse_moment(text)
    if moment is None:
        raise UsageError(NOT_A_DATE(found=text[:40]))
    return moment


def _end(retrieved: datetime.datetime | None, fresh_for: str | None) -> datetime.datetime | None:
    if fresh_for is None:
        return None
    if retrieved is None:
        raise UsageError(FRESH_SINCE_WHEN())
    try:
        return retrieved + parse_duration(fresh_for)
    except (QuantityError, OverflowError):
        raise UsageError(NOT_A_TIME(found=fresh_for[:40])) from None


def _digest(path: Path) -> str:
    """What tells this version of the file from any other: the beginning of its sha256."""
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]
