"""What is not computed yet, by name: the inputs each entry needs and the proof that would settle it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import msgspec

from capienza.card.model import Card
from capienza.errors import Message, Template, template
from capienza.ledger.entry import Entry
from capienza.ledger.phase import INFERENCE_PHASES, TRAINING_PHASES, Phase


class Missing(msgspec.Struct, frozen=True, kw_only=True):
    """An entry that every such workload has and that this version does not compute."""

    name: str
    phases: tuple[Phase, ...]
    needs: tuple[str, ...]
    proof: Template


MEASURED_PHASE = template(
    "predict.proof-measured-phase",
    "peaks by phase ({phases}), read on the intended card at the required dimensions",
    "run the complete load once on the intended card and keep the counters of each phase",
)


def one_proof_for_all(proofs: Iterable[Message]) -> tuple[Message, ...]:
    """The proofs that several entries expect, each once; one run of the complete load measures all its phases."""
    distinct = dict.fromkeys(proofs)
    measured = [proof for proof in distinct if proof.code == MEASURED_PHASE.code]
    asked = {phase for proof in measured for phase in cast("tuple[str, ...]", proof.parameters["phases"])}
    together = (MEASURED_PHASE(phases=tuple(phase for phase in Phase if phase in asked)),) if measured else ()
    return (*together, *(proof for proof in distinct if proof not in measured))


ENGINE_LOG = template(
    "predict.proof-engine-log",
    "the engine's own start-up log on the intended card, with its version and options",
    "start the engine once with the card's options and keep its log",
)
STATED_INPUT = template(
    "predict.proof-stated-input",
    "the card states {needs}",
    "add {needs} to the card, then size it again",
)
KNOWN_ARCHITECTURE = template(
    "predict.proof-known-architecture",
    "a model whose layers are understood, or a measurement: {refusal}",
    "measure the cache on the intended card, or ask for this model type to be added",
)

ONLY_A_COUNT = template(
    "predict.only-a-parameter-count",
    "the card gives a bare number of parameters, so the layers are not known",
    "name the model itself: model.id, or model.path",
)

A_RULE = "a rule that this version does not have"
_LENGTHS = ("tokens.required", "concurrency")

INFERENCE_MISSING = (
    Missing(
        name="loading",
        phases=(Phase.LOAD,),
        needs=("engine", "engine.version", "weights.format"),
        proof=MEASURED_PHASE,
    ),
    Missing(
        name="activations",
        phases=(Phase.PREFILL, Phase.DECODE),
        needs=("engine", *_LENGTHS),
        proof=MEASURED_PHASE,
    ),
    Missing(
        name="engine_runtime",
        phases=INFERENCE_PHASES,
        needs=("engine", "engine.version", "engine.options"),
        proof=ENGINE_LOG,
    ),
)

CONVERSION_MISSING = Missing(
    name="load_conversion", phases=(Phase.LOAD,), needs=("engine", "engine.version"), proof=MEASURED_PHASE
)
_STEPS = (Phase.OPTIMIZER_STEP_FIRST, Phase.OPTIMIZER_STEP_STEADY)
_SHAPE = ("tokens.required", "microbatch")
TRAINING_MISSING = (
    Missing(name="loading", phases=(Phase.LOAD,), needs=("engine", "weights.format"), proof=MEASURED_PHASE),
    Missing(
        name="adapters",
        phases=TRAINING_PHASES,
        needs=("training.method", "training.rank"),
        proof=MEASURED_PHASE,
    ),
    Missing(
        name="gradients",
        phases=(Phase.BACKWARD, *_STEPS),
        needs=("training.method",),
        proof=MEASURED_PHASE,
    ),
    Missing(
        name="optimizer_states",
        phases=(*_STEPS, Phase.FORWARD, Phase.BACKWARD, Phase.EVAL, Phase.CHECKPOINT),
        needs=("training.optimizer", "training.method"),
        proof=MEASURED_PHASE,
    ),
    Missing(
        name="activations",
        phases=(Phase.FORWARD, Phase.BACKWARD),
        needs=("training.gradient_checkpointing", *_SHAPE),
        proof=MEASURED_PHASE,
    ),
    Missing(name="logits_and_loss", phases=(Phase.FORWARD, Phase.BACKWARD), needs=_SHAPE, proof=MEASURED_PHASE),
    Missing(
        name="optimizer_transient",
        phases=(Phase.OPTIMIZER_STEP_FIRST, Phase.OPTIMIZER_STEP_STEADY),
        needs=("training.optimizer",),
        proof=MEASURED_PHASE,
    ),
    Missing(
        name="evaluation",
        phases=(Phase.EVAL,),
        needs=("tokens.required", "training.eval_microbatch"),
        proof=MEASURED_PHASE,
    ),
    Missing(name="checkpoint", phases=(Phase.CHECKPOINT,), needs=("training.method",), proof=MEASURED_PHASE),
    Missing(name="export", phases=(Phase.EXPORT,), needs=("training.method",), proof=MEASURED_PHASE),
    Missing(name="engine_runtime", phases=TRAINING_PHASES, needs=("engine", "engine.version"), proof=MEASURED_PHASE),
)


def unknown_entry(name: str, phases: tuple[Phase, ...], device: str, needs: tuple[str, ...], proof: Message) -> Entry:
    """An entry whose amount is not known, with what would settle it."""
    return Entry(
        name=name,
        phases=phases,
        device=device,
        amount=None,
        status="unknown",
        needs=needs,
        expected_proof=proof,
    )


def missing_entry(missing: Missing, card: Card, device: str) -> Entry:
    """The unknown entry of one GPU: it needs what the card leaves open, or else the rule itself."""
    proof = missing.proof
    message = proof(phases=tuple(missing.phases)) if "{phases}" in proof.text else proof()
    needs = tuple(field for field in missing.needs if not is_stated(card, field))
    return unknown_entry(missing.name, missing.phases, device, needs or (A_RULE,), message)


def is_stated(card: Card, field: str) -> bool:
    """Does the card state the field that this path names?"""
    value: object = card
    for name in field.split("."):
        options = getattr(value, "options", {})
        value = options[name] if name in options else getattr(value, name, None)
        if value in (None, {}):
            return False
    return True
