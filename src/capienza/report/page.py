"""A decision as a file to sign, in Markdown or as one HTML page; what that needs is found out before the work."""

from __future__ import annotations

import datetime
import importlib
from pathlib import Path
from typing import Literal

from capienza.decide.dossier import Dossier
from capienza.errors import MissingPartError, Place, UsageError, template
from capienza.files import check_place, write_whole
from capienza.i18n.translator import speaker
from capienza.report.markdown import markdown
from capienza.report.signing import running_text, signing_document

BAD_ENDING = template(
    "signing.bad-ending",
    "a document ends in {accepted}; found {found}",
    "name it decision.html, or decision.md",
)
PART_MISSING = template(
    "signing.part-missing",
    "an HTML document needs packages that are not installed: {packages}",
    'pip install "capienza[report]"; a document that ends in .md needs none of them',
)
Form = Literal["md", "html"]
FORMS: dict[str, Form] = {".md": "md", ".html": "html"}
PARTS = {"jinja2": "Jinja2", "altair": "altair", "vl_convert": "vl-convert-python"}


def document_text(dossier: Dossier, form: Form, language: str) -> str:
    """The document as text. Equal dossiers give equal texts, to the byte."""
    say = speaker(language).in_zone(dossier.decided.card.zone or datetime.UTC)
    document = signing_document(dossier, say)
    if form == "md":
        return markdown(document)
    require_parts()
    from capienza.report.html import html

    return html(document, say, running_text(dossier, say))


def write_document(dossier: Dossier, path: Path, language: str) -> None:
    """Write the document; it appears complete or not at all. Raises what `out_form` and `write_whole` raise."""
    text = document_text(dossier, out_form(path), language)
    write_whole(path, lambda file: file.write(text.encode()))


def prepare(path: Path) -> None:
    """Find out before all the work whether the document can be made and written where it is wanted.

    Raises `UsageError`, `MissingPartError`, `UnreachableError`.
    """
    if out_form(path) == "html":
        require_parts()
    check_place(path)


def out_form(path: Path) -> Form:
    """The form that a file's ending stands for. Raises `UsageError` for another one."""
    form = FORMS.get(path.suffix.lower())
    if form is None:
        raise UsageError(BAD_ENDING(found=path.name, accepted=tuple(FORMS)), Place(str(path)))
    return form


def require_parts() -> None:
    """Raises `MissingPartError` when a package that pages need is not installed."""
    missing = missing_parts()
    if missing:
        raise MissingPartError(PART_MISSING(packages=missing))


def missing_parts() -> list[str]:
    """The packages that pages and charts need and that are not installed."""
    return [package for module, package in PARTS.items() if not _is_there(module)]


def _is_there(module: str) -> bool:
    try:
        importlib.import_module(module)
    except ImportError:
        return False
    return True
