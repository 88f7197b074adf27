"""Every form that can be imported, and how a file is recognised as one of them."""

from __future__ import annotations

import csv
from pathlib import Path

import msgspec

from capienza.catalog.from_json import MAX_JSON
from capienza.catalog.importers import aws_blocks, gpuhunt, lambda_cloud, runpod, skypilot, vast
from capienza.catalog.importers.form import Form
from capienza.catalog.importers.members import check, find, members
from capienza.catalog.lines import lines
from capienza.errors import InputError
from capienza.yamlmarks.source import read_bytes

FORMS: dict[str, Form] = {
    form.name: form
    for form in (gpuhunt.FORM, skypilot.FORM, vast.FORM, runpod.FORM, lambda_cloud.FORM, aws_blocks.FORM)
}


def form_of(path: Path) -> Form | None:
    """The foreign form of a file, by its header or its keys; None when it is none of them, or cannot be read."""
    try:
        return _csv_form(path) if path.suffix.lower() == ".csv" else _json_form(path)
    except (InputError, msgspec.DecodeError, csv.Error, UnicodeDecodeError, RecursionError):
        return None


def _csv_form(path: Path) -> Form | None:
    for _, line in lines(path):
        header = {name.strip() for name in next(csv.reader([line.decode()]), [])}
        if header:
            return next((form for form in FORMS.values() if form.ending == ".csv" and form.marks <= header), None)
    return None


def _json_form(path: Path) -> Form | None:
    if path.suffix.lower() != ".json":
        return None
    data = read_bytes(path, MAX_JSON).removeprefix(b"\xef\xbb\xbf")
    check(data)
    return next((form for form in FORMS.values() if form.ending == ".json" and _is_of(data, form)), None)


def _is_of(data: bytes, form: Form) -> bool:
    for one in form.paths:
        start = find(data, one)
        if start is None:
            continue
        for _, begin, _ in members(data, start):
            if data[begin : begin + 1] == b"{" and any(key in form.marks for key, _, _ in members(data, begin)):
                return True
            break
    return False
