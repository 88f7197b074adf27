"""Memory per GPU: measured peaks of the complete cycle, with a margin that has a reason.

A prediction alone is to confirm, except for the proof by arithmetic: a provable floor above the largest capacity
that the name allows cannot be run, unless a complete measured cycle shows that it was. Every figure is of one
GPU: capacities are never added (DESIGN rule 11).
"""

from __future__ import annotations

import msgspec

from capienza import __version__
from capienza.canon import digest
from capienza.catalog.rule_texts import LARGER
from capienza.decide.case import Case, Sizing, is_placement_open
from capienza.decide.need import NOT_STATED
from capienza.decide.readings import cycle_of
from capienza.decide.runs import (
    card_file,
    doubt,
    has_too_few_gpus,
    not_completed,
    required_load,
    runs,
    settle_by_measuring,
)
from capienza.decide.verdict import CriterionVerdict, EvidenceRef, Finding, cite
from capienza.decide.weigh import Stance, conclude, for_every_gpu, shorten, weigh
from capienza.errors import Message, template
from capienza.evidence.claims import OUT_OF_MEMORY, OUTCOME, PEAK, find, word
from capienza.evidence.rank import rank
from capienza.evidence.record import Record, Scope
from capienza.evidence.scope import scope_text
from capienza.ledger.capacity import exceeds
from capienza.predict.unknowns import one_proof_for_all
from capienza.truth import Truth

CRITERION = "memory"
CALCULATION = "calculation"
"""What the prediction is called where it is cited."""

UNTOLD = "unknown"
FLOOR = template(
    "decide.memory-floor",
    "{device} needs at least {floor_bytes}, provably; the most a GPU of this name offers is {usable_bytes} ({basis})",
    "a second card helps only where the card's placement divides the model; capienza size CARD --explain weights",
)
FLOOR_SHARE = template(
    "decide.memory-floor-share",
    "of the {gpus} GPUs that one copy is divided over, the fullest needs at least {floor_bytes}, provably; the most a "
    "GPU of this name offers is {usable_bytes} ({basis})",
    "divide the model over more GPUs, or choose GPUs with more memory; capienza size CARD --explain weights",
)
FLOOR_SPREAD = template(
    "decide.memory-floor-spread",
    "however one copy is spread over the {gpus} GPUs of the offer, the fullest needs at least {floor_bytes}, provably; "
    "the most a GPU of this name offers is {usable_bytes} ({basis})",
    "choose an offer with more GPUs, or with more memory on each; capienza size CARD --explain weights",
)
OOM = template(
    "decide.memory-oom",
    "record {record}: out of memory in phase {phase} on the required load or a smaller one",
    "choose more memory, or change one thing that lowers that phase: capienza alternatives {card} --gpu {gpu} --failed "
    "{phase}; the requirement stays",
)
OOM_SOMEWHERE = template(
    "decide.memory-oom-somewhere",
    "record {record}: out of memory on the required load or a smaller one, in a phase that the record does not tell",
    "find the phase in the run's output.log: capienza diagnose; then capienza alternatives {card} --gpu {gpu} --failed "
    "PHASE",
)
COVERED = template(
    "decide.memory-covered",
    "record {record}: the complete cycle leaves {room_bytes}; the card asks for a margin of {margin_bytes}",
)
SHORT = template(
    "decide.memory-margin-short",
    "record {record}: the fullest reading leaves {room_bytes}; the card asks for a margin of {margin_bytes}",
    "state a smaller margin with its reason, or choose a GPU with more memory",
)
OVERFULL = template(
    "decide.memory-overfull",
    "record {record}: the fullest reading is {excess_bytes} above the usable capacity of this offer",
    "check others_use and which GPU was measured",
)
BELOW_FLOOR = template(
    "decide.memory-below-floor",
    "record {record}: in phase {phase} no GPU reaches the {floor_bytes} that the calculation proves",
    "check which GPU, model and unit the reading is of",
)
PHASES_MISSING = template(
    "decide.memory-phases-missing",
    "record {record} has no peak on every GPU for {phases}",
    "repeat the run so that each of these phases is executed",
)
INCOMPARABLE = template(
    "decide.memory-incomparable",
    "record {record}: the counters of {phases} have no known capacity to be compared with",
    "record what the driver reports for the GPU (gpu_reported_bytes) beside device and process readings, and "
    "cuda_total_bytes and context_bytes beside allocated and reserved ones",
)
PREDICTED = template(
    "decide.memory-predicted-only",
    "predicted, not measured: {device} peaks at {expected_bytes} ({floor_bytes} to {ceiling_bytes})",
    "run the complete cycle on this GPU and record the peak of every phase",
)
PREDICTED_AT_LEAST = template(
    "decide.memory-predicted-at-least",
    "predicted, not measured: {device} peaks at least at {expected_bytes} ({floor_bytes} to {ceiling_bytes} of what is "
    "computed)",
    "run the complete cycle on this GPU and record the peak of every phase",
)
SPREAD = template(
    "decide.memory-spread",
    "the figures are for one copy spread evenly over the {gpus} GPUs of the offer: the card states no placement, and "
    "with fewer GPUs each needs more",
    "write placement in the card",
)
AT_LEAST = template(
    "decide.memory-at-least",
    "the prediction is a lower bound: {entries} unknown",
    "capienza size {card} --explain ENTRY says what each needs",
)
CAPACITY_UNKNOWN = template(
    "decide.memory-capacity-unknown",
    "no driver's figure is known for this GPU, so no peak can be compared with it",
    "ask the seller for the output of nvidia-smi, and record its figure",
)
SETTLE_CAPACITY = template(
    "decide.settle-capacity",
    "record the memory that the driver reports for a GPU of this offer: the claim gpu_reported_bytes",
    "in a commercial_sheet or an environment_probe whose scope names the offer; or as reported in the offers file",
)
NO_PREDICTION = template(
    "decide.memory-no-prediction",
    "no peak was predicted for this GPU",
    "capienza size CARD says what is missing",
)
SETTLE_PEAK = template(
    "decide.settle-memory",
    "a device or process peak of at most {limit_bytes} in every phase, on every GPU, settles it",
    "read it from the driver on that machine",
)
MARGIN_UNREASONED = template(
    "decide.memory-margin-unreasoned",
    "the margin of {margin_bytes} has no reason",
    "write margin.reason: a margin without a reason is no more reliable than a rounded figure",
)


