"""Offers from a file of any of the four forms, one by one."""

from __future__ import annotations

import datetime
import shlex
from collections.abc import Iterator
from pathlib import Path

from capienza.catalog.from_csv import read_csv
from capienza.catalog.from_json import read_json, read_jsonl
from capienza.catalog.from_yaml import MAX_YAML_OFFERS, read_yaml
from capienza.catalog.notes import Findings
from capienza.catalog.offer import Offer
from capienza.catalog.session import Session
from capienza.errors import InputError, InputErrors, Place, template
from capienza.yamlmarks.source import open_file

UNKNOWN_FORM = template(
    "catalog.unknown-file-form",
    "expected a file of offers that ends in {accepted}, got {found}",
    "Give the file the ending of its form.",
)

FOREIGN = template(
    "catalog.foreign-form",
    "this is a price list of {form}, which is converted before it is used",
    "Run: capienza offers import {file} --out {out} --retrieved YYYY-MM-DD",
)

ENDINGS = (".yaml", ".yml", ".json", ".jsonl", ".csv")


def read_offers(
    path: Path,
    findings: Findings | None = None,
    zone: datetime.tzinfo | None = None,
    yaml_limit: int | None = MAX_YAML_OFFERS,
) -> Iterator[Offer]:
    """The offers of one file, as they are read; what must be known about them goes to `findings`.

    A bare date is a whole day in `zone` (None: UTC, with a finding). `yaml_limit` None reads a YAML list of any
    length, for a conversion. The good offers of a file with problems are given too, before the error at its end.

    Raises `InputErrors` with all the problems (the first ones and a count in a big file), `UnreachableError` when
    the file is not there.
    """
    session = Session(str(path), findings or Findings(), zone)
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        open_file(path).close()
        raise InputError(UNKNOWN_FORM(found=path.name[:80], accepted=", ".join(ENDINGS)), Place(str(path)))
    try:
        if ending in (".yaml", ".yml"):
            yield from read_yaml(path, session, yaml_limit)
        elif ending == ".csv":
            yield from read_csv(path, session)
        elif ending == ".jsonl":
            yield from read_jsonl(path, session)
        else:
            yield from read_json(path, session)
        session.end()
    except InputError as error:
        _refuse_foreign(path)
        if isinstance(error, InputErrors):
            raise
        session.stop(error.message, error.place)


def _refuse_foreign(path: Path) -> None:
    """Say how a file in a form of others is converted. Raises `InputError` when it is in one."""
    from capienza.catalog.importers.table import form_of  # not needed to read a good file

    form = form_of(path)
    if form is not None:
        file, out = shlex.quote(str(path)), shlex.quote(f"{path.stem}.jsonl")
        raise InputError(FOREIGN(form=form.title, file=file, out=out), Place(str(path)))
