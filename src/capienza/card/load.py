"""From a card file to a `Card`, or to every problem of the file with its place."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from capienza import yamlmarks
from capienza.canon import digest_bytes
from capienza.card.fields import CARD, CHILDREN, VERSION
from capienza.card.model import Card
from capienza.card.quality_model import Quality
from capienza.card.rules import contradictions
from capienza.card.walk import Enough, Form, Walk
from capienza.errors import CapienzaError, InputError, InputErrors, Place, template
from capienza.yamlmarks import Limits, Node

NOT_A_CARD = template(
    "card.not-a-card", "a card is keys and values, got {found}", "`capienza card new MODEL` writes one to start from."
)
FOLDER = template(
    "card.folder", "expected a card, got a folder", "Write a card for the model in it: capienza card new {folder}"
)
UNKNOWN_VERSION = template(
    "card.unknown-version",
    "this program reads version {known} of the card, got {found}",
    "Write capienza: {known}, or use the release of Capienza that the card was written for.",
)

LIMITS = Limits(max_bytes=256 * 1024, max_nodes=20_000)
"""A card is a page or two; a hundred times that is not a card."""

FORM = Form(CARD, CHILDREN, contradictions, NOT_A_CARD)


def load_card(path: Path | str) -> Card:
    """Read a card. Model path and corpus come out relative to the card's folder.

    Raises `InputErrors` with every problem of the file, `UnreachableError` when there is no such file.
    """
    if Path(path).is_dir():
        raise InputError(FOLDER(folder=str(path)), Place(str(path)))
    return parse_card(yamlmarks.read_bytes(Path(path), LIMITS.max_bytes), str(path))


def parse_card(text: str | bytes, file: str | None = None) -> Card:
    """The card in `text`. Raises `InputErrors` with every problem, in the order of their place."""
    reading = yamlmarks.read(text, file, LIMITS)
    if reading.root is None:
        raise InputErrors(reading.problems)
    walk = Walk(FORM, file, reading.problems)
    try:
        card: Card | None = walk.whole(reading.root) if _is_of_this_version(walk, reading.root) else None
    except Enough:
        card = None
    if walk.problems or card is None:
        raise InputErrors(sorted(walk.problems, key=lambda problem: (problem.place.line, problem.place.column)))
    data = text if isinstance(text, bytes) else text.encode()
    return msgspec.structs.replace(_located(card, file), file=file, sha256=digest_bytes(data))


def place_of(file: str, key: str) -> Place:
    """Where a key of a card stands. A card keeps no places: the file is read again for it."""
    try:
        node = yamlmarks.read(yamlmarks.read_bytes(Path(file), LIMITS.max_bytes), file, LIMITS).root
    except CapienzaError:
        node = None
    for part in key.split("."):
        node = node.value.get(part) if node is not None and isinstance(node.value, dict) else None
    return Place(file, key=key) if node is None else Place(file, node.line, node.column, key)


def _is_of_this_version(walk: Walk, root: Node) -> bool:
    """A card of another version is refused as such, not field by field."""
    node = root.value.get("capienza") if isinstance(root.value, dict) else None
    if node is None or node.value == VERSION or not isinstance(node.value, int) or isinstance(node.value, bool):
        return True
    walk.note(UNKNOWN_VERSION(known=VERSION, found=node.value), node, "capienza")
    return False


def _located(card: Card, file: str | None) -> Card:
    """The card with its paths seen from where the program runs, not from the card's folder."""
    folder = Path(file).parent if file else Path()
    model = card.model
    if model.path is not None:
        model = msgspec.structs.replace(model, path=_under(folder, model.path))
    quality = card.quality
    if isinstance(quality, Quality):
        files = {key: getattr(quality, key) for key in ("corpus", "tokenizer", "chat_template")}
        located = {key: file and _under(folder, file) for key, file in files.items()}
        quality = msgspec.structs.replace(quality, **located)
    return msgspec.structs.replace(card, model=model, quality=quality)


def _under(folder: Path, path: str) -> str:
    return str(folder / os.path.expanduser(path))  # noqa: PTH111 - the method raises where there is no home
