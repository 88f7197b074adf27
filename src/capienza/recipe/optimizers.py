"""Optimizers by the names that cards and frameworks write, as the traits that memory depends on.

Legend: `run` None takes the framework's habit; state_bits 0 is the format of the parameter, 32 is fp32.
Sources: `transformers.training_args.OptimizerNames` and `trainer_optimizer.py` (5.24), `bitsandbytes.optim` (0.50),
`torchao.optim` (0.14), `torch.optim` (2.13), torchtune recipes (0.6).
"""

from __future__ import annotations

from typing import Literal

import msgspec

from capienza.card.options import plain_name
from capienza.recipe.recipe import Family

Run = Literal["foreach", "fused", "loop"]
Library = Literal["torch", "bitsandbytes", "torchao", "transformers"]


class Named(msgspec.Struct, frozen=True, kw_only=True):
    """What an optimizer's name says. `run` None: the name says nothing of it."""

    family: Family
    run: Run | None = None
    state_bits: Literal[0, 4, 8, 32] = 0
    is_paged: bool = False
    in_backward: bool = False
    library: Library = "torch"


def _bnb(family: Family, bits: Literal[8, 32], *, is_paged: bool = False) -> Named:
    return Named(family=family, run="loop", state_bits=bits, is_paged=is_paged, library="bitsandbytes")


def _ao(bits: Literal[4, 8]) -> Named:
    return Named(family="adamw", run="loop", state_bits=bits, library="torchao")


def _projected(family: Family, *, in_backward: bool = False) -> Named:
    return Named(family=family, run="loop", in_backward=in_backward, library="transformers")


NAMES: dict[str, Named] = {
    "adamw": Named(family="adamw"),
    "adam": Named(family="adam"),
    "adamw_torch": Named(family="adamw"),
    "adamw_torch_fused": Named(family="adamw", run="fused"),
    "adamw_hf": Named(family="adamw", run="loop", library="transformers"),
    "adamw_torch_8bit": _ao(8),
    "adamw_torch_4bit": _ao(4),
    "adamw_8bit": _bnb("adamw", 8),
    "adamw_bnb_8bit": _bnb("adamw", 8),
    "adam_8bit": _bnb("adam", 8),
    "adamw_32bit": _bnb("adamw", 32),
    "paged_adamw": _bnb("adamw", 32, is_paged=True),
    "paged_adamw_32bit": _bnb("adamw", 32, is_paged=True),
    "paged_adamw_8bit": _bnb("adamw", 8, is_paged=True),
    "pagedadamw": _bnb("adamw", 32, is_paged=True),
    "pagedadamw8bit": _bnb("adamw", 8, is_paged=True),
    "lion": _bnb("lion", 32),
    "lion_32bit": _bnb("lion", 32),
    "lion_8bit": _bnb("lion", 8),
    "paged_lion_32bit": _bnb("lion", 32, is_paged=True),
    "paged_lion_8bit": _bnb("lion", 8, is_paged=True),
    "rmsprop": Named(family="rmsprop"),
    "rmsprop_bnb": _bnb("rmsprop", 32),
    "rmsprop_bnb_32bit": _bnb("rmsprop", 32),
    "rmsprop_bnb_8bit": _bnb("rmsprop", 8),
    "sgd": Named(family="sgd"),
    "adagrad": Named(family="adagrad"),
    "adafactor": Named(family="adafactor", run="loop", state_bits=32, library="transformers"),
    "muon": Named(family="muon", run="loop"),
    "galore_adamw": _projected("galore_adamw"),
    "galore_adamw_layerwise": _projected("galore_adamw", in_backward=True),
    "apollo_adamw": _projected("apollo_adamw"),
    "apollo_adamw_layerwise": _projected("apollo_adamw", in_backward=True),
}
"""Known optimizers by their plain name. Those of transformers that are not here are refused by name."""

_PREFIXES = ("torch_optim_", "bitsandbytes_optim_", "bnb_optim_", "torchao_optim_", "torch.optim.",
             "bitsandbytes.optim.", "bnb.optim.", "torchao.optim.")  # fmt: skip
_FROM = {
    "torchao": {"adamw8bit": "adamw_torch_8bit", "adamw4bit": "adamw_torch_4bit"},
    "": {"adamw8bit": "adamw_8bit", "adam8bit": "adam_8bit", "lion8bit": "lion_8bit", "pagedlion": "paged_lion_32bit",
         "pagedlion8bit": "paged_lion_8bit"},
}  # fmt: skip


def optimizer_named(name: str) -> Named | None:
    """The traits of a name, also of a class with its module (bitsandbytes.optim.PagedAdamW); None if not known."""
    plain = plain_name(name)
    prefix = next((prefix for prefix in _PREFIXES if plain.startswith(prefix)), "")
    bare = plain.removeprefix(prefix)
    by_class = _FROM["torchao"] if prefix.startswith("torchao") else _FROM[""]
    return NAMES.get(by_class.get(bare, bare))
