"""What a decision is made of: evidence cited, findings, one verdict for each criterion, and the decision.

A reason is a `Message`: a code with parameters. The laws that can be checked on one object are checked when it
is made: what is not admissible has a reason, what is to confirm has a way to settle it, what is admissible has
evidence. A verdict that breaks them is our own fault and raises `ValueError`.
"""

from __future__ import annotations

import datetime
from typing import Literal

import msgspec

from capienza.decide.cost import Converted, Cost
from capienza.errors import Message, template
from capienza.evidence.record import Record
from capienza.evidence.scope import scope_text
from capienza.ledger.capacity import FitWord
from capienza.ledger.ledger import Total
from capienza.truth import Truth
from capienza.units import Money

State = Literal["admissible", "to_confirm", "exclude"]
CriterionState = Literal["admissible", "to_confirm", "exclude", "not_applicable"]
STATE_OF: dict[Truth, State] = {Truth.TRUE: "admissible", Truth.UNKNOWN: "to_confirm", Truth.FALSE: "exclude"}
TRUTH_OF: dict[str, Truth] = {state: truth for truth, state in STATE_OF.items()}

NOTHING_LEFT = template(
    "decide.nothing-left",
    "no criterion applies: the card says none everywhere, and nothing is left to decide on",
    "state at least one requirement in the card",
)


class EvidenceRef(msgspec.Struct, frozen=True, kw_only=True):
    """What a verdict cites. A figure that is not known is None."""

    id: str
    version: str | None = None
    scope: str = ""
    sha256: str | None = None
    date: datetime.datetime | None = None
    expires: datetime.datetime | None = None


def cite(record: Record) -> EvidenceRef:
    """A record as evidence."""
    return EvidenceRef(
        id=record.id,
        version=record.version,
        scope=scope_text(record.scope),
        sha256=record.id,
        date=record.date,
        expires=record.expires,
    )


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a criterion. `truth` None: not applicable, with the reason.

    `failures` are in-scope statements of the opposite, also where something outweighs them: no waiver covers those.
    """

    truth: Truth | None
    reasons: tuple[Message, ...] = ()
    evidence: tuple[EvidenceRef, ...] = ()
    settle: tuple[Message, ...] = ()
    failures: tuple[EvidenceRef, ...] = ()


class CriterionVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on one criterion. `waiver` is the record that lets an unknown pass, shown as such."""

    criterion: str
    state: CriterionState
    reasons: tuple[Message, ...] = ()
    evidence: tuple[EvidenceRef, ...] = ()
    settle: tuple[Message, ...] = ()
    failures: tuple[EvidenceRef, ...] = ()
    waiver: EvidenceRef | None = None

    def __post_init__(self) -> None:
        if (
            (self.state != "admissible" and not self.reasons)
            or (self.state == "to_confirm" and not self.settle)
            or (self.state == "admissible" and not self.evidence)
        ):
            message = f"the verdict {self.state} on {self.criterion} lacks a reason, a way to settle it, or evidence"
            raise ValueError(message)

    @property
    def truth(self) -> Truth | None:
        """The value that enters the conjunction; None when the criterion does not apply."""
        return TRUTH_OF.get(self.state)


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The whole in one line: `condition` is what would have to be settled."""

    state: State
    reasons: tuple[Message, ...]
    evidence: tuple[EvidenceRef, ...]
    condition: tuple[Message, ...]


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """The predicted peak of the fullest GPU beside the verdict. `usable_bytes` None: no capacity known."""

    fit: FitWord
    device: str
    peak: Total
    usable_bytes: int | None


class Margin(msgspec.Struct, frozen=True, kw_only=True):
    """Useful margin of the fullest GPU: usable capacity minus peak; negative when the peak is above it."""

    amount_bytes: int
    basis: Literal["observed", "predicted"]


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """One offer, judged. `finish` is the documented end of the work, of one that is not excluded.

    `converted` is the cost in the currency of the card's cap, where it is in another one and a rate is on record.

    `preferences` answer the card's, in order.
    """

    offer: str
    state: State
    criteria: tuple[CriterionVerdict, ...]
    prediction: Prediction | None
    margin: Margin | None
    cost: Cost
    converted: Converted | None = None
    finish: datetime.datetime | None = None
    preferences: tuple[bool | None, ...] = ()

    @property
    def planned(self) -> Money | None:
        """What it comes to as planned, in the currency that it is compared in; None when not known."""
        return self.converted.planned if self.converted else self.cost.planned

    @property
    def currency(self) -> str | None:
        """The currency that the offer is compared in, when a price is stated."""
        return self.converted.minimum.currency if self.converted else self.cost.currency

    @property
    def fit(self) -> FitWord | None:
        """The fit word, when there is a prediction."""
        return self.prediction.fit if self.prediction else None

    @property
    def verdict(self) -> Verdict:
        """The verdict with the reasons of the criteria that decide it."""
        deciding = [row for row in self.criteria if row.state == self.state]
        if not deciding:
            reason = NOTHING_LEFT()
            return Verdict(state=self.state, reasons=(reason,), evidence=(), condition=(reason,))
        return Verdict(
            state=self.state,
            reasons=tuple(reason for row in deciding for reason in row.reasons),
            evidence=tuple(dict.fromkeys(ref for row in deciding for ref in row.evidence)),
            condition=tuple(step for row in deciding for step in row.settle),
        )

    def criterion(self, name: str) -> CriterionVerdict:
        """The verdict on one criterion. Raises `KeyError` when there is none of that name."""
        for row in self.criteria:
            if row.criterion == name:
                return row
        raise KeyError(name)
