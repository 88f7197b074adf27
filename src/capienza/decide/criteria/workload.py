"""Workload covered: all of the needed load was executed at the required dimensions, and nothing was cut away.

Satisfied by a completed run in scope that states zero truncated inputs and zero dropped samples. Violated by the
model's own length limit (a length that rope_scaling reaches beyond it is left to a run), or by a run of the load that
cut inputs or dropped samples.
"""

from __future__ import annotations

import msgspec

from capienza.decide.case import Case
from capienza.decide.runs import doubt, not_completed, required_load, runs, settle_by_measuring
from capienza.decide.verdict import CriterionVerdict, EvidenceRef, Finding, cite
from capienza.decide.weigh import Stance, conclude, for_every_gpu, shorten, weigh
from capienza.errors import Message, template
from capienza.evidence.claims import DROPPED, OUTCOME, POOL, TRUNCATED, whole, wholes, word
from capienza.evidence.rank import rank
from capienza.evidence.record import Record, Scope
from capienza.truth import Truth

CRITERION = "workload"
QUANTITIES = (OUTCOME, TRUNCATED, DROPPED, POOL)

LENGTH_LIMIT = template(
    "decide.workload-length-limit",
    "the model is made for {limit} tokens at most ({source}); the card needs {tokens}",
    "choose a model with a longer context",
)
LENGTH_STRETCHED = template(
    "decide.workload-length-stretched",
    "the model is made for {limit} tokens ({source}) and rope_scaling reaches {reach}; the card needs {tokens}",
    "run the load once with rope_scaling applied",
)
CUT = template(
    "decide.workload-cut",
    "record {record}: {truncated} inputs truncated, {dropped} samples dropped",
    "run the load whole: nothing may be cut",
)
CUT_UNSTATED = template(
    "decide.workload-cut-unstated",
    "record {record} does not state {quantity}",
    "repeat the run and record what was really executed",
)
POOL_SMALL = template(
    "decide.workload-pool-small",
    "record {record}: the engine's cache holds {pool} tokens at once; the card needs {needed}",
    "the engine would queue: give it more memory, or measure again with other options stated in the card",
)
REFUSES = template(
    "decide.workload-refuses",
    "predicted: {engine} would not start on this GPU with a cache of {pool_bytes}: less than one sequence of the"
    " longest length, or more than the card has free",
    "choose more memory, another share of the card, or a shorter max_model_len under engine.options",
)
QUEUES = template(
    "decide.workload-queues",
    "{engine} runs fewer sequences at once than the card's concurrency, by its options or their defaults: it would"
    " queue",
    "raise the engine's own limit of sequences under engine.options to the concurrency",
)
POOL_PREDICTED = template(
    "decide.workload-pool-predicted",
    "predicted: {engine} keeps {pool_bytes} for its cache on this GPU and the load takes {required_bytes} of it, so it"
    " would queue",
    "choose more memory, or options that leave the engine a larger pool; a run whose log states its pool settles it",
)
EXECUTED = template(
    "decide.workload-executed",
    "record {record}: completed with {tokens} tokens and {sequences} at once, nothing cut",
)
NOT_EXECUTED = template(
    "decide.workload-not-executed",
    "no run in scope executed {tokens} tokens with {sequences} at once",
    "run the load and record its real dimensions",
)


def judge(case: Case) -> CriterionVerdict:
    """Was the required load executed whole?"""
    return conclude(CRITERION, [for_every_gpu(case, lambda need: _judge_gpu(case, need))])


def _judge_gpu(case: Case, need: Scope) -> Finding:
    open_fields = required_load(case)
    stances = _length_limit(case, need)
    reasons: list[Message] = [*open_fields, *_stretch(case, need), *_shortfall(case)]
    if not open_fields:
        successes, failures, others = runs(case, need, *QUANTITIES)
        reasons += others
        stances += [stance for record in failures if (stance := _failed(case, record, need))]
        for record in successes:
            stance, doubts = _executed(case, record, need)
            stances += [stance] if stance else []
            reasons += doubts
    finding = weigh(stances)
    if finding.truth is not Truth.UNKNOWN:
        return finding
    if not finding.reasons and not open_fields:
        reasons.insert(0, NOT_EXECUTED(tokens=need.tokens, sequences=need.concurrency or need.microbatch))
    return Finding(
        truth=Truth.UNKNOWN,
        reasons=(*finding.reasons, *shorten(reasons)),
        evidence=finding.evidence,
        settle=(*finding.settle, *settle_by_measuring(case)),
        failures=finding.failures,
    )


