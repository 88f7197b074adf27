"""The alternatives of a configuration, in one order whatever order they were found in.

Order: what lowers the phase that failed, where one is named, then what gives it room, then what may; a refused change
last; then the predicted fit, then how little is invalidated, then the size of the effect; of GPUs the smallest; equals
by their kind and id.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from capienza.card.model import Card, Placement
from capienza.decide.alternatives.change import Change, Kind
from capienza.decide.alternatives.effect import (
    RELATIONS,
    PhaseEffect,
    Relation,
    betters,
    changes_nothing,
    effects_of,
    fit_order,
    relation_to,
    size_of,
)
from capienza.decide.alternatives.levers.table import LEVERS
from capienza.decide.alternatives.lost import Lost, lost
from capienza.decide.alternatives.predicted import Predict, Predicted, predictor, without_figures
from capienza.decide.alternatives.scene import Scene
from capienza.decide.case import gpus_in_all, gpus_per_copy
from capienza.errors import InputError, Message
from capienza.evidence.record import Record
from capienza.ledger.phase import Phase
from capienza.predict.model import Model, load_model


class Alternative(msgspec.Struct, frozen=True, kw_only=True):
    """One change with what follows from it. `after` None: the engine or the model refuses the changed card.

    `gpus` are those of one copy.

    `refused` are the rules, or the engine's own limits, that stand against it; then it is no way out, whatever its
    figures. `difference_bytes` is that of the predicted peak, or of the phase that failed, and `relation` what it does
    for that phase; None is unknown, and `known_bytes` then the difference of the known entries.
    """

    change: Change
    gpus: int
    gpus_in_all: int
    after: Predicted | None
    effects: tuple[PhaseEffect, ...] = ()
    difference_bytes: int | None = None
    known_bytes: int = 0
    refused: tuple[Message, ...] = ()
    invalidates: tuple[Lost, ...] = ()
    relation: Relation | None = None


class NotOffered(msgspec.Struct, frozen=True, kw_only=True):
    """Why a kind of change has nothing, or nothing more, to offer."""

    kind: Kind
    reason: Message


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """The alternatives, sorted, and how many more there are that change nothing, or better nothing."""

    alternatives: tuple[Alternative, ...]
    not_offered: tuple[NotOffered, ...]
    unchanged: int
    worse: int


def find(scene: Scene, records: Iterable[Record] = (), failed: Phase | None = None) -> Found:
    """Every change of every kind that the scene allows, exactly one each."""
    counting = tuple(records)
    as_now = predictor(scene.card, scene.model, scene.margin_bytes)
    shown: list[Alternative] = []
    not_offered: list[NotOffered] = []
    unchanged = worse = 0
    for kind, lever in LEVERS.items():
        proposals = lever(scene)
        not_offered += [NotOffered(kind=kind, reason=note) for note in proposals.notes]
        for change in proposals.changes:
            one = alternative(scene, change, as_now, counting, failed)
            if one.after is None:
                shown.append(one)
            elif changes_nothing(scene.now, one.after, one.effects):
                unchanged += 1
            elif not betters(scene.now, one.after, one.effects):
                worse += 1
            else:
                shown.append(one)
    return Found(
        alternatives=tuple(sorted(shown, key=_order)),
        not_offered=tuple(not_offered),
        unchanged=unchanged,
        worse=worse,
    )


def alternative(
    scene: Scene, change: Change, as_now: Predict, records: tuple[Record, ...], failed: Phase | None
) -> Alternative:
    """One change, predicted; `as_now` predicts the card as it is, on any GPU."""
    gpus = _gpus(scene, change.card)
    in_all = gpus_in_all(change.card) if isinstance(change.card.placement, Placement) else gpus
    try:
        predict = (
            as_now if change.gpu is not None else predictor(change.card, _model(scene, change.card), scene.margin_bytes)
        )
        after = predict(change.gpu or scene.gpu, gpus)
        after = without_figures(after, change.lacks) if change.takes_off else after
    except InputError as error:
        return Alternative(change=change, gpus=gpus, gpus_in_all=in_all, after=None, refused=(error.message,))
    effects = effects_of(scene.now, after, change.touches, change.lacks)
    difference, known = size_of(scene.now, after, effects, failed)
    return Alternative(
        change=change,
        gpus=gpus,
        gpus_in_all=in_all,
        after=after,
        effects=effects,
        difference_bytes=difference,
        known_bytes=known,
        refused=after.refused,
        invalidates=lost(scene.now, after, records, is_other_method=change.kind == "method"),
        relation=None if failed is None else relation_to(failed, scene.now, after, effects),
    )


def _gpus(scene: Scene, card: Card) -> int:
    """GPUs of one copy: as the changed card places it, else those of the scene."""
    return scene.gpus if card.placement == scene.card.placement else gpus_per_copy(card)


def _model(scene: Scene, card: Card) -> Model:
    """The model of a changed card: other bits are another model of the same parameters."""
    return scene.model if card.model == scene.card.model else load_model(card.model)


def _order(one: Alternative) -> tuple[object, ...]:
    relation = RELATIONS.index(one.relation) if one.relation else len(RELATIONS)
    return (
        bool(one.refused) or one.after is None,
        relation,
        0 if one.after is None else fit_order(one.after),
        len(one.invalidates),
        sum(len(part.fields) + len(part.records) for part in one.invalidates),
        one.difference_bytes is None,
        one.known_bytes,
        0 if one.change.gpu is None else one.change.gpu.capacity.smallest_usable_bytes or 0,
        one.change.kind,
        one.change.id,
    )