def judge(case: Case) -> CriterionVerdict:
    """Does the complete cycle fit on each GPU, with the margin the card asks for?"""
    return conclude(CRITERION, [for_every_gpu(case, lambda need: _judge_gpu(case, need))])


def observed_margin(case: Case) -> int | None:
    """The least room that runs covering the need left, over all GPUs; None when no such run is known."""
    rooms = [
        cycle.room_bytes
        for need in case.needs
        for record in runs(case, need, PEAK)[0]
        if not not_completed(record) and (cycle := cycle_of(case, record, need.gpus or 1)).room_bytes is not None
        if cycle.is_complete
    ]
    return min(rooms, default=None) if not required_load(case) else None


def calculation(case: Case, need: Scope) -> EvidenceRef:
    """The prediction as evidence, identified by the digest of ledger and capacity. It is the same for every driver."""
    scope = scope_text(msgspec.structs.replace(need, driver=None))
    return EvidenceRef(id=CALCULATION, version=__version__, scope=scope, sha256=calculation_digest(case.sizing))


def calculation_digest(sizing: Sizing) -> str:
    """The sha256 of a prediction and of what it was compared with."""
    return digest([sizing.ledger, sizing.capacity])


def _judge_gpu(case: Case, need: Scope) -> Finding:
    open_load = required_load(case)
    open_fields = (*open_load, *_open_margin(case))
    stances = _proof(case, need)
    reasons: list[Message] = []
    if not open_load:
        successes, failures, reasons = runs(case, need, PEAK, OUTCOME)
        stances += [stance for record in failures if (stance := _failed(case, record, need))]
        for record in successes:
            stance, doubts = _covered(case, record, need)
            stances += [stance] if stance else []
            reasons += doubts
    finding = weigh(stances)
    if finding.reasons:
        finding = msgspec.structs.replace(
            finding,
            reasons=(*finding.reasons, *case.sizing.capacity_notes),
            evidence=(*finding.evidence, *case.sizing.readings),
        )
    if finding.truth is Truth.FALSE or (finding.truth is Truth.TRUE and not open_fields):
        return finding
    evidence = finding.evidence
    if not finding.reasons:
        reasons = [*_predicted(case), *reasons]
        evidence = ((calculation(case, need),) if case.sizing.ledger else ()) + case.sizing.readings
    return Finding(
        truth=Truth.UNKNOWN,
        reasons=(*open_fields, *finding.reasons, *shorten(reasons)),
        evidence=evidence,
        settle=open_fields if finding.truth is Truth.TRUE else (*open_fields, *finding.settle, *_settle(case)),
        failures=finding.failures,
    )


