"""What a fine-tuning run writes to disk each time it saves: trained weights and the optimizer's states.

Legend: P trained parameters; r rank; a pair of adapters beside a matrix [out, in] has r x (in + out) parameters.
Bytes of one trained parameter: 2 in bf16 or fp16, 4 in fp32. Adam keeps two moments in the format of the parameter
(torch AdamW): 4 or 8 bytes; in 8 bits 2 bytes and two fp32 scales for each block of 256, small tensors staying in
fp32; SGD none without momentum. PEFT holds adapters in fp32 unless told otherwise, other programs in bf16.
Sources: torch.optim.AdamW, bitsandbytes optimizers, peft `autocast_adapter_dtype`, transformers `Trainer`.
"""

from __future__ import annotations

import msgspec

from capienza.card.model import Card, Training
from capienza.card.options import plain_name
from capienza.errors import Message, template
from capienza.predict.model import Model, stored_format
from capienza.units import Range

ADAPTER_METHODS = ("lora", "qlora")
WIDE, NARROW = 4, 2
WIDTHS = {"fp32": WIDE, "bf16": NARROW, "fp16": NARROW}
ADAM = frozenset(
    {
        "adam", "adamw", "adamw_torch", "adamw_torch_fused", "adamw_hf", "adamw_apex_fused", "paged_adamw",
        "paged_adamw_32bit",
    }
)  # fmt: skip
ADAM_8BIT = frozenset({"adamw_8bit", "adamw_bnb_8bit", "adam_8bit", "paged_adamw_8bit"})
SGD = "sgd"
BLOCK = 256
PLAIN_ROLES = frozenset({"embedding", "head", "position", "norm", "attention", "mlp"})
"""Parts whose matrices are linear modules of their own in every release; experts may be fused into one tensor."""
ALL_LINEAR = "all-linear"

ADAPTERS = template(
    "predict.formula-adapters",
    "rank {rank} x (in + out) of {count} matrices ({targets}) = {parameters} parameters",
)
WHOLE = template("predict.formula-trained-whole", "{parameters} parameters, all of them trained")


class Trained(msgspec.Struct, frozen=True):
    """What is trained, and its bytes in one checkpoint. `states` None: the optimizer is not one that is computed."""

    parameters: int
    weights: Range
    states: Range | None
    formula: Message


def is_adapted(card: Card) -> bool:
    """Does the card train adapters beside a frozen model?"""
    return _method(card) in ADAPTER_METHODS


def trained(card: Card, model: Model) -> Trained | None:
    """What one checkpoint of the card's training holds; None where the card or the model leaves that open."""
    if is_adapted(card):
        found = _adapters(card, model)
        if found is None:
            return None
        parameters, formula = found
        weights = Range(NARROW * parameters, WIDE * parameters, WIDE * parameters)
        return Trained(parameters, weights, _states(card, parameters, None), formula)
    width = WIDTHS.get(card.weights.format or stored_format(model) or "")
    count = _parameters(model)
    if _method(card) != "full" or width is None or count is None:
        return None
    weights = Range(width * count, width * count, WIDE * count)
    return Trained(count, weights, _states(card, count, width), WHOLE(parameters=count))


def needed_fields(card: Card) -> tuple[str, ...]:
    """The fields of the card that a checkpoint of this training depends on."""
    if is_adapted(card):
        return ("training.method", "training.rank", "training.targets")
    return ("training.method", "weights.format")


def option(card: Card, name: str) -> object:
    """A training option by its plain name; None when the card does not state it."""
    options = card.training.options if card.training else {}
    return next((value for key, value in options.items() if plain_name(key) == name), None)


def _method(card: Card) -> str:
    return (card.training.method or "").casefold() if isinstance(card.training, Training) else ""


def _parameters(model: Model) -> int | None:
    if model.architecture is not None and model.architecture.parameters:
        return model.architecture.num_stored_elements
    return model.parameters


def _adapters(card: Card, model: Model) -> tuple[int, Message] | None:
    """Parameters of all pairs of adapters; None where targets or rank are not stated, or may be fused experts."""
    architecture, training = model.architecture, card.training
    rank = training.rank if training else None
    stated = option(card, "targets")
    if architecture is None or rank is None or not isinstance(stated, str) or option(card, "modules_to_save"):
        return None
    if any(parameter.role not in PLAIN_ROLES for parameter in architecture.parameters):
        return None
    names = stated.replace(",", " ").split()
    matrices = [
        parameter
        for parameter in architecture.parameters
        if len(parameter.shape) == 2 and _is_target(parameter.name, parameter.role, names)
    ]
    hit = {parameter.name.split(".")[-2] for parameter in matrices}
    if not matrices or (names != [ALL_LINEAR] and not hit.issuperset(names)):
        return None
    count = sum(rank * sum(parameter.shape) for parameter in matrices)
    return count, ADAPTERS(rank=rank, count=len(matrices), targets=tuple(names), parameters=count)


def _is_target(name: str, role: str, names: list[str]) -> bool:
    """PEFT adapts the modules whose name ends in a target; `all-linear` all of them but the output head."""
    if not name.endswith(".weight"):
        return False
    return role in ("attention", "mlp") if names == [ALL_LINEAR] else name.split(".")[-2] in names


def _states(card: Card, count: int, width: int | None) -> Range | None:
    """The optimizer's states. `width` None: adapters, in either format."""
    optimizer = plain_name((card.training.optimizer if card.training else None) or "")
    if optimizer in ADAM:
        if width is None:
            return Range(2 * NARROW * count, 2 * WIDE * count, 2 * WIDE * count)
        return Range(2 * width * count, 2 * width * count, 2 * WIDE * count)
    if optimizer in ADAM_8BIT:
        blocks = -(-count // BLOCK)
        return Range(2 * count, 2 * count + 2 * WIDE * blocks, 2 * WIDE * count + 2 * WIDE * blocks)
    if optimizer == SGD and option(card, "momentum") in (None, 0):
        return Range(0, 0, WIDE * count)
    return None
