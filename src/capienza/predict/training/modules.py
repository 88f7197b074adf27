"""The tensors of a model as the training program makes them: one for each module of the release that runs.

Legend: E experts, I their inner size, h hidden size. transformers 5 fuses the experts of a layer into two tensors
[E, 2 I, h] and [E, h, I]; before, each expert had three linear modules of its own, which a quantisation and adapters
took like any other. Sources: transformers 4.48 modeling_mixtral.py, modeling_qwen2_moe.py; 5.24 the same files.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import msgspec

from capienza.architecture.model import Architecture, Parameter, Role
from capienza.predict.training.releases import release
from capienza.recipe.recipe import Recipe

FUSED_SINCE = (5,)
ALWAYS_FUSED = frozenset({"dbrx", "gpt_oss", "granitemoe", "jetmoe", "llama4_text"})
"""Models whose experts were fused in every release."""
UNTIED_HEAD = "lm_head.weight"
NUMBERED = frozenset({"mixtral", "phimoe", "minimax"})
"""Models whose experts' modules are called w1, w2 and w3."""


class Piece(msgspec.Struct, frozen=True):
    """One tensor of the unquantised model, `count` times over (the experts of a layer are alike).

    `shape` is [out, in], with `transposed` [in, out]; fused experts have a dimension more in front. `kind` is the name
    without the layer's number: pieces of one kind stand alike in every layer.
    """

    name: str
    shape: tuple[int, ...]
    role: Role
    layer: int | None
    kind: str
    transposed: bool = False
    count: int = 1

    @property
    def elements(self) -> int:
        """Elements of one of them."""
        return math.prod(self.shape)

    @property
    def module(self) -> str:
        """The last name of the module that it belongs to: what an adapter's target names."""
        return self.name.removesuffix(".weight").rpartition(".")[2] if self.is_linear else ""

    @property
    def is_linear(self) -> bool:
        """Is it the matrix of a module?"""
        return len(self.shape) == 2 and self.name.endswith(".weight") and self.role not in ("norm", "position")


def pieces(architecture: Architecture, recipe: Recipe) -> tuple[Piece, ...]:
    """All the tensors that the program holds as parameters: a tied head once, and LitGPT's copy of it (model.py)."""
    is_apart = architecture.model_type not in ALWAYS_FUSED and release(recipe, "transformers") < FUSED_SINCE
    made: list[Piece] = []
    for one in architecture.parameters:
        name, shape, role = one.name, one.shape, one.role
        if is_apart and role == "expert" and len(shape) == 3 and not one.transposed:
            made.extend(_experts(one, architecture.model_type))
        else:
            if recipe.added_tokens and role in ("embedding", "head") and shape[0] == architecture.vocab_size:
                shape = (shape[0] + recipe.added_tokens, *shape[1:])
            made.append(Piece(name, shape, role, one.layer, _kind(name, one.layer), one.transposed))
    if recipe.kernels == "litgpt" and architecture.tied_head:
        tables = [one for one in made if one.role == "embedding"]
        made += [Piece(UNTIED_HEAD, one.shape, "head", None, UNTIED_HEAD) for one in tables]
    return tuple(made)


def alike(made: Iterable[Piece]) -> tuple[Piece, ...]:
    """One piece of each kind and shape, with how many there are: the layers of a model repeat themselves."""
    found: dict[tuple[str, tuple[int, ...]], Piece] = {}
    counts: dict[tuple[str, tuple[int, ...]], int] = {}
    for one in made:
        key = one.kind, one.shape
        if key in counts:
            counts[key] += one.count
        else:
            found[key], counts[key] = one, one.count
    return tuple(msgspec.structs.replace(one, count=counts[key]) for key, one in found.items())


def _kind(name: str, layer: int | None) -> str:
    return name if layer is None else name.partition(f".{layer}.")[2]


def stored_buffers(architecture: Architecture) -> tuple[Piece, ...]:
    """What is stored with the parameters and never trained."""
    return tuple(
        Piece(one.name, one.shape, one.role, one.layer, _kind(one.name, one.layer)) for one in architecture.buffers
    )


def _experts(one: Parameter, model_type: str) -> Iterator[Piece]:
    count, rows, columns = one.shape
    prefix = one.name.rpartition(".")[0]
    names = ("w1", "w3", "w2") if model_type in NUMBERED else ("gate_proj", "up_proj", "down_proj")
    if "gate_up" in one.name:
        for name in names[:2]:
            yield _expert(one, f"{prefix}.*.{name}.weight", (rows // 2, columns), count)
    else:
        yield _expert(one, f"{prefix}.*.{names[2]}.weight", (rows, columns), count)


def _expert(one: Parameter, name: str, shape: tuple[int, int], count: int) -> Piece:
    return Piece(name, shape, one.role, one.layer, _kind(name, one.layer), count=count)
