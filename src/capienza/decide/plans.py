"""Was a quality result planned? The plan fixes corpus and thresholds before any output is looked at.

Order is proved by reference: a result that holds the id of its plan among its inputs cannot be older than the plan,
since the id is a digest of the plan's content. A result without a plan may have chosen its margins after looking, so it
supports nothing. It may still establish a failure: leaving the plan out must not help an offer.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from capienza.decide.case import Case
from capienza.errors import NOTHING, Message, template
from capienza.evidence.claims import ARM, AS_EXPECTED, BEGUN, CONTROLS, find, word
from capienza.evidence.record import Record
from capienza.evidence.standing import record_references

NO_PLAN = template(
    "decide.quality-without-plan",
    "record {record} names no plan among its inputs, so its thresholds may have been chosen after looking",
    "record the plan first, and put its id into the inputs of the result",
)
BEFORE_PLAN = template(
    "decide.quality-before-plan",
    "record {record} is dated {date}, before its plan {plan} of {planned}",
    "compare again under the plan, and check the clocks of both machines",
)
CORPUS_CHANGED = template(
    "decide.quality-corpus-changed",
    "record {record} was made on another {corpus} than plan {plan} fixes: the digests differ",
    "compare again on the frozen corpus, or record a new plan for the new one",
)
PLAN_WITHOUT_CORPUS = template(
    "decide.plan-without-corpus",
    "plan {plan} does not fix {corpus} with its digest",
    "record a plan that names the corpus with its sha256 as subject",
)
PLAN_OTHER_THRESHOLDS = template(
    "decide.plan-other-thresholds",
    "plan {plan} fixes {metric} at {found}; the card says {thresholds}",
    "record a new plan with the card's thresholds, then compare again",
)
OUTPUTS_BEFORE_PLAN = template(
    "decide.outputs-before-plan",
    "outputs {record} of {arm} were begun on {date}; nothing shows that this was after plan {plan} of {planned}",
    "collect them again under the plan, and check the clocks of both machines",
)
OUTPUTS_OF_OTHER_PLAN = template(
    "decide.outputs-of-other-plan",
    "outputs {record} of {arm} were not collected under plan {plan}",
    "collect them under the plan: capienza quality run",
)
OUTPUTS_OTHER_CORPUS = template(
    "decide.outputs-other-corpus",
    "outputs {record} of {arm} answer another {corpus} than plan {plan} fixes: the digests differ",
    "collect them again on the frozen corpus",
)
PLAN_REUSED = template(
    "decide.plan-reused",
    "plan {plan} was used for {count} different outputs of {arm}; a plan is looked at once",
    "freeze a new plan, with items that no output was seen of",
)

WITHOUT_CONTROL = template(
    "decide.quality-without-control",
    "record {record} does not show that {control} came out as it must, so the comparison may be one that cannot fail",
    "collect both controls under a plan, and compare again: capienza quality run, capienza quality compare",
)


def unplanned(case: Case, result: Record, corpus: str, metric: str, thresholds: str) -> tuple[Message, ...]:
    """Why a result does not count as planned; empty when one of its plans holds for it.

    A plan that is not in the set, or that was withdrawn, is no plan: the standing of the result says the former.
    """
    named = [record for record in case.evidence.plans if record.id in record_references(result)]
    if not named:
        return (NO_PLAN(record=result.id[:12]),)
    found = [
        [*_doubts(plan, result, corpus, metric, thresholds), *_of_outputs(case, plan, result, corpus)] for plan in named
    ]
    plans = () if any(not doubts for doubts in found) else tuple(doubt for doubts in found for doubt in doubts)
    return (*plans, *_without_control(result))


def _without_control(result: Record) -> tuple[Message, ...]:
    """The reference against itself must have passed, and a candidate harmed on purpose must have failed."""
    missing = (control for control in CONTROLS if word(result, control) != AS_EXPECTED)
    return tuple(WITHOUT_CONTROL(record=result.id[:12], control=control) for control in missing)


def _of_outputs(case: Case, plan: Record, result: Record, corpus: str) -> Iterator[Message]:
    """What is wrong with the outputs that the result cites, or with others that its plan was used for."""
    cited, short = set(record_references(result)), plan.id[:12]
    yield from (reason for record, reason in case.evidence.withdrawn if record.id in cited and record.kind == "outputs")
    digests: dict[str, set[str]] = {}
    for record in case.evidence.counting:
        if record.kind != "outputs":
            continue
        arm, files = word(record, ARM) or NOTHING, {each for each in record.inputs if each.startswith("sha256:")}
        if plan.id in record.inputs:
            digests.setdefault(arm, set()).update(files)
        if record.id not in cited:
            continue
        begun = word(record, BEGUN)
        if plan.id not in record.inputs:
            yield OUTPUTS_OF_OTHER_PLAN(record=record.id[:12], arm=arm, plan=short)
        elif not _is_after(begun, plan.date):
            date, planned = begun or NOTHING, plan.date.isoformat()
            yield OUTPUTS_BEFORE_PLAN(record=record.id[:12], arm=arm, date=date, plan=short, planned=planned)
        if _digests(record, corpus) != _digests(plan, corpus):
            yield OUTPUTS_OTHER_CORPUS(record=record.id[:12], arm=arm, corpus=corpus, plan=short)
    yield from (
        PLAN_REUSED(plan=short, arm=arm, count=len(files)) for arm, files in sorted(digests.items()) if len(files) > 1
    )


def _is_after(text: str | None, moment: datetime.datetime) -> bool:
    """Is the text a date-time at or after the moment? What is not known shows no order."""
    try:
        begun = datetime.datetime.fromisoformat(text or "")
    except ValueError:
        return False
    return begun.tzinfo is not None and begun >= moment


def _doubts(plan: Record, result: Record, corpus: str, metric: str, thresholds: str) -> list[Message]:
    short, record = plan.id[:12], result.id[:12]
    doubts: list[Message] = []
    if result.date < plan.date:
        date, planned = result.date.isoformat(), plan.date.isoformat()
        doubts.append(BEFORE_PLAN(record=record, date=date, plan=short, planned=planned))
    fixed, used = _digests(plan, corpus), _digests(result, corpus)
    if not fixed:
        doubts.append(PLAN_WITHOUT_CORPUS(plan=short, corpus=corpus))
    elif used != fixed:
        doubts.append(CORPUS_CHANGED(record=record, corpus=corpus, plan=short))
    stated = {claim.basis or "" for claim in find(plan, metric)}
    if stated != {thresholds}:
        found = "; ".join(sorted(stated)) or NOTHING
        doubts.append(PLAN_OTHER_THRESHOLDS(plan=short, metric=metric, found=found, thresholds=thresholds))
    return doubts


def _digests(record: Record, corpus: str) -> set[str]:
    return {subject.sha256 for subject in record.subject if subject.name == corpus and subject.sha256}
