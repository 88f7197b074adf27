"""A card that was read, as a document and as JSON (`capienza.card/1`)."""

from __future__ import annotations

from typing import Any

from capienza.card.model import Card
from capienza.errors import Message
from capienza.i18n.translator import Say
from capienza.recipe.recipe import Recipe
from capienza.report.blocks import Document, Heading, Items, Paragraph, Table
from capienza.report.labels import TASK_LABELS, label
from capienza.report.messages import message_data, sentence
from capienza.report.recipe import recipe_blocks, recipe_data
from capienza.report.tool import TOOL

CARD_SCHEMA = "capienza.card/1"


def card_data(card: Card, findings: tuple[Message, ...] = (), recipe: Recipe | None = None) -> dict[str, Any]:
    """The card as it was understood: sizes in bytes, dates with their offset; `findings` do not make it unusable."""
    found = [message_data(finding) for finding in findings]
    data = {"schema": CARD_SCHEMA, "tool": TOOL, "ok": True, "findings": found, "card": card}
    return data if recipe is None else data | {"recipe": recipe_data(recipe)}


def card_document(card: Card, findings: tuple[Message, ...], say: Say, recipe: Recipe | None = None) -> Document:
    """What the card requires, which requirements it does not state, what its model contradicts, and its recipe."""
    requirements = {
        say("required tokens"): card.tokens.required,
        say("concurrency") if card.task == "inference" else say("microbatch"): card.concurrency
        if card.task == "inference"
        else card.microbatch,
        say("engine"): card.engine,
        say("engine version"): card.engine.version if card.engine else None,
        say("margin"): card.margin,
        say("quality"): card.quality,
        say("placement"): card.placement,
        say("host"): card.host,
        say("budget"): card.budget,
        say("calendar"): card.calendar,
    }
    rows = (*_identity(card, say), *((name, _state(value, say)) for name, value in requirements.items()))
    return (
        Heading(card.name, 1),
        Paragraph(
            say(
                "The card is in order: {task}, digest {digest}.",
                task=say(label(TASK_LABELS, card.task)),
                digest=(card.sha256 or "")[:12],
            )
        ),
        Table(columns=(say("requirement"), say("state")), rows=rows),
        *([Items(tuple(sentence(finding, say) for finding in findings))] if findings else []),
        *(recipe_blocks(recipe, say) if recipe is not None else ()),
    )


def _identity(card: Card, say: Say) -> tuple[tuple[str, str], ...]:
    """Revision and weight format, which the files of a model state where the card does not."""
    model, revision, weights = card.model, card.model.revision, card.weights.format
    if revision is None and model.id is not None:
        revision_text = say("not stated: the commit that the Hub gives when it is read")
    else:
        revision_text = _state(revision, say)
    has_files = model.id is not None or model.path is not None
    weights_text = say("not stated: as stored") if weights is None and has_files else _state(weights, say)
    return ((say("revision"), revision_text), (say("weight format"), weights_text))


def _state(value: object, say: Say) -> str:
    if value is None:
        return say("not stated: what depends on it stays to confirm")
    return say("not applicable, the card says") if value == "none" else say("stated")
