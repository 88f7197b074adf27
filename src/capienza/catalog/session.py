"""One reading of one offers file: what every form shares once an offer has been decoded."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from typing import NoReturn

from capienza.catalog.claims import Claims
from capienza.catalog.convert import to_offer
from capienza.catalog.flat import FLAT_PATHS, to_full
from capienza.catalog.forms import FlatOffer, FullOffer
from capienza.catalog.notes import Finding, Findings, Notes, Path, Problems
from capienza.catalog.offer import Offer
from capienza.catalog.walk import OFFER, UNKNOWN_KEY, UNKNOWN_KEY_NEAR, at, check
from capienza.errors import InputError, Message, Place, template
from capienza.yamlmarks import Node

DUPLICATE_ID = template(
    "catalog.duplicate-offer", "an offer with the id {found} is already in this file", "Give each offer its own id."
)
NOT_AN_OFFER = template(
    "catalog.not-an-offer", "this is not an offer: {problem}", "Compare it with one in order: {example}."
)
HIDDEN = template(
    "catalog.hidden-character", "the hidden character {found} is not accepted", "Delete it, or retype the line."
)
TOO_MANY_OFFERS = template(
    "catalog.too-many-offers", "more than {limit} offers in one file are not read", "Split the file."
)
NO_OFFERS = template("catalog.no-offers", "the file holds no offer", "Write at least one, such as - {example}.")

MIXED_CURRENCIES = template(
    "catalog.mixed-currencies",
    "the file has prices in {found}: they are compared only through a dated exchange rate",
    "Add a record with exchange_rate, or ask for prices in one currency.",
)

MAX_OFFERS = 500_000
_HIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufeff]")
Tree = Callable[[], Node | None]


class Session:
    """The state of one reading: ids, claims, problems and findings so far."""

    def __init__(self, file: str, findings: Findings, zone: datetime.tzinfo | None) -> None:
        self.file = file
        self.findings = findings
        self.zone = zone
        self.problems = Problems()
        self.claims = Claims(findings)
        self.ids: set[str] = set()
        self.currencies: set[str] = set()
        self.seen = 0

    def offer(self, form: FlatOffer | FullOffer, place: Place, tree: Tree) -> Offer | None:
        """The offer that a decoded form describes, or None when it has problems, which are then noted."""
        self.count(place)
        notes = Notes()
        is_flat = isinstance(form, FlatOffer)
        full = to_full(form, notes, self.zone) if isinstance(form, FlatOffer) else form
        offer = None if notes.problems else to_offer(full, notes, place, self.claims)
        if full.offer_id in self.ids:
            notes.problem(DUPLICATE_ID(found=full.offer_id), "id" if is_flat else "offer_id")
        self.ids.add(full.offer_id)
        if full.price.currency:
            self.currencies.add(full.price.currency)
        if notes.problems or notes.findings:
            self.settle(notes, place, tree, is_flat, full.offer_id)
        return None if notes.problems else offer

    def count(self, place: Place) -> None:
        """Count one offer, good or not."""
        self.seen += 1
        if self.seen > MAX_OFFERS:
            self.stop(TOO_MANY_OFFERS(limit=MAX_OFFERS), place)

    def refused(self, place: Place, tree: Tree, error: Exception, strict: bool = True) -> None:
        """Note everything that is wrong with an offer that could not be decoded."""
        self.count(place)
        if not self.problems.has_room():
            self.problems.count += 1
            return
        before = self.problems.count
        root = tree()
        if root is not None:
            self.explain(root, place, strict)
        if self.problems.count == before:
            self.problems.add(NOT_AN_OFFER(problem=str(error)[:200], example=OFFER), place)

    def explain(self, root: Node, place: Place, strict: bool = True) -> None:
        """Note every structural problem of one offer."""
        notes = Notes()
        check(root, form_of(root), notes, strict)
        self.settle(notes, place, lambda: root, False, None)

    def settle(self, notes: Notes, place: Place, tree: Tree, is_flat: bool, offer: str | None) -> None:
        """Give places to what was noted about one offer."""
        shown_problems = bool(notes.problems) and self.problems.has_room()
        shown_findings = any(self.findings.has_room(message.code) for _, message in notes.findings)
        root = tree() if shown_problems or shown_findings else None
        for path, message in notes.problems:
            self.problems.add(message, self.locate(root, place, path, message, is_flat))
        if not notes.problems:
            for path, message in notes.findings:
                self.findings.add(Finding(message, self.locate(root, place, path, message, is_flat), offer))

    def locate(self, root: Node | None, place: Place, path: Path, message: Message, is_flat: bool) -> Place:
        """Where the value at `path` stands, or the nearest thing around it."""
        if root is None:
            return place
        choices = FLAT_PATHS.get(path, (path,)) if is_flat else (path,)
        found = [list(at(root, choice)) for choice in choices]
        nodes = max(found, key=len)
        choice = choices[found.index(nodes)]
        node = nodes[-1]
        on_key = message.code in (UNKNOWN_KEY.code, UNKNOWN_KEY_NEAR.code) and node.key_line
        line, column = (node.key_line, node.key_column) if on_key else (node.line, node.column)
        return Place(self.file, line, column or None, ".".join(map(str, choice)) or None)

    def hidden(self, text: str, line: int) -> bool:
        """Note a control character, which could rewrite a terminal; True when there is one."""
        found = _HIDDEN.search(text)
        if found:
            self.problems.add(HIDDEN(found=code_point(found[0])), Place(self.file, line, found.start() + 1))
        return found is not None

    def stop(self, message: Message, place: Place) -> NoReturn:
        """Note a problem after which nothing more can be read, and raise them all."""
        self.problems.kept.append(InputError(message, place))
        self.problems.count += 1
        self.problems.raise_any()
        raise AssertionError(message)

    def end(self) -> None:
        """Raise what was found, at the end of the file."""
        if not self.seen and not self.problems.count:
            self.problems.add(NO_OFFERS(example=OFFER), Place(self.file))
        self.problems.raise_any()
        if len(self.currencies) > 1:
            self.findings.add(Finding(MIXED_CURRENCIES(found=tuple(sorted(self.currencies)[:20])), Place(self.file)))


def hidden_character(text: str) -> str | None:
    """The first control character that could rewrite a terminal, by its number."""
    found = _HIDDEN.search(text)
    return code_point(found[0]) if found else None


def code_point(character: str) -> str:
    """The number of a character that cannot be shown."""
    return f"U+{ord(character):04X}"


def form_of(root: Node) -> type[FlatOffer] | type[FullOffer]:
    """Which of the two forms a person meant, by the keys that only one of them has."""
    members = root.value
    if not isinstance(members, dict):
        return FlatOffer
    nested = any(isinstance(members[key].value, dict) for key in ("gpu", "price") if key in members)
    return FullOffer if nested or "offer_id" in members or "gpus_total" in members else FlatOffer
