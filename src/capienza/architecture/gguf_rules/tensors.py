"""The tensor table of a GGUF file as parameters and feed-forward parts.

Shapes have the row length last, as the reader returns them.
Names and what they hold: llama.cpp `LLM_TENSOR_NAMES`, gguf-py `constants.py`.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping

from capienza.architecture.model import Mlp, Parameter, Role
from capienza.errors import InputError, Place, template
from capienza.formats.tensor import Tensor

_BLOCK = re.compile(r"blk\.([0-9]{1,6})\.(.+)", re.ASCII)
_SPLIT_EXPERT = re.compile(r"ffn_down\.([0-9]{1,6})\.weight", re.ASCII)
_ONE_EXPERT = re.compile(r"ffn_(?:gate|up|down)\.[0-9]+\.", re.ASCII)
_NORM = re.compile(r"norm|(?:^|_)ln[0-9]?(?:$|[._])", re.ASCII)
_IN_BLOCK: tuple[tuple[tuple[str, ...], Role], ...] = (
    (("ffn_gate_inp", "exp_probs_b", "ffn_exp_probs_b"), "router"),
    (("ffn_", "channel_mix", "inp_gate", "proj."), "mlp"),
    (("ssm_", "shortconv.", "time_mix"), "state"),
    (("attn_", "indexer"), "attention"),
)
_OUTSIDE: tuple[tuple[tuple[str, ...], Role], ...] = (
    (("token_embd.", "per_layer_token_embd."), "embedding"),
    (("position_embd.", "token_types."), "position"),
    (("output.",), "head"),
    (("v.", "mm.", "a."), "vision"),
)

_DIMENSIONS = {
    "attn_k.weight": 2,
    "attn_v.weight": 2,
    "channel_mix_value.weight": 2,
    "ffn_down.weight": 2,
    "ffn_down_exps.weight": 3,
}

WRONG_DIMENSIONS = template(
    "architecture.gguf-dimensions",
    "the tensor has {found} dimensions; {accepted} are expected",
    "The file is damaged or made for another program: convert the model again.",
)

Shapes = dict[int, dict[str, tuple[int, ...]]]
"""Shapes by block and by name within the block."""


def split_name(name: str) -> tuple[int | None, str]:
    """Block 3 and "attn_q.weight" from "blk.3.attn_q.weight"; outside the blocks the number is None."""
    match = _BLOCK.fullmatch(name)
    return (int(match[1]), match[2]) if match else (None, name)


def block_shapes(tensors: Iterable[Tensor], file: str) -> Shapes:
    """The tensors of each block. Raises `InputError` when one that is measured has another number of dimensions."""
    shapes: Shapes = {}
    for tensor in tensors:
        block, name = split_name(tensor.name)
        if block is None:
            continue
        expected = 2 if _SPLIT_EXPERT.fullmatch(name) else _DIMENSIONS.get(name)
        if expected is not None and len(tensor.shape) != expected:
            message = WRONG_DIMENSIONS(found=len(tensor.shape), accepted=expected)
            raise InputError(message, Place(file, key=tensor.name))
        shapes.setdefault(block, {})[name] = tensor.shape
    return shapes


def is_buffer(parameter: Parameter) -> bool:
    """True for the routing corrections, which no training step changes."""
    return "exp_probs_b" in parameter.name


def is_stored(name: str) -> bool:
    """False for rotary tables and quantisation scales, which the unquantised model computes or does not have."""
    return not (split_name(name)[1].startswith("rope_") or name.endswith((".scale", ".input_scale")))


def as_parameter(tensor: Tensor, recurrent: Container[int | None]) -> Parameter:
    """One tensor with its role; in the `recurrent` blocks the attention names hold the recurrent mixer."""
    block, name = split_name(tensor.name)
    role = _role(name, _OUTSIDE if block is None else _IN_BLOCK)
    if role == "attention" and block in recurrent:
        role = "state"
    return Parameter(tensor.name, tensor.shape, role, block)


def _role(name: str, table: tuple[tuple[tuple[str, ...], Role], ...]) -> Role:
    if _NORM.search(name):
        return "norm"
    if "_exps" in name or _ONE_EXPERT.match(name):
        return "expert"
    return next((role for starts, role in table if name.startswith(starts)), "other")


def mlp_of(shapes: Mapping[str, tuple[int, ...]], experts_per_token: int, shared_experts: int | None) -> Mlp | None:
    """The feed-forward part of one block, from the shapes of its own tensors; None when it has none."""
    stacked = shapes.get("ffn_down_exps.weight")
    split = [shape for name, shape in shapes.items() if _SPLIT_EXPERT.fullmatch(name)]
    if stacked or split:
        return Mlp(
            kind="experts",
            intermediate_size=(stacked or split[0])[-1],
            num_experts=stacked[0] if stacked else len(split),
            num_experts_per_token=experts_per_token,
            num_shared_experts=(shared_experts or 1) if "ffn_down_shexp.weight" in shapes else 0,
        )
    dense = shapes.get("ffn_down.weight")
    if dense is None:
        mixer = shapes.get("channel_mix_value.weight")
        return Mlp(kind="dense", intermediate_size=mixer[-1]) if mixer else None
    return Mlp(kind="dense", intermediate_size=dense[-1])
