"""Which rank holds what: tensor, pipeline and expert parallelism of one copy of a model.

Legend: t tensor-parallel ranks, p pipeline stages, e expert-parallel ranks; a rank holds one stage's layers, each
divided t ways. Heads: H query heads, K key-value heads. Per rank and layer
    query, output, MLP, experts, state   1/t of the matrix (rows of the first projection, columns of the second)
    keys and values                      max(1, K/t) heads: with more ranks than heads each head is held t/K times
    latent down-projections, norms, routers, positions, biases added after a reduction   whole on every rank
    embedding and head                   1/t of a vocabulary padded to a multiple of `vocab_multiple`
Stages: layers are dealt evenly; those left over go one each to the stages before the last, from behind.
Source: vLLM 0.11 and SGLang 0.5 parallel linear layers and `get_pp_indices`; checked on the logged weights of ranks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator

import msgspec

from capienza.architecture.model import Architecture, Attention, Parameter
from capienza.errors import InputError, Place, template

HEADS_NOT_DIVISIBLE = template(
    "predict.heads-not-divisible",
    "{heads} attention heads cannot be shared out to {ranks} tensor-parallel ranks",
    "choose a tensor_parallel that divides num_attention_heads: {accepted}",
)
KV_HEADS_NOT_DIVISIBLE = template(
    "predict.kv-heads-not-divisible",
    "{heads} key-value heads can neither be shared out to {ranks} tensor-parallel ranks nor copied evenly",
    "choose a tensor_parallel that divides num_key_value_heads or is a multiple of it: {accepted}",
)
TOO_MANY_STAGES = template(
    "predict.too-many-stages",
    "{layers} layers cannot fill {stages} pipeline stages",
    "choose a pipeline_parallel of at most {layers}",
)
EXPERTS_NOT_DIVISIBLE = template(
    "predict.experts-not-divisible",
    "{experts} experts cannot be shared out to {ranks} expert-parallel ranks",
    "choose an expert_parallel that divides the number of experts: {accepted}",
)
MORE_THAN_RANKS = template(
    "predict.more-expert-ranks-than-gpus",
    "{found} expert-parallel ranks are more than the {ranks} GPUs of all copies",
    "choose an expert_parallel of at most tensor_parallel x pipeline_parallel x data_parallel",
)
REPLICATED_ROLES = frozenset({"norm", "router", "position", "other"})
LATENT_DOWN = ("q_a_proj", "kv_a_proj", "indexer", "kv_a_layernorm", "q_a_layernorm", "fused_qkv_a_proj")
KEY_VALUE = ("k_proj", "v_proj", "key_proj", "value_proj", ".k.", ".v.")
FUSED_QKV = ("qkv_proj", "query_key_value", "c_attn", "wqkv", "w_pack", "qkv")
AFTER_REDUCTION = ("o_proj.bias", "down_proj.bias", "c_proj.bias", "out_proj.bias", "dense.bias", "fc2.bias",
                   "dense_4h_to_h.bias", "wo.bias")  # fmt: skip


class Split(msgspec.Struct, frozen=True, kw_only=True):
    """How one copy is divided. `expert_parallel` 1 means that experts are cut like any other matrix.

    `shards_vision` is true where the engine also cuts the vision side.
    """

    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    expert_parallel: int = 1
    data_parallel: int = 1
    vocab_multiple: int = 64
    shards_vision: bool = False

    @property
    def ranks(self) -> int:
        """GPUs of one copy."""
        return self.tensor_parallel * self.pipeline_parallel


class RankWeights(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes that one rank of a stage holds. `replicated_bytes` is the part that every rank of the stage holds whole."""

    stage: int
    layers: range
    sharded_bytes: int
    replicated_bytes: int

    @property
    def total_bytes(self) -> int:
        """All of it."""
        return self.sharded_bytes + self.replicated_bytes


