"""Measured runs of the required load: which records speak of it, and what they establish.

A success must have been made at the required dimensions or larger ones, a failure at the required ones or
smaller. Everything else in the scope must be equal.
"""

from __future__ import annotations

from capienza.card.model import Card
from capienza.decide.case import Case, is_placement_open, name_of_file
from capienza.decide.need import IDENTITY, LOAD, NOT_STATED, unstated
from capienza.decide.verdict import cite
from capienza.decide.weigh import Stance, in_scope
from capienza.errors import Message, template
from capienza.evidence.claims import COMPLETED, OUTCOME, word
from capienza.evidence.rank import rank
from capienza.evidence.record import Record, Scope

RUN_FIELDS = (
    "model",
    "revision",
    "task",
    "weight_format",
    "kv_format",
    "engine",
    "engine_version",
    "gpu",
    "gpus",
    "tokens",
    "concurrency",
    "microbatch",
    "configuration",
)

NOT_COMPLETED = template(
    "decide.run-not-completed",
    "record {record} is of a run that did not complete: {outcome}",
    "find out from the log which phase failed",
)
NO_OUTCOME = template(
    "decide.run-without-outcome",
    "record {record} does not say whether the run completed",
    "repeat the run and record it",
)
NOT_MEASURED = template(
    "decide.run-not-measured",
    "record {record} is stated by method {method}, not measured",
    "measure the run and record it with method measure",
)
MEASURE = template(
    "decide.settle-measure",
    "measure the complete cycle on {gpus} x {gpu} with {tokens} tokens and {sequences} at once",
    "run the workload of {card}, and put the measured peaks into the evidence folder",
)

MORE_GPUS = template(
    "decide.settle-more-gpus",
    "nothing measured on this offer settles it: one copy needs {needed} GPUs, the offer has {offered}",
    "look for an offer with at least {needed} GPUs; memory of several offers does not join",
)


def required_load(case: Case) -> tuple[Message, ...]:
    """What the card leaves open and a run could therefore not be compared with.

    A run shows the placement it was made with; while the card states none, none is the required one.
    """
    placement = (NOT_STATED(field="placement"),) if is_placement_open(case.card, case.offer) else ()
    return (*unstated(case.needs[0], (*IDENTITY, *LOAD[case.card.task])), *placement)


def runs(case: Case, need: Scope, *quantities: str) -> tuple[list[Record], list[Record], list[Message]]:
    """Measurements that state one of these quantities: those whose success counts, those whose failure counts.

    The last list says why the others are no success here.
    """
    stated = [record for record in case.evidence.about(*quantities) if record.kind == "measurement"]
    measured = [record for record in stated if record.method == "measure"]
    successes, reasons = in_scope(measured, need, RUN_FIELDS)
    failures, _ = in_scope(stated, need, RUN_FIELDS, "failure")
    claimed = [NOT_MEASURED(record=r.id[:12], method=r.method) for r in stated if r.method != "measure"]
    return successes, failures, [*reasons, *claimed, *case.evidence.aside(*quantities)]


def not_completed(record: Record) -> Message | None:
    """A reason when the record does not state that its run completed."""
    outcome = word(record, OUTCOME)
    if outcome == COMPLETED:
        return None
    return NOT_COMPLETED(record=record.id[:12], outcome=outcome) if outcome else NO_OUTCOME(record=record.id[:12])


def settle_by_measuring(case: Case) -> tuple[Message, ...]:
    """The run that would settle it; or first what the card must state, or that the offer has too few GPUs for one."""
    if has_too_few_gpus(case):
        return (MORE_GPUS(needed=case.needs[0].gpus, offered=case.offer.gpus),)
    open_fields = required_load(case)
    if open_fields:
        return open_fields
    return tuple(
        MEASURE(
            gpus=need.gpus,
            gpu=need.gpu,
            tokens=need.tokens,
            sequences=need.concurrency or need.microbatch,
            card=card_file(case),
        )
        for need in case.needs
    )


def has_too_few_gpus(case: Case) -> bool:
    """Has the offer fewer GPUs than one copy of the model is divided over?"""
    return case.offer.gpus < (case.needs[0].gpus or 1)


def doubt(case: Case, record: Record, need: Scope, reason: Message) -> Stance:
    """A run in scope that does not suffice, and the run that would."""
    return Stance(
        says="doubts",
        rank=rank(record, need.offer),
        evidence=cite(record),
        reasons=(reason,),
        settle=settle_by_measuring(case),
    )


def card_file(case: Case) -> str:
    """The file name of the case's card, for a command to type."""
    return file_name(case.card)


def file_name(card: Card) -> str:
    """The card's file name, for a command to type."""
    return name_of_file(card) or "CARD"
