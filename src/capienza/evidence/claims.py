"""The words that records and criteria share: quantities, outcomes, sources, and how two texts are made.

A measurement states `outcome`, its `peak_bytes` by phase, counter and GPU, and how much of the load was cut
(`truncated_inputs`, `dropped_samples`). A document states `compatibility`, or a property of one offer under
the name of the offer's own field. A quality result states one word for each metric, with its thresholds as basis.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from capienza.evidence.record import Claim, Record

OUTCOME = "outcome"
COMPLETED = "completed"
OUT_OF_MEMORY = "out_of_memory"

PEAK = "peak_bytes"
CONTEXT = "context_bytes"
"""What the driver's context takes on the measured GPU."""
TRUNCATED = "truncated_inputs"
DROPPED = "dropped_samples"
POOL = "pool_tokens"
"""Tokens that the engine's cache pool holds at once."""
PLANNED_RUNS = "planned_runs"

COMPATIBILITY = "compatibility"
EXCHANGE_RATE = "exchange_rate"
"""Unit "EUR/USD" with value 1.08: one EUR costs 1.08 USD."""

CONTROL = "control."
"""`control.reference_again`, `control.harmed`: did a comparison pass what is the same, and stop what is not?"""
CONTROLS = (f"{CONTROL}reference_again", f"{CONTROL}harmed")
AS_EXPECTED, NOT_AS_EXPECTED = "as_expected", "not_as_expected"
PLANNED = "planned"
ARM, ANSWERED, BEGUN, ENDED = "arm", "answered", "begun", "last_answer"
"""What a record of outputs states: whose they are, how many, and when the first question and the last answer were."""
SAID = "server."
"""`server.model`, `server.version`, `server.chat_template_sha256`: what a server said of itself."""
NO_ALARM = "no_alarm"
"""What a metric of distributions says at best: it admits nothing."""

SATISFIED = "satisfied"
VIOLATED = "violated"
WAIVED = "waived"
ANY = "any"
DEFAULTS = "defaults"
"""The configuration of a run that set nothing."""

INVOICE = "invoice"
DOCUMENT_SOURCES = ("catalogue", "public_page", "provider_api", INVOICE, "contract")
"""What a document is, weakest first, the last two alike; a record names it in `producer["source"]`."""


def find(record: Record, quantity: str) -> tuple[Claim, ...]:
    """The claims of one quantity, in their written order."""
    return tuple(claim for claim in record.claims if claim.quantity == quantity)


def word(record: Record, quantity: str) -> str | None:
    """The one value of a quantity as text; None when it is absent or stated in two ways."""
    values = {str(claim.value) for claim in find(record, quantity)}
    return values.pop() if len(values) == 1 else None


def whole(record: Record, quantity: str) -> int | None:
    """The one value of a quantity as a whole number; None when absent, stated in two ways, or not a number."""
    text = word(record, quantity)
    return int(text) if text is not None and is_whole(text) else None


def wholes(record: Record, quantity: str) -> tuple[int, ...]:
    """Every value of a quantity that is a whole number: what a record states in two ways it has not left unsaid."""
    texts = (str(claim.value) for claim in find(record, quantity))
    return tuple(int(text) for text in texts if is_whole(text))


def is_whole(text: str) -> bool:
    """Is the text a whole number that a record may count with?"""
    return text.isascii() and text.isdigit() and len(text) <= 19


def author(record: Record) -> str:
    """Who signs the record; empty when nobody does."""
    return _legible(record.producer.get("author", ""))


def has_reason(record: Record) -> bool:
    """Does the record say why?"""
    return any(_legible(note) for note in record.notes)


def configuration_text(settings: Mapping[str, object]) -> str:
    """Settings as one comparable text: sorted by name, "a=1; b=auto"; "defaults" when there are none.

    Numbers that are equal are written alike (0.90 and 0.9, 1 and 1.0).
    """
    return "; ".join(f"{name}={_plain(settings[name])}" for name in sorted(settings)) or DEFAULTS


def threshold_text(minimum: Decimal | None, max_regression: Decimal | None) -> str:
    """The thresholds of one metric as a quality result must repeat them: "min=0.82; max_regression=0.01"."""
    stated = {"max_regression": max_regression, "min": minimum}
    return configuration_text({name: value for name, value in stated.items() if value is not None})


def _legible(text: str) -> str:
    """The text without what nobody can see: spaces at its ends, control and zero-width characters."""
    return "".join(character for character in text if character.isprintable()).strip()


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float | Decimal):
        number = Decimal(str(value))
        return f"{number.normalize():f}" if number else "0"
    return str(value)