def stages(num_layers: int, pipeline_parallel: int) -> tuple[range, ...]:
    """The layers of each pipeline stage. Raises `InputError` when a stage would be empty."""
    if pipeline_parallel > num_layers:
        raise InputError(TOO_MANY_STAGES(layers=num_layers, stages=pipeline_parallel), _place("pipeline_parallel"))
    sizes = [num_layers // pipeline_parallel] * pipeline_parallel
    for behind in range(num_layers % pipeline_parallel):
        sizes[-2 - behind if pipeline_parallel > 1 else -1] += 1
    starts = [sum(sizes[:index]) for index in range(pipeline_parallel)]
    return tuple(range(start, start + size) for start, size in zip(starts, sizes, strict=True))


def check_split(architecture: Architecture, split: Split) -> None:
    """Raises `InputError` naming the first property of the model that the split cannot divide."""
    ranks = split.tensor_parallel
    for attention in dict.fromkeys(layer.attention for layer in architecture.layers if layer.attention):
        heads, kv_heads = attention.num_attention_heads, attention.num_key_value_heads
        if heads % ranks:
            accepted = _listed(_divisors(heads))
            raise InputError(HEADS_NOT_DIVISIBLE(heads=heads, ranks=ranks, accepted=accepted), _place())
        if attention.kind != "latent" and kv_heads % ranks and ranks % kv_heads:
            accepted = _listed(n for n in _divisors(heads) if kv_heads % n == 0 or n % kv_heads == 0)
            raise InputError(KV_HEADS_NOT_DIVISIBLE(heads=kv_heads, ranks=ranks, accepted=accepted), _place())
    for experts in dict.fromkeys(layer.mlp.num_experts for layer in architecture.layers if layer.mlp):
        if experts and experts % split.expert_parallel:
            message = EXPERTS_NOT_DIVISIBLE(
                experts=experts, ranks=split.expert_parallel, accepted=_listed(_divisors(experts))
            )
            raise InputError(message, _place("expert_parallel"))
    if split.expert_parallel > split.ranks * split.data_parallel:
        message = MORE_THAN_RANKS(found=split.expert_parallel, ranks=split.ranks * split.data_parallel)
        raise InputError(message, _place("expert_parallel"))
    stages(len(architecture.layers), split.pipeline_parallel)


def kv_heads_on_rank(attention: Attention, tensor_parallel: int) -> int:
    """Key-value heads that one rank holds."""
    return max(1, attention.num_key_value_heads // tensor_parallel)


def rank_weights(
    architecture: Architecture, held: Iterable[tuple[Parameter, int]], split: Split
) -> tuple[RankWeights, ...]:
    """The weights of one rank of each stage; `held` gives each parameter with the bytes that hold it.

    With one stage a tied head is the embedding; with several the last stage holds a copy of it.
    """
    ranges = stages(len(architecture.layers), split.pipeline_parallel)
    stage_of = {layer: stage for stage, layers in enumerate(ranges) for layer in layers}
    sharded, replicated = [0] * len(ranges), [0] * len(ranges)
    share = shares_of(architecture, split)
    for parameter, size in held:
        part = share(parameter, size)
        whole = part == size and split.tensor_parallel > 1
        for stage in _stages_of(architecture, parameter, stage_of, len(ranges)):
            (replicated if whole else sharded)[stage] += part
    return tuple(
        RankWeights(stage=stage, layers=layers, sharded_bytes=sharded[stage], replicated_bytes=replicated[stage])
        for stage, layers in enumerate(ranges)
    )


def shares_of(architecture: Architecture, split: Split) -> Callable[[Parameter, int], int]:
    """`share_on_rank` for one model and split; equal tensors of equal layers are looked at once."""
    known: dict[tuple[object, ...], int] = {}

    def share(parameter: Parameter, size_bytes: int) -> int:
        layer = parameter.layer
        if layer is None or split.tensor_parallel == 1:
            return share_on_rank(architecture, parameter, size_bytes, split)
        inner = parameter.name.partition(f".{layer}.")[2]
        key = (inner, size_bytes, id(architecture.layers[layer].attention))
        found = known.get(key)
        if found is None:
            found = known[key] = share_on_rank(architecture, parameter, size_bytes, split)
        return found

    return share


def share_on_rank(architecture: Architecture, parameter: Parameter, size_bytes: int, split: Split) -> int:
    """Bytes of one parameter of `size_bytes` that a rank of its stage holds."""
    ranks = split.tensor_parallel
    role, name = parameter.role, parameter.name
    if role in ("embedding", "head") and parameter.shape[0] == architecture.vocab_size:
        padded = math.ceil(architecture.vocab_size / split.vocab_multiple) * split.vocab_multiple
        return -(-size_bytes * padded // (architecture.vocab_size * ranks))
    if ranks == 1 or role in REPLICATED_ROLES or (role == "vision" and not split.shards_vision):
        return size_bytes
    if role == "attention":
        return _attention_share(architecture, parameter, size_bytes, ranks)
    if name.endswith(AFTER_REDUCTION):
        return size_bytes
    return -(-size_bytes // ranks)


def _attention_share(architecture: Architecture, parameter: Parameter, size_bytes: int, ranks: int) -> int:
    attention = None if parameter.layer is None else architecture.layers[parameter.layer].attention
    name = parameter.name.lower()
    if attention is None:
        return -(-size_bytes // ranks)
    if len(parameter.shape) == 1 and (name.endswith(AFTER_REDUCTION) or "norm" in name):
        return size_bytes
    if attention.kind == "latent":
        return size_bytes if any(part in name for part in LATENT_DOWN) else -(-size_bytes // ranks)
    kv_heads = attention.num_key_value_heads
    copies = kv_heads_on_rank(attention, ranks) * ranks
    if any(part in name for part in FUSED_QKV):
        whole = attention.num_attention_heads + 2 * kv_heads
        return -(-size_bytes * (attention.num_attention_heads + 2 * copies) // (whole * ranks))
    if any(part in name for part in KEY_VALUE):
        return -(-size_bytes * copies // (kv_heads * ranks))
    return -(-size_bytes // ranks)


def _stages_of(architecture: Architecture, parameter: Parameter, stage_of: dict[int, int], count: int) -> Iterator[int]:
    if parameter.layer is not None:
        yield stage_of[parameter.layer]
        return
    if parameter.role in ("embedding", "position", "vision"):
        yield 0
        if parameter.role == "embedding" and architecture.tied_head and count > 1:
            yield count - 1
        return
    yield count - 1


def _divisors(number: int) -> tuple[int, ...]:
    return tuple(candidate for candidate in range(1, number + 1) if number % candidate == 0)


def _listed(numbers: Iterable[int]) -> tuple[str, ...]:
    return tuple(str(number) for number in numbers)


def _place(key: str = "tensor_parallel") -> Place:
    return Place(key=f"placement.{key}")
