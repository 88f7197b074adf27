"""What a change does to each phase's peak, and to what an engine takes of the card.

Legend: b, a expected bytes of a phase before and after; difference = a - b.
An entry that is unknown before and after cancels, unless the change acts on it: then the difference is unknown, and
so it is where an entry becomes unknown, or known.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from capienza.decide.alternatives.predicted import Pool, Predicted
from capienza.ledger.counters import CONTEXT
from capienza.ledger.ledger import Total
from capienza.ledger.phase import Phase

Relation = Literal["lowers", "gives_room", "unknown", "does_not_touch", "raises"]
RELATIONS: tuple[Relation, ...] = ("lowers", "gives_room", "unknown", "does_not_touch", "raises")
IN_THE_POOL = (Phase.KV_CACHE_ALLOCATION,)
BESIDE_THE_POOL = (Phase.KV_CACHE_ALLOCATION, Phase.GRAPH_CAPTURE, Phase.PREFILL, Phase.DECODE)
"""Phases after an engine has taken its share: a smaller share leaves more to what lies outside of it."""
WHOLE_PHASE = "whole_phase"
"""What is lacking where one of the two predictions has no such phase."""


class PhaseEffect(msgspec.Struct, frozen=True, kw_only=True):
    """One phase. `difference_bytes` None: unknown, and `lacking` names what no prediction holds yet.

    `before` or `after` None: of that configuration nothing is computed in this phase.
    """

    phase: Phase
    before: Total | None
    after: Total | None
    difference_bytes: int | None
    lacking: tuple[str, ...] = ()

    @property
    def known_bytes(self) -> int:
        """The difference of the entries that are known."""
        if self.before is None or self.after is None:
            return 0
        return self.after.need_bytes - self.before.need_bytes


def effects_of(
    before: Predicted, after: Predicted, touches: frozenset[str], lacks: tuple[str, ...]
) -> tuple[PhaseEffect, ...]:
    """The effect on every phase of either prediction, in the order of a run."""
    phases = [phase for phase in Phase if phase in before.peaks or phase in after.peaks]
    return tuple(_effect(phase, before.peaks.get(phase), after.peaks.get(phase), touches, lacks) for phase in phases)


def size_of(
    before: Predicted, after: Predicted, effects: tuple[PhaseEffect, ...], failed: Phase | None
) -> tuple[int | None, int]:
    """The difference of a phase's peak, or where none is named of the predicted peaks; and that of the known entries.

    The first is None where it is unknown: of the predicted peaks, where that of any phase is.
    """
    one = next((effect for effect in effects if effect.phase == failed and effect.before is not None), None)
    if one is not None:
        return one.difference_bytes, one.known_bytes
    known = 0 if not after.peaks else after.peak.need_bytes - before.peak.need_bytes
    return None if any(effect.difference_bytes is None for effect in effects) else known, known


def changes_nothing(before: Predicted, after: Predicted, effects: tuple[PhaseEffect, ...]) -> bool:
    """Is the prediction the same, as far as there is one?"""
    same = (before.word, before.margin_bytes, before.pool, before.refused, before.doubts)
    return (
        same == (after.word, after.margin_bytes, after.pool, after.refused, after.doubts)
        and all(effect.before == effect.after for effect in effects)
        and not any(effect.lacking for effect in effects)
    )


def betters(before: Predicted, after: Predicted, effects: tuple[PhaseEffect, ...]) -> bool:
    """Does the change lower, or perhaps lower, a phase, leave more room, or let more of the load run?"""
    return (
        any(effect.difference_bytes is not None and effect.difference_bytes < 0 for effect in effects)
        or _may_lower(effects)
        or (before.margin_bytes is not None and (after.margin_bytes or 0) > before.margin_bytes)
        or fit_order(after) < fit_order(before)
        or _pool_gains(before.pool, after.pool)
        or (_share_falls(before.pool, after.pool) and not _grows(effects))
    )


def _grows(effects: tuple[PhaseEffect, ...]) -> bool:
    return any(map(_is_larger, effects))


def _is_larger(effect: PhaseEffect) -> bool:
    """Does a phase grow, as far as it is known? An entry that becomes known makes nothing grow."""
    if effect.before is None or effect.after is None or effect.known_bytes <= 0:
        return False
    return effect.difference_bytes is not None or set(effect.before.missing) <= set(effect.after.missing)


def _may_lower(effects: tuple[PhaseEffect, ...]) -> bool:
    """Is some effect unknown, and does nothing grow? An entry that only becomes unknown is one that grows."""
    return any(set(effect.lacking) - _only_after(effect) for effect in effects) and not _grows(effects)


def _only_after(effect: PhaseEffect) -> set[str]:
    """What is unknown after the change alone."""
    before, after = ((set(total.missing) if total else set()) for total in (effect.before, effect.after))
    return after - before


def fit_order(predicted: Predicted) -> int:
    """Fit, borderline, not known, overflow, excluded by arithmetic."""
    return 4 if predicted.is_excluded else ("fit", "borderline", None, "overflow").index(predicted.word)


def relation_to(phase: Phase, before: Predicted, after: Predicted, effects: tuple[PhaseEffect, ...]) -> Relation | None:
    """What the change does for a phase that failed; None for a phase in which no entry lives now."""
    effect = next((one for one in effects if one.phase == phase), None)
    if effect is None or effect.before is None:
        return None
    if effect.difference_bytes is not None and effect.difference_bytes < 0:
        return "lowers"
    if _gives_room(phase, before, after):
        return "gives_room"
    if effect.difference_bytes is None:
        return "unknown"
    return "raises" if effect.difference_bytes > 0 else "does_not_touch"


def _gives_room(phase: Phase, before: Predicted, after: Predicted) -> bool:
    # What was computed before and no longer is may take all the room; a context alone is small beside a capacity.
    is_comparable = set(after.peak.missing) <= {*before.peak.missing, CONTEXT}
    if before.usable_bytes is not None and after.usable_bytes is not None and is_comparable:
        larger, more = after.usable_bytes - before.usable_bytes, after.peak.need_bytes - before.peak.need_bytes
        if larger > max(0, more):
            return True  # another card: the capacity grew, and by more than the need
    return (phase in IN_THE_POOL and _pool_gains(before.pool, after.pool)) or (
        phase in BESIDE_THE_POOL and _share_falls(before.pool, after.pool)
    )


def _effect(
    phase: Phase, before: Total | None, after: Total | None, touches: frozenset[str], lacks: tuple[str, ...]
) -> PhaseEffect:
    if before is None or after is None:
        return PhaseEffect(
            phase=phase, before=before, after=after, difference_bytes=None, lacking=(WHOLE_PHASE, *lacks)
        )
    was, will_be = set(before.missing), set(after.missing)
    open_names = (was ^ will_be) | (was & touches)
    named = [name for name in (*before.missing, *after.missing) if name in open_names]
    lacking = tuple(dict.fromkeys((*lacks, *named)))
    difference = None if lacking else after.need_bytes - before.need_bytes
    return PhaseEffect(phase=phase, before=before, after=after, difference_bytes=difference, lacking=lacking)


def _pool_gains(before: Pool | None, after: Pool | None) -> bool:
    """A larger pool, one that holds the load where the old one did not, or an engine that starts."""
    if before is None or after is None:
        return False
    if (before.is_refused, before.is_covered) != (after.is_refused, after.is_covered):
        return (after.is_refused, after.is_covered is not True) < (before.is_refused, before.is_covered is not True)
    return before.pool_bytes is not None and after.pool_bytes is not None and after.pool_bytes > before.pool_bytes


def _share_falls(before: Pool | None, after: Pool | None) -> bool:
    if before is None or after is None or before.budget_bytes is None or after.budget_bytes is None:
        return False
    return after.budget_bytes < before.budget_bytes
