"""The model of a training case: its dimensions read as the config.json that they were taken from.

A case names the model and its dimensions, not its class. Legend of the keys of `arch`:
    layers hidden intermediate heads kv_heads head_dim vocab    dimensions, under these names or those of config.json
    params    parameters that are published or recounted; must agree with those of the architecture within 0.1 %
    tie       the head is the embedding; experts, top_k: experts of a layer, and how many a token visits
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from capienza.architecture.model import Architecture
from capienza.architecture.registry import describe
from capienza.errors import InputError, Message, phrase
from capienza.validate import training_reasons as reasons
from capienza.validate.row_check import shown
from capienza.validate.row_model import family_of, row_config
from capienza.validate.training_names import ALIBI, EXTRAS, NO_TEXT, NOT_IN_ROOM, USUAL, family_named, plain

Row = Mapping[str, Any]
COUNT_TOLERANCE = 0.001
LARGEST_DIMENSION = 2**24
LARGEST_DEPTH = 4096
DIMENSIONS = {
    "num_hidden_layers": ("layers", "n_layer", "n_layers", "num_hidden_layers"),
    "hidden_size": ("hidden", "n_embd", "d_model", "hidden_size"),
    "intermediate_size": ("intermediate", "ffn", "d_ff", "n_inner", "intermediate_size"),
    "num_attention_heads": ("heads", "n_head", "n_heads", "num_attention_heads"),
    "num_key_value_heads": ("kv_heads", "n_kv_heads", "num_key_value_heads"),
    "head_dim": ("head_dim",),
    "vocab_size": ("vocab", "vocab_size"),
    "num_experts": ("experts", "n_experts", "num_experts", "num_local_experts"),
    "num_experts_per_tok": ("top_k", "n_experts_per_tok", "num_experts_per_tok"),
    "moe_intermediate_size": ("moe_intermediate", "moe_intermediate_size"),
    "max_position_embeddings": ("context", "max_position_embeddings", "n_positions"),
}
NEEDED = ("num_hidden_layers", "hidden_size", "num_attention_heads", "vocab_size")
WHOLE = phrase("a whole number of at least 1")
_POSITIONS = re.compile(r"\d+", re.ASCII)


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """An architecture, and whether the model's name said its family or only its parameter count did."""

    architecture: Architecture
    family: str
    is_named: bool


def training_model(row: Row) -> Model:
    """The model of a case. Raises `InputError` with the reason why there is none."""
    name, arch = str(row.get("model") or ""), row.get("arch") or {}
    if NO_TEXT.search(plain(name)) or arch.get("patch") or arch.get("input"):
        raise InputError(reasons.NO_LANGUAGE_MODEL(model=name[:80]))
    sizes = dimensions(arch)
    if not sizes:
        is_seen = NOT_IN_ROOM.search(plain(name))
        raise InputError(reasons.NO_LANGUAGE_MODEL(model=name[:80]) if is_seen else reasons.NO_ARCHITECTURE())
    missing = tuple(key for key in NEEDED if key not in sizes)
    if missing:
        raise InputError(reasons.NO_DIMENSIONS(names=tuple(DIMENSIONS[key][0] for key in missing)))
    return _agreeing(name, arch, sizes, stated_count(arch))


def dimensions(arch: Row) -> dict[str, int]:
    """The dimensions by their names in config.json. Raises `InputError` for one that no model has."""
    found: dict[str, int] = {}
    for name, spellings in DIMENSIONS.items():
        key = next((key for key in spellings if arch.get(key) is not None), None)
        if key is not None:
            most = LARGEST_DEPTH if name == "num_hidden_layers" else LARGEST_DIMENSION
            found[name] = _whole(f"arch.{key}", arch[key], most)
    return found


def stated_count(arch: Row) -> int | None:
    """The parameters that a case states. Raises `InputError` for a number that no model has."""
    stated = arch.get("params")
    return None if stated is None else _whole("arch.params", stated, 10**15)


def _whole(key: str, value: Any, most: int) -> int:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 1 <= value <= most or value != int(value):
        raise InputError(reasons.BAD_DIMENSION(key=key, found=shown(value), accepted=WHOLE))
    return int(value)


def _agreeing(name: str, arch: Row, sizes: Mapping[str, int], stated: int | None) -> Model:
    """The first family whose parameters are those that the case states."""
    named = _stated_family(arch) or family_named(name)
    if named is None and stated is None:
        raise InputError(reasons.UNKNOWN_NAME(model=name[:80]))
    why: Message | None = None
    for family in (named,) if named else USUAL:
        try:
            architecture = describe(training_config(family, name, arch, sizes), "arch")
        except InputError as error:
            why = why or reasons.NOT_DESCRIBED(why=error.message)
            continue
        count = architecture.num_parameters
        if stated is None or abs(count - stated) <= COUNT_TOLERANCE * stated:
            return Model(architecture=architecture, family=family, is_named=named is not None)
        why = reasons.OTHER_COUNT(found=count, family=family, stated=stated)
    if named is None or why is None:
        why = reasons.UNKNOWN_FAMILY(model=name[:80], stated=stated)
    raise InputError(why)


def _stated_family(arch: Row) -> str | None:
    """The family where the case names its class or model type after all."""
    stated = arch.get("model_type") or arch.get("architecture")
    return family_of(stated) if isinstance(stated, str) else None


def training_config(family: str, name: str, arch: Row, sizes: Mapping[str, int]) -> dict[str, Any]:
    """The config.json that a case's dimensions stand for."""
    config: dict[str, Any] = {"num_key_value_heads": sizes["num_attention_heads"], **sizes}
    kv_heads = config["num_key_value_heads"]
    config["architecture"] = family
    if isinstance(arch.get("tie"), bool):
        config["tie_word_embeddings"] = arch["tie"]
    positions = _POSITIONS.search(str(arch.get("pos") or ""))
    if positions and int(positions[0]) > 0:
        config["max_position_embeddings"] = min(int(positions[0]), LARGEST_DIMENSION)
    if family == "falcon":
        is_grouped = 1 < kv_heads < sizes["num_attention_heads"]
        config |= {"multi_query": kv_heads == 1, "new_decoder_architecture": is_grouped, "parallel_attn": True}
    if family == "gpt_bigcode":
        config["multi_query"] = kv_heads == 1
    config |= next((more for pattern, more in EXTRAS if re.search(pattern, plain(name))), {})
    if ALIBI.search(plain(name)):
        config["alibi"] = True
    return row_config(config)
