"""The format that weights are really held in on a GPU, where an engine changes it without a word.

Legend: s bytes as asked for (stored, or of `weights.format`), l bytes in the larger format, per copy of the model.
    every GPU of the name is touched by a rule read at this release    floor l, expected l, ceiling l
    every one is, by the nearest rule                                   floor s, expected l, ceiling l
    some is, or it hangs on a package whose version is not known        floor s, expected s, ceiling l
The rule's factor gives l where the layers are not known. Rules: `catalog.outcome`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from capienza.card.model import Card
from capienza.errors import Message, template
from capienza.predict.gpu import GpuFacts
from capienza.predict.model import Model
from capienza.predict.weights import WeightBytes, weight_bytes
from capienza.truth import Truth

if TYPE_CHECKING:
    from capienza.catalog.outcome import Outcome

IN_THE_LARGER = template(
    "predict.formula-held-larger",
    "{formula}; held in {becomes}: {larger} B (rule {rule})",
)
MAYBE_IN_THE_LARGER = template(
    "predict.formula-maybe-larger",
    "{formula}; in {becomes}, should rule {rule} apply: {larger} B",
)


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """A larger format that the engine takes: `is_proved` on every GPU of the name, `is_expected`, or only possible."""

    becomes: str
    factor: int
    rule: str
    is_proved: bool
    is_expected: bool


def rule_outcomes(card: Card, model: Model, gpu: GpuFacts) -> tuple[tuple[Outcome, ...], ...]:
    """What the rules say, for each GPU that the name may mean; nothing where the card names no engine, or no GPU is."""
    if not gpu.traits or card.engine is None:
        return ()
    from capienza.catalog.capability import alike
    from capienza.catalog.outcome import outcomes
    from capienza.predict.combination import combination_of

    combination = combination_of(card, model)
    return () if combination is None else tuple(outcomes(combination, traits) for traits in alike(gpu.traits))


def rule_notes(found: tuple[tuple[Outcome, ...], ...]) -> tuple[Message, ...]:
    """What is worth a word beside the figures: every rule that is violated, open, or of another release."""
    return tuple(
        dict.fromkeys(
            one.reason for of_gpu in found for one in of_gpu if one.met is not Truth.TRUE and not _is_of_no_rule(one)
        )
    )


def _is_of_no_rule(one: Outcome) -> bool:
    """Does it say that no rule is known of a program of which none ever was? Verdicts say so; figures need not."""
    from capienza.catalog.rule_texts import NO_RULE
    from capienza.catalog.rules import load_rules

    if one.rule is not None or one.reason.code != NO_RULE.code:
        return False
    engine = str(one.reason.parameters["engine"])
    return not any(rule.concerns(engine) for rule in load_rules())


def held_as(card: Card, model: Model, gpu: GpuFacts) -> Held | None:
    """The larger format that weights are or may be held in on this GPU; None where no rule says so."""
    if not gpu.traits or card.engine is None:
        return None
    from capienza.catalog.outcome import outcomes
    from capienza.catalog.rules import enlarging_rules
    from capienza.predict.combination import combination_of

    combination = combination_of(card, model)
    if combination is None:
        return None
    rules = enlarging_rules()
    larger = [[one for one in outcomes(combination, traits, rules) if _is_larger(one)] for traits in gpu.traits]
    touched = [one for of_gpu in larger for one in of_gpu]
    if not touched:
        return None
    rule = touched[0].rule
    assert rule is not None
    return Held(
        becomes=rule.becomes,
        factor=rule.factor,
        rule=rule.id,
        is_proved=all(any(one.met is Truth.FALSE and one.is_read for one in of_gpu) for of_gpu in larger),
        is_expected=all(any(one.met is Truth.FALSE for one in of_gpu) for of_gpu in larger),
    )


def _is_larger(outcome: Outcome) -> bool:
    rule = outcome.rule
    return rule is not None and rule.violation == "silently_larger" and outcome.met is not Truth.TRUE


def weights_on(model: Model, weight_format: str | None, held: Held | None) -> WeightBytes:
    """The weights of one copy as they are asked for, widened by the format that they are or may be held in.

    Raises `InputError` when neither files nor card state enough.
    """
    weights = weight_bytes(model, weight_format)
    if held is None:
        return weights
    larger = _in_format(model, held, weights)
    formula = (IN_THE_LARGER if held.is_expected else MAYBE_IN_THE_LARGER)(
        formula=weights.formula, becomes=held.becomes, larger=larger, rule=held.rule
    )
    return msgspec.structs.replace(
        weights,
        total_bytes=larger if held.is_proved else weights.total_bytes,
        expected_bytes=larger if held.is_expected else weights.expected_bytes,
        ceiling_bytes=larger,
        formula=formula,
    )


def _in_format(model: Model, held: Held, weights: WeightBytes) -> int:
    """The bytes in the larger format: by the layers, else by the factor of the rule."""
    if model.architecture is None or not model.architecture.parameters or model.parameters is not None:
        return weights.expected_bytes * held.factor
    return max(weight_bytes(model, held.becomes).total_bytes, weights.expected_bytes)
