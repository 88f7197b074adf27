"""Small makers of entries: exact, expected, and unknown ones of a training."""

from __future__ import annotations

from capienza.errors import Message
from capienza.ledger.entry import Entry
from capienza.ledger.phase import TRAINING_PHASES, Phase
from capienza.predict.training import texts
from capienza.units import Range

Phases = tuple[Phase, ...]
ROLLOUT: Phases = (Phase.PREFILL, Phase.DECODE)
"""Where completions are written on the GPU that trains."""
PHASES: Phases = (Phase.LOAD, *ROLLOUT, *(phase for phase in TRAINING_PHASES if phase is not Phase.LOAD))
"""All that a training may have, in the order of a run."""
AFTER_LOAD: Phases = tuple(phase for phase in PHASES if phase is not Phase.LOAD)
STEPS: Phases = (Phase.OPTIMIZER_STEP_FIRST, Phase.OPTIMIZER_STEP_STEADY)
A_RULE = "a rule that this version does not have"


def estimated(name: str, phases: Phases, device: str, amount: Range, formula: Message, sources: str | Message) -> Entry:
    """An entry with its formula; its figures coincide where they are known to the byte."""
    return Entry(
        name=name,
        phases=phases,
        device=device,
        amount=amount,
        status="estimated",
        formula=formula,
        source=sources if isinstance(sources, Message) else texts.SOURCES(sources=sources),
    )


def exact(name: str, phases: Phases, device: str, amount_bytes: int, formula: Message, sources: str | Message) -> Entry:
    """An entry that is known to the byte."""
    return estimated(name, phases, device, Range.exact(amount_bytes), formula, sources)


def expected(name: str, phases: Phases, device: str, amount_bytes: int, formula: Message, sources: str) -> Entry:
    """An entry that rests on how programs usually behave: nothing of it is proved."""
    return estimated(name, phases, device, Range(0, amount_bytes, amount_bytes), formula, sources)


def unknown(
    name: str, phases: Phases, device: str, needs: tuple[str, ...] = (A_RULE,), proof: Message | None = None
) -> Entry:
    """An entry whose amount is not known; a measured run would settle it."""
    return Entry(
        name=name,
        phases=phases,
        device=device,
        amount=None,
        status="unknown",
        needs=needs,
        expected_proof=proof or texts.PHASE_PEAKS(phases=phases),
    )