def _proof(case: Case, need: Scope) -> list[Stance]:
    """The floor of each GPU against the largest capacity the name allows."""
    ledger, capacity = case.sizing.ledger, case.sizing.capacity
    if ledger is None or capacity is None:
        return []
    over = [
        (device, peak.amount.floor)
        for device in ledger.gpus
        for peak in (ledger.predicted_peak(device),)
        if exceeds(peak, capacity) is Truth.TRUE
    ]
    if not over:
        return []
    device, floor_bytes = max(over, key=lambda one: one[1])
    figures = {"floor_bytes": floor_bytes, "usable_bytes": capacity.largest_usable_bytes}
    basis, gpus = capacity.largest_basis, need.gpus or 1
    if is_placement_open(case.card, case.offer):
        reason = FLOOR_SPREAD(gpus=gpus, basis=basis, **figures)
    elif gpus > 1:
        reason = FLOOR_SHARE(gpus=gpus, basis=basis, **figures)
    else:
        reason = FLOOR(device=device, basis=basis, **figures)
    return [
        Stance(
            says="violates", rank=None, evidence=calculation(case, need), reasons=(reason, *_held_larger(case, need))
        )
    ]


def _held_larger(case: Case, need: Scope) -> list[Message]:
    """The rules by which the weights of that floor are in a larger format than the one asked for."""
    rules = (rule for rule in case.sizing.rules if rule.gpu in (None, need.gpu))
    return [rule.reason for rule in rules if rule.reason.code == LARGER.code]


def _failed(case: Case, record: Record, need: Scope) -> Stance | None:
    """What a run of the load, or of a smaller one, says against it."""
    if word(record, OUTCOME) == OUT_OF_MEMORY:
        phase = next((claim.phase for claim in record.claims if claim.quantity == OUTCOME and claim.phase), UNTOLD)
        told = {"record": record.id[:12], "card": card_file(case), "gpu": need.gpu}
        reason = OOM_SOMEWHERE(**told) if phase == UNTOLD else OOM(phase=phase, **told)
        return Stance(says="violates", rank=rank(record, need.offer), evidence=cite(record), reasons=(reason,))
    short = _short(case, record, need) or _above_largest(case, record)
    if short is None:
        return None
    stance = doubt(case, record, need, short)
    # More than the card has, read on the required load: no waiver covers that.
    return msgspec.structs.replace(stance, is_failure=True) if short.code == OVERFULL.code else stance


def _above_largest(case: Case, record: Record) -> Message | None:
    """A reason when a reading is more than any GPU of this name has, whatever counter it is of."""
    largest = case.sizing.capacity.largest_usable_bytes if case.sizing.capacity else None
    fullest = max((claim.value for claim in find(record, PEAK) if isinstance(claim.value, int)), default=0)
    if largest is None or fullest <= largest:
        return None
    return OVERFULL(record=record.id[:12], excess_bytes=fullest - largest)


def _short(case: Case, record: Record, need: Scope) -> Message | None:
    """A reason when the fullest reading does not leave the margin."""
    room = cycle_of(case, record, need.gpus or 1).room_bytes
    margin = case.card.margin.amount_bytes if case.card.margin else 0
    if room is None or room >= margin:
        return None
    if room < 0:
        return OVERFULL(record=record.id[:12], excess_bytes=-room)
    return SHORT(record=record.id[:12], room_bytes=room, margin_bytes=margin)


