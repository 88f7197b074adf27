"""One value for each option of a recipe, with where it comes from; and what a card states, by one name each.

A card may state an option by its own name or by a framework's. Both at once with different values contradict each
other. What is known to change no figure, and what is not known at all, is kept to be told.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from capienza.card.load import place_of
from capienza.card.model import Card, Scalar
from capienza.card.options import plain_name
from capienza.card.training_options import KNOWN
from capienza.card.training_spellings import SAID_ELSEWHERE, SPELLINGS
from capienza.errors import InputError, Message, Place, template
from capienza.recipe.launcher import is_launcher, said_by

NO_MEMORY = template("recipe.no-memory", "{field} changes no memory")
LEFT_OUT = template("recipe.left-out", "{field} is not known here: if it changes memory, that is not in the figures")
TWO_VALUES = template(
    "recipe.two-values", "{field} says {found}, and {other} says {other_found}", "Keep one of the two."
)
STATED = template("recipe.stated", "stated in the card: {field}")

WITHOUT_MEMORY = frozenset(
    {
        "alpha", "adam_beta1", "adam_beta2", "adam_epsilon", "betas", "dataset", "epochs", "eval_steps",
        "eval_strategy", "learning_rate", "logging_steps", "lr", "lr_scheduler", "lr_scheduler_type", "max_steps",
        "num_epochs", "num_train_epochs", "save", "save_steps", "save_strategy", "save_only_model",
        "fsdp_auto_wrap_policy", "fsdp_sync_module_states", "fsdp_transformer_layer_cls_to_wrap",
        "fsdp_use_orig_params", "fsdp_xla", "save_total_limit", "scheduler", "seed", "steps", "warmup", "warmup_ratio",
        "warmup_steps", "weight_decay",
    }
)  # fmt: skip
"""Options of a training that change no byte on the GPU; some change what is written to disk."""
OF_THE_DISK = frozenset({"save_only_model", "save_total_limit"})
"""Options of a card that only change what is written to disk."""
OF_THE_ENGINE = frozenset({"attention"})
"""Options of the recipe that may also stand under engine.options."""
MERGED = {("offload", frozenset({"optimizer", "parameters"})): "parameters"}
"""Spellings of one option that add to each other."""


class Choice(msgspec.Struct, frozen=True):
    """A value and its source. `field` is the key in the card that states it, None where it is a habit."""

    value: Scalar
    source: Message
    field: str | None = None


Choices = dict[str, Choice]


class Stated(msgspec.Struct, frozen=True):
    """What a card states: choices by option, and what of it is in no figure."""

    choices: Choices
    left_out: tuple[Message, ...]


class _Said(msgspec.Struct, frozen=True):
    field: str
    value: Scalar
    is_weak: bool = False


def stated_in(card: Card) -> Stated:
    """The recipe's options that a card states. Raises `InputError` for two spellings that differ."""
    said: dict[str, list[_Said]] = {}
    left_out: list[Message] = []
    for field, name, value in _written(card):
        one = _read(field, name, value)
        if one is not None:
            said.setdefault(one[0], []).append(one[1])
            if one[0] == "alpha":
                left_out.append(NO_MEMORY(field=field))
        elif field.startswith("training."):
            if name in SAID_ELSEWHERE:
                continue
            known = name in WITHOUT_MEMORY or _is_phase(name, value)
            left_out.append((NO_MEMORY if known else LEFT_OUT)(field=field))
    choices = {option: _one_of(card, option, found) for option, found in said.items()}
    return Stated(choices, tuple(left_out))


def place_in(card: Card, field: str | None) -> Place:
    """Where a key of the card stands, as far as the card has a file."""
    return place_of(card.file, field) if card.file and field else Place(card.file, key=field)


def _written(card: Card) -> Iterator[tuple[str, str, Scalar]]:
    """Every key of the card, the option in plain spelling, its value; a launcher's configuration key by key."""
    training = card.training
    if training is not None:
        for name in ("method", "rank", "optimizer"):
            value = getattr(training, name)
            if value is not None:
                yield f"training.{name}", name, value
        for name, value in training.options.items():
            if is_launcher(name, value):
                yield from said_by(card, name, value)
            else:
                yield f"training.{name}", plain_name(name), value
    for name, value in (card.engine.options if card.engine else {}).items():
        option = SPELLINGS[plain_name(name)].option if plain_name(name) in SPELLINGS else plain_name(name)
        if option in OF_THE_ENGINE:
            yield f"engine.options.{name}", plain_name(name), value


def _read(field: str, name: str, value: Scalar) -> tuple[str, _Said] | None:
    """The option that a key stands for, with its value; None for a key or a value that is not known."""
    if name == "eval" and value == "none":
        return "eval_microbatch", _Said(field, 0)
    spelling = SPELLINGS.get(name)
    if spelling is None:
        is_known = (name in KNOWN and name not in OF_THE_DISK) or name in OWN
        return (name, _Said(field, value)) if is_known else None
    if spelling.values is None:
        return spelling.option, _Said(field, value)
    folded: Scalar = value.casefold() if isinstance(value, str) else value
    folded = {"true": True, "false": False}.get(folded, folded) if isinstance(folded, str) else folded
    for known, meant in spelling.values.items():
        if known == folded and isinstance(known, bool) == isinstance(folded, bool):
            return spelling.option, _Said(field, meant, any(known is weak or known == weak for weak in spelling.weak))
    return None


OWN = frozenset({"method", "rank", "optimizer", "export", "fsdp_is_on", "auto_sizes"})
"""Options that a card has in fields of their own, that a launcher's says, or that are for the disk as well."""


def _is_phase(name: str, value: Scalar) -> bool:
    return name in ("eval", "checkpoint", "save") and value == "none"


def _shown(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _one_of(card: Card, option: str, found: list[_Said]) -> Choice:
    """The one value that several spellings of an option give."""
    strong = [one for one in found if not one.is_weak] or found[:1]
    values = {one.value for one in strong}
    merged = MERGED.get((option, frozenset(map(str, values))))
    if merged is None and len(values) > 1:
        one = strong[0]
        other = next(said for said in strong if said.value != one.value)
        raise InputError(
            TWO_VALUES(field=other.field, found=_shown(other.value), other=one.field, other_found=_shown(one.value)),
            place_in(card, other.field),
        )
    return Choice(merged or strong[0].value, STATED(field=strong[0].field), strong[0].field)
