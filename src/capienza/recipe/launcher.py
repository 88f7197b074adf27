"""Configurations of launchers inside a card: `fsdp` and `fsdp_config` of transformers and accelerate, `deepspeed`.

A configuration is keys and values, or the path of a JSON file beside the card. Each of its keys stands for an option of
the recipe, for something that changes no memory, or is told as not understood. "auto" leaves a value to the launcher.
Sources: transformers 5.24 training_args.py (_process_fsdp_args), integrations/deepspeed.py; accelerate 1.15
utils/dataclasses.py (FullyShardedDataParallelPlugin); deepspeed 0.18 runtime/zero/config.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from capienza.card.load import place_of
from capienza.card.model import Card, Scalar
from capienza.card.options import plain_name
from capienza.errors import InputError, Place, template

FSDP, FSDP_CONFIG, DEEPSPEED = "fsdp", "fsdp_config", "deepspeed"
LAUNCHERS = frozenset({FSDP, FSDP_CONFIG, DEEPSPEED})
AUTO = "auto"
MOST_BYTES, MOST_KEYS = 1 << 20, 500

NOT_A_FILE = template(
    "recipe.launcher-file",
    "{found} cannot be read as a configuration in JSON: {reason}",
    "Write the path of a JSON file, seen from the card, or the keys and values themselves.",
)
NOT_KEYS = template(
    "recipe.launcher-keys",
    "{found} is no configuration: expected keys and values",
    "Write them, or the path of a file.",
)
NOT_FSDP = template(
    "recipe.fsdp-words",
    "{found} is no word of fsdp; accepted: {accepted}",
    "Write for example full_shard auto_wrap, or true.",
)
NOT_A_NUMBER = template("recipe.launcher-number", "{field} is {found}; expected a whole number, or auto")
OTHER_THAN_CARD = template(
    "recipe.launcher-other", "{field} says {found}, and {other} of the card is {stated}", "Keep one of the two."
)

WORDS: dict[str, dict[str, Scalar]] = {
    "full_shard": {"fsdp_reshard_after_forward": True},
    "shard_grad_op": {"fsdp_reshard_after_forward": False},
    "hybrid_shard": {"fsdp_reshard_after_forward": True},
    "hybrid_shard_zero2": {"fsdp_reshard_after_forward": False},
    "no_shard": {"shard_ranks": 1},
    "offload": {"fsdp_offload_params": True},
    "auto_wrap": {},
    "true": {},
}
"""What each word of transformers' `fsdp` says."""
OFF = ("", "false", "none", "no")
SIZES: dict[str, str] = {
    "reduce_bucket_size": "bucket_elements",
    "stage3_prefetch_bucket_size": "prefetch_elements",
    "prefetch_bucket_size": "prefetch_elements",
    "stage3_param_persistence_threshold": "persistence_elements",
    "param_persistence_threshold": "persistence_elements",
    "stage3_max_live_parameters": "live_elements",
    "max_live_parameters": "live_elements",
}
KNOWN: dict[str, str] = {
    "zero_optimization.stage": "zero_stage",
    "zero_optimization.offload_optimizer.device": "offload_optimizer",
    "zero_optimization.offload_param.device": "offload_param",
    "zero_optimization.overlap_comm": "overlaps",
    "zero_optimization.stage3_gather_16bit_weights_on_model_save": "saves_whole",
    "zero_optimization.gather_16bit_weights_on_model_save": "saves_whole",
    "bf16.enabled": "bf16",
    "fp16.enabled": "fp16",
    "gradient_clipping": "max_grad_norm",
    **{f"zero_optimization.{key}": option for key, option in SIZES.items()},
}
"""Keys of a DeepSpeed configuration, and the spelling that they are in a card."""
OF_THE_CARD = {"train_micro_batch_size_per_gpu": "microbatch", "gradient_accumulation_steps": "accumulation"}
QUIET = (
    "train_batch_size", "steps_per_print", "wall_clock_breakdown", "scheduler", "optimizer.params", "fp16.",
    "zero_optimization.offload_optimizer.pin_memory", "zero_optimization.offload_param.pin_memory",
    "zero_optimization.contiguous_gradients", "zero_optimization.reduce_scatter",
    "zero_optimization.allgather_partitions", "zero_optimization.round_robin_gradients", "optimizer.type",
    "communication_data_type", "zero_allow_untested_optimizer",
)  # fmt: skip
"""Beginnings of keys that change nothing in these figures, or are what they rest on."""

