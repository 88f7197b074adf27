"""Qwen4-Exp, text side: gated delta and block-sparse attention in turn, several residual streams, n-gram tables.

A layer with a table keeps the history of a dilated convolution as well; the token ids it also keeps are a few bytes
and are not counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import msgspec

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import layer_types, read_heads
from capienza.architecture.indexer import INDEXED
from capienza.architecture.mixers import read_gated_delta
from capienza.architecture.model import Architecture, Attention, State, StatePart
from capienza.architecture.ngram_tables import primes_from
from capienza.architecture.pieces import Piece, linear, norm
from capienza.architecture.qwen_hybrid import ForwardPart, gated_attention, mixture_part
from capienza.architecture.reading import Config
from capienza.errors import phrase

LINEAR = "linear_attention"
MAX_NGRAM, MAX_HEADS, MAX_TABLE_HEADS = 32, 1024, 4096


class Streams(msgspec.Struct, frozen=True):
    """The residual streams: how many, and the bottleneck of the weights that mix them."""

    hidden: int
    count: int
    rank: int

    @property
    def width(self) -> int:
        """Elements of all streams."""
        return self.hidden * self.count

    def mixer(self, name: str, *, inject: bool = True) -> list[Piece]:
        """From all streams to the input of a block, and back to each of them when it injects."""
        return [
            *norm(f"{name}.hc_norm", self.width),
            *linear(f"{name}.input_mix_weight_down", self.rank, self.width, "other"),
            *linear(f"{name}.input_mix_weight_up", self.width, self.rank, "other"),
            *(linear(f"{name}.block_inject_weight", self.count, self.width, "other") if inject else []),
        ]


class Table(msgspec.Struct, frozen=True):
    """The tensors of a layer's n-gram table and its history."""

    pieces: Sequence[Piece]
    buffers: Sequence[Piece]
    history: StatePart


def build(config: Config) -> Architecture:
    """Every fourth layer attends, unless `layer_types` or `full_attention_interval` say otherwise."""
    frame = read_frame(
        config, hidden_size=2048, num_hidden_layers=40, vocab_size=248_320, max_position_embeddings=32768
    )
    hidden = frame.hidden_size
    part = mixture_part(config, hidden, num_experts=512, per_token=10)
    streams = Streams(hidden, config.integer("hc_count", 4, minimum=2), config.integer("hc_lowrank", 320))
    kinds = _kinds(config, frame.num_layers)
    tables = _tables(config, streams, kinds)
    common = [*part.pieces, *streams.mixer("attn_hyper_connection"), *streams.mixer("mlp_hyper_connection")]
    delta = read_gated_delta(config, hidden).mixer("linear_attn", fused=False)
    attention, attending = _attention(config, hidden) if INDEXED in kinds else (None, [])
    blocks = []
    for index, kind in enumerate(kinds):
        if kind == INDEXED:
            blocks.append(Block(attention=attention, mlp=part.mlp, pieces=[*attending, *common]))
        else:
            blocks.append(_linear_block(part, [*delta.pieces, *common], delta.state, tables.get(index)))
    return assemble(config, frame, blocks, after=streams.mixer("model.hyper_connection_mixer", inject=False))


def _linear_block(part: ForwardPart, pieces: Sequence[Piece], state: State, table: Table | None) -> Block:
    """A gated delta layer, with its table when it has one."""
    if table is None:
        return Block(state=state, mlp=part.mlp, pieces=pieces)
    kept = State(state.kind, (*state.parts, table.history))
    return Block(state=kept, mlp=part.mlp, pieces=[*pieces, *table.pieces], buffers=table.buffers)


def _kinds(config: Config, num_layers: int) -> tuple[str, ...]:
    """The kind of every layer; full attention is block-sparse here."""
    interval = config.optional("full_attention_interval") or 4
    kinds = layer_types(
        config,
        num_layers,
        lambda index: LINEAR if (index + 1) % interval else INDEXED,
        {LINEAR, INDEXED, "full_attention"},
    )
    return tuple(LINEAR if kind == LINEAR else INDEXED for kind in kinds)


def _attention(config: Config, hidden: int) -> tuple[Attention, list[Piece]]:
    """Gated attention and its indexer, whose keys stay in the cache."""
    heads = read_heads(config, hidden, num_attention_heads=16, num_key_value_heads=2, head_dim=256)
    count, width = config.integer("indexer_n_heads"), config.integer("indexer_head_dim")
    keys = config.integer("indexer_kv_heads")
    if keys != 1:
        config.broken_rule("indexer_kv_heads", keys, "indexer_kv_heads == 1")
    pieces = [
        *gated_attention(config, heads, hidden),
        *linear("self_attn.indexer.index_qk_proj", (count + keys) * width, hidden, "attention"),
        *norm("self_attn.indexer.q_layernorm", width),
        *norm("self_attn.indexer.k_layernorm", width),
    ]
    return msgspec.structs.replace(heads.attention(), index_width=width), pieces


def _tables(config: Config, streams: Streams, kinds: Sequence[str]) -> dict[int, Table]:
    """The tables by layer; `ple_layer_ids` counts the layers from 1."""
    ids = sorted(set(config.integers("ple_layer_ids", minimum=1, maximum=len(kinds)) or ()))
    for number in ids:
        if kinds[number - 1] != LINEAR:
            config.broken_rule("ple_layer_ids", number, f"layer_types[{number - 1}] == {LINEAR}")
    if not ids:
        return {}
    reach = config.integer("ngram_size", 3, minimum=2, maximum=MAX_NGRAM)
    heads = (reach - 1) * config.integer("heads_per_ngram", 8, maximum=MAX_HEADS)
    width = config.optional("ple_embed_dim") or streams.hidden
    if width % heads:
        config.broken_rule("ple_embed_dim", width, f"ple_embed_dim % {heads} == 0")
    if heads * len(ids) > MAX_TABLE_HEADS:
        direction = phrase("more tables would make the weights larger")
        config.not_understood("ple_layer_ids", ids, f"{MAX_TABLE_HEADS} // {heads}", direction)
    primes = primes_from(config.integer("ngram_vocab_size_base", 20_000_000))
    multiple = config.integer("make_ngram_vocab_size_divisible_by", 128)
    kernel = config.integer("ple_conv_kernel_size", 4, minimum=2)
    tables = {}
    for number in ids:
        rows = sum(islice(primes, heads))
        padded = -(-rows // multiple) * multiple
        tables[number - 1] = _table(streams, width, heads, padded, reach=reach, kernel=kernel)
    return tables


def _table(streams: Streams, width: int, heads: int, rows: int, *, reach: int, kernel: int) -> Table:
    """One table: its embedding, its projections to the streams, and a convolution as far apart as the n-grams."""
    name = "ple.ple_embedding"
    pieces: list[Piece] = [
        (f"{name}.ngram_embedding.weight", (rows, width // heads), "embedding"),
        *linear("ple.key_proj", streams.width, width, "other"),
        *linear("ple.value_proj", streams.hidden, width, "other"),
        *(piece for part in ("key", "query", "conv") for piece in norm(f"ple.norm_{part}", streams.width)),
        ("ple.conv1d.weight", (streams.width, 1, kernel), "state"),
    ]
    buffers: list[Piece] = [
        (f"{name}.layer_multipliers", (reach,), "embedding"),
        (f"{name}.ngram_heads_vocab_sizes", (heads,), "embedding"),
        (f"{name}.ngram_heads_offsets", (heads,), "embedding"),
    ]
    return Table(pieces, buffers, StatePart("history", ((kernel - 1) * reach, streams.width)))
