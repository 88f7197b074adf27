"""`decide --out`: a decision as a document to sign, in Markdown or as one HTML page."""

from __future__ import annotations

from capienza.decide.dossier import dossier_of
from capienza.decide.gather import Gathering
from capienza.decide.run import Decided
from capienza.decide.summary import summarise
from capienza.report.page import Form, document_text


def decision_document(decided: Decided, form: Form = "html", language: str = "en") -> str:
    """The document of a run that nobody has looked at yet: all its offers are judged here.

    Raises `MissingPartError` when `form` is html and the extra `report` is not installed.
    """
    with Gathering() as gathering:
        summary = summarise(decided.card, (one.decision for one in gathering.watch(decided.judged)))
        dossier = dossier_of(decided, summary, gathering)
    return document_text(dossier, form, language)
