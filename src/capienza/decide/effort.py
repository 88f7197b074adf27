"""How much work each way to settle something is: an order of kinds, without invented prices.

A field of the card is written in a minute; a document is looked up, or the seller asked; a start-up or a pilot is a
short run; the complete load on the intended cards is a full one. Looking for another offer is no way to settle this
one, and comes last. A step of a code that is not listed counts as a full run, so that it is never called the cheapest.
"""

from __future__ import annotations

import enum

from capienza.errors import Message


class Effort(enum.IntEnum):
    """Kinds of work, the least first."""

    CARD = 1
    DOCUMENT = 2
    SHORT_RUN = 3
    FULL_RUN = 4
    OTHER_OFFER = 5

    @property
    def word(self) -> str:
        """The name in a JSON document."""
        return self.name.lower()


EFFORTS: dict[str, Effort] = {
    **dict.fromkeys(
        (
            "decide.requirement-not-stated", "decide.memory-margin-unreasoned", "decide.nothing-left",
            "decide.hours-unknown", "decide.quality-only-alarms", "predict.proof-stated-input",
            "predict.only-a-parameter-count",
            "decide.deadline-passed", "decide.fee-volume-unknown", "plan.no-hours", "plan.record-ambiguous",
        ),
        Effort.CARD,
    ),
    **dict.fromkeys(
        (
            "decide.settle-node", "decide.settle-link", "decide.settle-ram", "decide.settle-storage",
            "decide.settle-application", "decide.placement-across-nodes-unknown", "decide.settle-gpu",
            "decide.settle-conflict", "decide.settle-rate", "decide.settle-start", "decide.start-unreadable",
            "decide.settle-start-open",
            "decide.document-missing", "decide.document-undated", "decide.document-future", "decide.offer-expired",
            "decide.offer-not-yet-valid", "decide.price-unknown", "decide.nodes-unknown",
            "decide.billing-step-unknown", "decide.tax-unknown", "decide.tax-unstated", "decide.fee-unknown",
            "decide.fee-currency", "decide.fee-month-unknown", "decide.fee-while-stopped", "decide.idle-hours-paid",
            "decide.cost-beyond-term", "decide.cost-more-gpus", "decide.refund-open", "decide.settle-price-too-old",
            "plan.record-missing", "plan.record-elsewhere", "decide.interruptible", "decide.settle-compatibility",
            "decide.settle-capacity", "decide.property-free-only",
            "decide.cost-open",
            "decide.cost-at-least", "evidence.reference-missing",
        ),
        Effort.DOCUMENT,
    ),
    **dict.fromkeys(
        ("decide.settle-durations", "decide.settle-durations-open", "decide.settle-rate-of-work",
            "decide.settle-rate-of-work-open", "decide.settle-server", "predict.proof-engine-log",
            "plan.no-pilot", "plan.one-run", "plan.record-at-another-load", "plan.record-without-duration",
            "plan.claim-unreadable", "plan.record-of-another-kind"),
        Effort.SHORT_RUN,
    ),
    **dict.fromkeys(
        (
            "decide.settle-measure", "decide.settle-memory", "decide.settle-quality", "predict.proof-measured-phase",
            "predict.proof-known-architecture", "evidence.plan-incomplete", "evidence.plan-lacks-runs",
        ),
        Effort.FULL_RUN,
    ),
    **dict.fromkeys(("decide.settle-more-gpus", "decide.settle-no-time"), Effort.OTHER_OFFER),
}  # fmt: skip
"""The kind of each step by its code."""


def effort_of(step: Message) -> Effort:
    """How much work a step is."""
    return EFFORTS.get(step.code, Effort.FULL_RUN)