def _length_limit(case: Case, need: Scope) -> list[Stance]:
    limit = case.sizing.max_positions
    if limit is None or need.tokens is None or need.tokens <= max(limit, case.sizing.stretched_positions or 0):
        return []
    source = case.sizing.max_positions_source or case.sizing.source
    reference = EvidenceRef(id=source, version=case.sizing.revision, scope=f"model={need.model}")
    reason = LENGTH_LIMIT(limit=limit, source=source, tokens=need.tokens)
    return [Stance(says="violates", rank=None, evidence=reference, reasons=(reason,))]


def _stretch(case: Case, need: Scope) -> list[Message]:
    """The length is open where only the scaling of rotary positions reaches it."""
    limit, reach = case.sizing.max_positions, case.sizing.stretched_positions
    if limit is None or reach is None or need.tokens is None or not limit < need.tokens <= reach:
        return []
    source = case.sizing.max_positions_source or case.sizing.source
    return [LENGTH_STRETCHED(limit=limit, source=source, reach=reach, tokens=need.tokens)]


def _shortfall(case: Case) -> list[Message]:
    """A pool that is predicted to be too small: the engine would start and queue, so nothing is excluded by it."""
    found = case.sizing.shortfall
    if found is None:
        return []
    if found.pool_bytes is None:
        return [QUEUES(engine=found.engine)]
    if found.is_refused:
        return [REFUSES(engine=found.engine, pool_bytes=max(0, found.pool_bytes))]
    return [
        POOL_PREDICTED(engine=found.engine, pool_bytes=max(0, found.pool_bytes), required_bytes=found.required_bytes)
    ]


def _cut(record: Record) -> Message | None:
    truncated, dropped = (max(wholes(record, cut), default=0) for cut in (TRUNCATED, DROPPED))
    return CUT(record=record.id[:12], truncated=truncated, dropped=dropped) if truncated or dropped else None


def _failed(case: Case, record: Record, need: Scope) -> Stance | None:
    """What a run at the required dimensions or smaller ones establishes against the load."""
    cut = _cut(record)
    if cut:
        return Stance(says="violates", rank=rank(record, need.offer), evidence=cite(record), reasons=(cut,))
    unfinished = not_completed(record)
    if unfinished is None or not word(record, OUTCOME):
        return None
    # It does not exclude: why it failed is not known. But no waiver covers a run that failed.
    return msgspec.structs.replace(doubt(case, record, need, unfinished), is_failure=True)


def _executed(case: Case, record: Record, need: Scope) -> tuple[Stance | None, list[Message]]:
    """What a run at the required dimensions or larger ones says for the load, or why it says nothing."""
    obstacle = not_completed(record) or _cut(record)
    if obstacle:
        return None, [obstacle]
    pool = min(wholes(record, POOL), default=None)
    needed = (need.tokens or 0) * (need.concurrency or 1)
    if pool is not None and pool < needed:
        return doubt(case, record, need, POOL_SMALL(record=record.id[:12], pool=pool, needed=needed)), []
    doubts = [
        CUT_UNSTATED(record=record.id[:12], quantity=quantity)
        for quantity in (TRUNCATED, DROPPED)
        if whole(record, quantity) is None
    ]
    doubts += case.evidence.weak.get(record.id, ())
    if doubts:
        return None, doubts
    executed = EXECUTED(
        record=record.id[:12],
        tokens=record.scope.tokens,
        sequences=record.scope.concurrency or record.scope.microbatch,
    )
    return Stance(says="supports", rank=rank(record, need.offer), evidence=cite(record), reasons=(executed,)), []
