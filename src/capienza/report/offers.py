"""Offers and what was found while reading them, as documents and as JSON (`capienza.offers/1`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from capienza.catalog.notes import Finding, Findings
from capienza.catalog.offer import Offer, Price
from capienza.i18n.translator import Say, mark
from capienza.report.blocks import Block, Document, Heading, Items, Paragraph, Table
from capienza.report.messages import message_data, sentence
from capienza.report.tool import TOOL

OFFERS_SCHEMA = "capienza.offers/1"
SHOWN = 3
"""Findings of one kind that people read in full; `--json` has more of them."""
PRICE_LABELS = {
    "total": mark("in all"),
    "per_gpu_hour": mark("per GPU and hour"),
    "per_node_hour": mark("per node and hour"),
    "per_offer_hour": mark("per offer and hour"),
}


def offers_data(offers: Iterable[Offer], findings: Findings) -> dict[str, Any]:
    """Every offer as it was understood, then what must be known about them."""
    return {"schema": OFFERS_SCHEMA, "tool": TOOL, "offers": list(offers), "findings": findings_data(findings)}


def check_data(count: int, findings: Findings) -> dict[str, Any]:
    """How many offers are in order, and what must be known about them."""
    return {
        "schema": "capienza.offers-check/1",
        "tool": TOOL,
        "ok": True,
        "offers": count,
        "findings": findings_data(findings),
    }


def import_data(count: int, form: str | None, findings: Findings) -> dict[str, Any]:
    """How many offers were written, from which form, and what must be known about them."""
    return {
        "schema": "capienza.offers-import/1",
        "tool": TOOL,
        "form": form,
        "offers": count,
        "findings": findings_data(findings),
    }


def findings_data(findings: Findings) -> dict[str, Any]:
    """All findings counted by code; the first of each in full."""
    return {
        "counts": dict(sorted(findings.counts.items())),
        "shown": [{**message_data(f.message), "where": str(f.place), "offer": f.offer} for f in findings.kept],
    }


def offers_document(offers: tuple[Offer, ...], findings: Findings, say: Say) -> Document:
    """One line an offer. The seller's memory is text; the candidates are the cards that the name may mean."""
    rows = tuple(
        (
            offer.id,
            offer.provider,
            offer.gpu.name_raw,
            offer.gpu.memory_nominal or say("not stated"),
            ", ".join(offer.gpu.candidates) or say("unknown"),
            str(offer.gpus),
            price_text(offer.price, say),
            term_text(offer.price, say),
            offer.document.id if offer.document else say("none"),
        )
        for offer in offers
    )
    columns = (
        say("offer"),
        say("provider"),
        "GPU",
        say("seller's memory"),
        say("may be"),
        say("GPUs"),
        say("price"),
        say("paid time"),
        say("document"),
    )
    return (Table(columns=columns, rows=rows, numeric=(5,)), *findings_blocks(findings, say))


def check_document(count: int, findings: Findings, say: Say) -> Document:
    """The result of `offers check`."""
    return (
        Paragraph(say("The file is in order; offers: {count}.", count=say.number(count))),
        *findings_blocks(findings, say),
    )


def import_document(count: int, form: str | None, findings: Findings, say: Say) -> Document:
    """The result of `offers import`."""
    if form is None:
        return check_document(count, findings, say)
    text = say("Read as {form}; offers written: {count}.", form=form, count=say.number(count))
    return (Paragraph(text), *findings_blocks(findings, say))


def price_text(price: Price, say: Say) -> str:
    """The price as it is asked; an unknown one is a word."""
    if price.money is None:
        return say("unknown")
    return f"{say.money(price.money)} {say(PRICE_LABELS[price.kind])}"


def term_text(price: Price, say: Say) -> str:
    """Paid time of a package."""
    return "" if price.term_hours is None else say("{hours} h", hours=say.number(price.term_hours))


def findings_blocks(findings: Findings, say: Say) -> tuple[Block, ...]:
    """What must be known: the first of each kind in full, and how many more there are like them."""
    items: list[str] = []
    for code, count in findings.counts.items():
        shown = [finding for finding in findings.kept if finding.message.code == code][:SHOWN]
        items += [_finding(finding, say) for finding in shown]
        if count > len(shown):
            items.append(say("... and {count} more like it", count=say.number(count - len(shown))))
    return (Heading(say("To know about these offers")), Items(tuple(items))) if items else ()


def _finding(finding: Finding, say: Say) -> str:
    offer = f"{finding.offer}: " if finding.offer else ""
    text = f"{offer}{sentence(finding.message, say)}"
    place = str(finding.place)
    return f"{text} ({place})" if place else text
