"""One change from a card: the lines that differ, the card that they make, and what nobody predicts of it.

A change has one kind. It may need more than one line where one alone would change a requirement or contradict
another: a smaller microbatch comes with more accumulation, a division with its number of GPUs.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Literal

import msgspec

from capienza.card.model import Card, Placement, Training
from capienza.card.options import plain_name
from capienza.decide.alternatives.gpu import Gpu
from capienza.decide.alternatives.requirement import keeps_requirement, option_of
from capienza.errors import Message

Kind = Literal[
    "capacity",
    "weight_format",
    "kv_type",
    "microbatch",
    "checkpointing",
    "optimizer",
    "method",
    "adapters",
    "attention",
    "loss",
    "evaluation",
    "export",
    "offload",
    "placement",
    "engine_budget",
    "allocator",
]
Value = str | int | float | bool | Decimal | None
ENGINE, TRAINING = "engine.options.", "training."
OWN_TRAINING = ("method", "rank", "optimizer")


class Setting(msgspec.Struct, frozen=True):
    """One line of the card by its path. `before` None: not written; `after` None: to be deleted."""

    path: str
    before: Value
    after: Value


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One change. `gpu`: on another card instead, with the same card file.

    `touches` are the entries that it acts on: while one of them is unknown, so is the effect in its phases. `lacks`
    names what it acts on and no entry holds. `takes_off`: it moves off the GPU, by an amount that nobody predicts, what
    entries hold; what is predicted of the changed card is then too much, and says nothing.
    """

    kind: Kind
    card: Card
    settings: tuple[Setting, ...] = ()
    gpu: Gpu | None = None
    touches: frozenset[str] = frozenset()
    lacks: tuple[str, ...] = ()
    takes_off: bool = False

    @property
    def id(self) -> str:
        """What tells it from the others of an answer: its lines, or the GPU."""
        if self.gpu is not None:
            return f"{self.kind}: {self.gpu.name}"
        return "; ".join(f"{setting.path}: {shown(setting.after)}" for setting in self.settings)


class Proposals(msgspec.Struct, frozen=True, kw_only=True):
    """What one kind of change has to offer; `notes` say why nothing, or not more."""

    changes: tuple[Change, ...] = ()
    notes: tuple[Message, ...] = ()


def shown(value: Value) -> str:
    """A value as YAML writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def change(
    kind: Kind,
    card: Card,
    after: dict[str, Value],
    touches: tuple[str, ...] = (),
    lacks: tuple[str, ...] = (),
    *,
    takes_off: bool = False,
) -> Change:
    """The change that writes these lines. Raises `ValueError` where they are none, or touch a requirement."""
    settings = tuple(Setting(path, stated(card, path), value) for path, value in after.items())
    settings = tuple(setting for setting in settings if setting.before != setting.after)
    changed = card
    for setting in settings:
        changed = _written(changed, setting.path, setting.after)
    if not settings or not keeps_requirement(card, changed, is_other_method=kind == "method"):
        message = f"no change, or one of the requirement: {sorted(after)}"
        raise ValueError(message)
    return Change(
        kind=kind, card=changed, settings=settings, touches=frozenset(touches), lacks=lacks, takes_off=takes_off
    )


def spelt(options: dict[str, Any], name: str) -> str:
    """The option as the card already writes it, with dashes or underscores; its plain name where it does not."""
    return next((key for key in options if plain_name(key) == name), name)


def engine_path(card: Card, name: str) -> str:
    """The path of an engine option."""
    return ENGINE + spelt(card.engine.options if card.engine else {}, name)


def recipe_lines(card: Card, name: str, value: Value) -> dict[str, Value]:
    """The lines that give an option of the recipe a value: a framework's own name for it goes."""
    options = card.training.options if card.training else {}
    others = [key for key in options if option_of(key) == name and plain_name(key) != name]
    return {**{TRAINING + key: None for key in others}, TRAINING + spelt(options, name): value}


def stated(card: Card, path: str) -> Value:
    """What the card writes there; None where it writes nothing."""
    if path.startswith(ENGINE):
        return card.engine.options.get(path.removeprefix(ENGINE)) if card.engine else None
    head, _, name = path.partition(".")
    if head == "training" and name not in OWN_TRAINING:
        return card.training.options.get(name) if card.training else None
    holder = card if not name else getattr(card, head)
    value = getattr(holder, name or head, None)
    is_left_out = head == "placement" and name != "gpus" and value == 1
    return None if is_left_out else value


def _written(card: Card, path: str, value: Value) -> Card:
    if path.startswith(ENGINE):
        engine = card.engine
        assert engine is not None
        options = _with(engine.options, path.removeprefix(ENGINE), value)
        return msgspec.structs.replace(card, engine=msgspec.structs.replace(engine, options=options))
    head, _, name = path.partition(".")
    if head == "training" and name not in OWN_TRAINING:
        training = card.training or Training()
        options = _with(training.options, name, value)
        return msgspec.structs.replace(card, training=msgspec.structs.replace(training, options=options))
    if not name:
        return msgspec.structs.replace(card, **{head: value})
    holder = getattr(card, head)
    if head == "placement":
        holder = holder if isinstance(holder, Placement) else Placement()
        value = 1 if value is None and name != "gpus" else value
    elif head == "training":
        holder = holder or Training()
    return msgspec.structs.replace(card, **{head: msgspec.structs.replace(holder, **{name: value})})


def _with(options: dict[str, Any], name: str, value: Value) -> dict[str, Any]:
    changed = {key: kept for key, kept in options.items() if key != name or value is not None}
    return changed if value is None else {**changed, name: value}