Said = tuple[str, str, Scalar]
"""The key of the card, the option in plain spelling, its value."""


def is_launcher(name: str, value: Scalar) -> bool:
    """Is it a launcher's configuration? `deepspeed: zero3` is the name of one, and an option like any other."""
    plain = plain_name(name)
    if plain != DEEPSPEED:
        return plain in LAUNCHERS
    return isinstance(value, str) and (value.lstrip().startswith("{") or value.casefold().endswith(".json"))


def said_by(card: Card, name: str, value: Scalar) -> Iterator[Said]:
    """What a launcher's configuration says, option by option. An option that is not known keeps its own key.

    Raises `InputError` with the card's line for a file that cannot be read, and for what no launcher takes.
    """
    field, plain = f"training.{name}", plain_name(name)
    if plain == FSDP:
        yield from _fsdp(card, field, value)
        return
    found = _configuration(card, field, value)
    if plain == FSDP_CONFIG:
        for key, one in _leaves(found):
            option = key if key.startswith("fsdp_") else f"fsdp_{key}"
            yield f"{field}.{key}", option.casefold(), one
        return
    yield from _deepspeed(card, field, dict(_leaves(found)))


def _fsdp(card: Card, field: str, value: Scalar) -> Iterator[Said]:
    words = str(value).casefold().replace(",", " ").replace("[", " ").replace("]", " ").split()
    if not [word for word in words if word not in OFF]:
        return
    yield field, "fsdp_is_on", True
    for word in words:
        if word not in WORDS:
            accepted = tuple(one for one in WORDS if one != "true")
            raise InputError(NOT_FSDP(found=word[:40], accepted=accepted), _place(card, field))
        yield from ((field, option, one) for option, one in WORDS[word].items())


def _deepspeed(card: Card, field: str, found: dict[str, Scalar]) -> Iterator[Said]:
    is_auto = False
    for key, value in found.items():
        where = f"{field}.{key}"
        last = key.rpartition(".")[2]
        if key in OF_THE_CARD:
            _same_as_card(card, where, OF_THE_CARD[key], value)
        elif value == AUTO:
            is_auto = is_auto or last in SIZES
        elif key in KNOWN and last in SIZES:
            yield where, KNOWN[key], _whole(card, where, value)
        elif key in KNOWN:
            yield where, KNOWN[key], value
        elif not key.startswith(QUIET):
            yield where, where.removeprefix("training."), value
    if is_auto:
        yield field, "auto_sizes", True


def _same_as_card(card: Card, where: str, other: str, value: Scalar) -> None:
    stated = card.microbatch if other == "microbatch" else (card.accumulation or 1)
    if value != AUTO and stated is not None and value != stated:
        raise InputError(
            OTHER_THAN_CARD(field=where, found=str(value)[:40], other=other, stated=stated), _place(card, where)
        )


def _whole(card: Card, where: str, value: Scalar) -> int:
    """DeepSpeed's sizes are often written as 5e8."""
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if isinstance(value, bool) or not 0 <= number <= 10**12:
        raise InputError(NOT_A_NUMBER(field=where, found=str(value)[:40]), _place(card, where))
    return int(number)


def _configuration(card: Card, field: str, value: Scalar) -> Any:
    text = str(value)
    if text.lstrip().startswith("{"):
        return json.loads(text)
    path = (Path(card.file).parent if card.file else Path()) / text
    try:
        with path.open("rb") as file:
            # A longer one is cut, and so is no JSON.
            found = json.loads(file.read(MOST_BYTES))
    except (OSError, ValueError, RecursionError) as error:
        reason = (str(getattr(error, "strerror", None) or error).splitlines() or [""])[0]
        raise InputError(NOT_A_FILE(found=text[:200], reason=reason[:120]), _place(card, field)) from error
    if not isinstance(found, dict):
        raise InputError(NOT_KEYS(found=text[:200]), _place(card, field))
    return found


def _leaves(found: dict[str, Any], start: str = "") -> Iterator[tuple[str, Scalar]]:
    """Every value by the path of its key. Lists are texts."""
    for key, value in list(found.items())[:MOST_KEYS]:
        path = f"{start}{key}"
        if isinstance(value, dict):
            yield from _leaves(value, f"{path}.")
        elif isinstance(value, list):
            yield path, " ".join(map(str, value))
        elif value is not None:
            yield path, value


def _place(card: Card, field: str) -> Place:
    return place_of(card.file, field) if card.file else Place(key=field)