def _covered(case: Case, record: Record, need: Scope) -> tuple[Stance | None, list[Message]]:
    """What a run at the required dimensions or larger ones says for the cycle, and why it does not support.

    One that completed without covering the cycle still shows, against a failure, that the load can run; unless it
    took more than any GPU of this name has.
    """
    cycle = cycle_of(case, record, need.gpus or 1)
    unfinished, short = not_completed(record), _short(case, record, need)
    doubts = [reason for reason in (unfinished, short) if reason is not None]
    if cycle.missing:
        doubts.append(PHASES_MISSING(record=record.id[:12], phases=list(cycle.missing)))
    if cycle.incomparable:
        doubts.append(INCOMPARABLE(record=record.id[:12], phases=list(cycle.incomparable)))
    doubts += _below_floor(case, record)
    weak = case.evidence.weak.get(record.id, ())
    if unfinished or weak or cycle.exceeds_largest:
        return None, [*doubts, *weak]
    if doubts or cycle.room_bytes is None:
        return Stance(says="ran", rank=rank(record, need.offer), evidence=cite(record), reasons=tuple(doubts)), doubts
    margin = case.card.margin.amount_bytes if case.card.margin else 0
    covered = COVERED(record=record.id[:12], room_bytes=cycle.room_bytes, margin_bytes=margin)
    return Stance(says="supports", rank=rank(record, need.offer), evidence=cite(record), reasons=(covered,)), []


def _below_floor(case: Case, record: Record) -> list[Message]:
    """Phases in which no GPU reaches what the arithmetic proves of the fullest: record or calculation is wrong."""
    ledger = case.sizing.ledger
    if ledger is None:
        return []
    floors = {phase.value: max(ledger.peak(phase, gpu).amount.floor for gpu in ledger.gpus) for phase in ledger.phases}
    readings: dict[tuple[str, str | None], dict[int, int]] = {}
    for claim in find(record, PEAK):
        if claim.phase in floors and isinstance(claim.value, int):
            lowest = readings.setdefault((claim.phase, claim.counter), {})
            gpu = claim.gpu_index or 0
            lowest[gpu] = min(claim.value, lowest.get(gpu, claim.value))
    low = dict.fromkeys(phase for (phase, _), lowest in readings.items() if max(lowest.values()) < floors[phase])
    return [BELOW_FLOOR(record=record.id[:12], phase=phase, floor_bytes=floors[phase]) for phase in low]


def _predicted(case: Case) -> list[Message]:
    """The prediction in words, or why there is none."""
    ledger = case.sizing.ledger
    reasons = list(case.sizing.refusals)
    if ledger is None:
        reasons.append(NO_PREDICTION())
    else:
        device = max(ledger.gpus, key=lambda gpu: ledger.predicted_peak(gpu).amount.expected)
        peak = ledger.predicted_peak(device)
        said = PREDICTED if peak.is_complete else PREDICTED_AT_LEAST
        reasons.append(
            said(
                device=device,
                expected_bytes=peak.amount.expected,
                floor_bytes=peak.amount.floor,
                ceiling_bytes=peak.amount.ceiling,
            )
        )
        if is_placement_open(case.card, case.offer):
            reasons.append(SPREAD(gpus=case.offer.gpus))
        if peak.missing:
            reasons.append(AT_LEAST(entries=peak.missing, card=card_file(case)))
    if _is_capacity_unknown(case):
        reasons.append(CAPACITY_UNKNOWN())
    return [*reasons, *case.sizing.capacity_notes]


def _is_capacity_unknown(case: Case) -> bool:
    return case.sizing.capacity is None or case.sizing.capacity.smallest_bytes is None


def _settle(case: Case) -> tuple[Message, ...]:
    """The run that settles it, and the proof each unknown entry of the prediction expects."""
    if has_too_few_gpus(case):
        return settle_by_measuring(case)
    entries = case.sizing.ledger.entries if case.sizing.ledger else ()
    proofs = one_proof_for_all(entry.expected_proof for entry in entries if entry.expected_proof is not None)
    usable = case.sizing.capacity.smallest_usable_bytes if case.sizing.capacity else None
    limit = usable - case.card.margin.amount_bytes if usable is not None and case.card.margin else 0
    peak = (SETTLE_PEAK(limit_bytes=limit),) if limit > 0 else ()
    total = (SETTLE_CAPACITY(),) if _is_capacity_unknown(case) else ()
    return (*total, *settle_by_measuring(case), *peak, *proofs)


def _open_margin(case: Case) -> tuple[Message, ...]:
    margin = case.card.margin
    if margin is None:
        return (NOT_STATED(field="margin"),)
    if not (margin.reason or "").strip():
        return (MARGIN_UNREASONED(margin_bytes=margin.amount_bytes),)
    return ()
