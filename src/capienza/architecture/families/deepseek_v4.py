"""DeepSeek V4: windows beside compressed caches, keys that are their own values, hyper-connections, hashed experts.

A layer keeps its window once for K and V, and in `compressed_sparse` layers one entry for a few tokens, each entry
made from two groups, with an indexer that does the same; in `heavily_compressed` ones one entry for many tokens.
Source: the cache layers of modeling_deepseek_v4 of transformers 5.24. Plain windowed layers keep K and V apart there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

import msgspec

from capienza.architecture.assembly import assemble
from capienza.architecture.forward_parts import CORRECTION, Forward, layer_block, note_prediction_layers, sparse_forward
from capienza.architecture.frame import read_frame
from capienza.architecture.model import Architecture, Attention, Compression
from capienza.architecture.pieces import Piece, gated_mlp, linear, norm, read_experts
from capienza.architecture.reading import Config
from capienza.errors import phrase

SLIDING, SPARSE, HEAVY = "sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"
RATIOS = {0: SLIDING, 4: SPARSE, 128: HEAVY}
RATES = {SPARSE: ("compress_rate_csa", 4), HEAVY: ("compress_rate_hca", 128)}
HASHED, ROUTED = "hash_moe", "moe"
STREAM_SCALES = 3


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """What the attention of every layer shares; a group's head of the indexer has `index_dim` elements."""

    hidden: int
    heads: int
    head_dim: int
    query_rank: int
    groups: int
    output_rank: int
    window: int
    index_heads: int
    index_dim: int
    rates: Mapping[str, int]

    def attention(self, kind: str) -> Attention:
        """The cache of one kind of layer."""
        if kind == SLIDING:
            return self._attention("sliding", ())
        rate, width = self.rates[kind], self.head_dim
        if kind == HEAVY:
            return self._attention("latent", (Compression(rate=rate, width=width, pending=2 * width),))
        return self._attention("latent", tuple(_overlapping(rate, width) for width in (self.head_dim, self.index_dim)))

    def _attention(self, kind: Literal["sliding", "latent"], compressions: tuple[Compression, ...]) -> Attention:
        return Attention(
            kind=kind,
            num_attention_heads=self.heads,
            num_key_value_heads=1,
            key_head_dim=self.head_dim,
            value_head_dim=self.head_dim,
            window=self.window,
            latent_width=self.head_dim if kind == "latent" else 0,
            compressions=compressions,
        )

    def pieces(self, kind: str) -> list[Piece]:
        """Compressed queries, one key that is the value as well, and an output in groups."""
        name, width = "self_attn", self.heads * self.head_dim
        pieces: list[Piece] = [
            *linear(f"{name}.q_a_proj", self.query_rank, self.hidden, "attention"),
            *norm(f"{name}.q_a_norm", self.query_rank),
            *linear(f"{name}.q_b_proj", width, self.query_rank, "attention"),
            *linear(f"{name}.kv_proj", self.head_dim, self.hidden, "attention"),
            *norm(f"{name}.kv_norm", self.head_dim),
            *linear(f"{name}.o_a_proj", self.groups * self.output_rank, width // self.groups, "attention"),
            *linear(f"{name}.o_b_proj", self.hidden, self.groups * self.output_rank, "attention"),
            (f"{name}.sinks", (self.heads,), "attention"),
        ]
        if kind == SLIDING:
            return pieces
        name = f"{name}.compressor"
        if kind == HEAVY:
            return [*pieces, *self._compressor(name, HEAVY, self.head_dim, series=1)]
        index = f"{name}.indexer"
        return [
            *pieces,
            *self._compressor(name, SPARSE, self.head_dim, series=2),
            *self._compressor(index, SPARSE, self.index_dim, series=2),
            *linear(f"{index}.q_b_proj", self.index_heads * self.index_dim, self.query_rank, "attention"),
            *linear(f"{index}.scorer.weights_proj", self.index_heads, self.hidden, "attention"),
        ]

    def _compressor(self, name: str, kind: str, width: int, *, series: int) -> list[Piece]:
        return [
            *linear(f"{name}.kv_proj", series * width, self.hidden, "attention"),
            *linear(f"{name}.gate_proj", series * width, self.hidden, "attention"),
            (f"{name}.position_bias", (self.rates[kind], series * width), "position"),
            *norm(f"{name}.kv_norm", width),
        ]


def _overlapping(rate: int, width: int) -> Compression:
    """Two series of values and of gates for each waiting token; of the last group one series of both is carried.

    The gates are carried with their positions, which are fp32.
    """
    return Compression(rate=rate, width=width, pending=4 * width, carried=rate * width, carried_fp32=rate * width)


def build(config: Config) -> Architecture:
    """Layers as `layer_types` and `mlp_layer_types` say, or the older `compress_ratios` and `num_hash_layers`."""
    config = config.with_aliases(
        n_routed_experts="num_local_experts",
        moe_intermediate_size="intermediate_size",
        num_nextn_predict_layers="num_mtp_layers",
    )
    frame = read_frame(
        config, hidden_size=4096, num_hidden_layers=43, vocab_size=129_280, max_position_embeddings=1_048_576
    )
    hidden, layers = frame.hidden_size, frame.num_layers
    sizes = _read_sizes(config, hidden)
    kinds = _listed(config, "layer_types", layers, RATES.keys() | {SLIDING}) or _older_kinds(config, layers)
    mlps = _listed(config, "mlp_layer_types", layers, {HASHED, ROUTED})
    if mlps is None:
        hashed = config.integer("num_hash_layers", 3, minimum=0)
        mlps = [HASHED if index < hashed else ROUTED for index in range(layers)]
    streams = config.integer("hc_mult", 4)
    wide = (2 + streams) * streams
    connections: list[Piece] = [
        piece
        for part in ("attn_hc", "ffn_hc")
        for piece in _hyper(f"{part}.", ("fn", "base", "scale"), wide, streams * hidden, STREAM_SCALES)
    ]
    forwards = _forwards(config, hidden, frame.vocab_size)
    note_prediction_layers(config, default=1)
    made = {kind: (sizes.attention(kind), [*sizes.pieces(kind), *connections]) for kind in set(kinds)}
    blocks = [
        layer_block(hidden, forwards[mlp], made[kind][1], attention=made[kind][0])
        for kind, mlp in zip(kinds, mlps, strict=True)
    ]
    last = _hyper("model.hc_head.hc_", ("fn", "base", "scale"), streams, streams * hidden, 1)
    return assemble(config, frame, blocks, after=[*norm("model.norm", hidden), *last])


def _hyper(prefix: str, names: tuple[str, str, str], rows: int, columns: int, scales: int) -> list[Piece]:
    """The weights that mix the streams of the residual."""
    shapes = ((rows, columns), (rows,), (scales,))
    return [(f"{prefix}{name}", shape, "other") for name, shape in zip(names, shapes, strict=True)]


def _read_sizes(config: Config, hidden: int) -> Sizes:
    kv_heads = config.optional("num_key_value_heads")
    if kv_heads not in (None, 1):
        config.broken_rule("num_key_value_heads", kv_heads, "num_key_value_heads == 1")
    heads, size = config.dimension("num_attention_heads", 64), config.integer("head_dim", 512)
    groups = config.integer("o_groups", 8)
    if heads * size % groups:
        config.broken_rule("o_groups", groups, f"{heads} * {size} % o_groups == 0")
    own = config.section("compress_rates") or Config({}, config.file, parent=config)
    return Sizes(
        hidden=hidden,
        heads=heads,
        head_dim=size,
        query_rank=config.integer("q_lora_rank", 1024),
        groups=groups,
        output_rank=config.integer("o_lora_rank", 1024),
        window=config.integer("sliding_window", 128),
        index_heads=config.integer("index_n_heads", 64),
        index_dim=config.integer("index_head_dim", 128),
        rates={kind: config.optional(key) or own.integer(kind, default) for kind, (key, default) in RATES.items()},
    )


def _listed(config: Config, key: str, layers: int, accepted: Collection[str]) -> list[str] | None:
    """The kinds of the layers as a list states them; the class leaves out those after the last layer."""
    stated = config.texts(key)
    if stated is None:
        return None
    if len(stated) < layers:
        config.broken_rule(key, stated, f"len({key}) >= {layers}")
    for index, kind in enumerate(stated[:layers]):
        if kind not in accepted:
            direction = phrase("another kind of layer may keep less cache, or a state of its own")
            config.not_understood(f"{key}[{index}]", kind, ", ".join(sorted(accepted)), direction)
    return list(stated[:layers])


def _older_kinds(config: Config, layers: int) -> list[str]:
    """The kinds that the ratios of the published files mean; without them two heavy layers, then both in turn."""
    key = "compress_ratios"
    ratios = config.integers(key)
    if ratios is None:
        return [SPARSE if index >= 2 and index % 2 else HEAVY for index in range(layers)]
    if len(ratios) < layers:
        config.broken_rule(key, ratios, f"len({key}) >= {layers}")
    for index, ratio in enumerate(ratios):
        if ratio not in RATIOS:
            direction = phrase("another kind of layer may keep less cache, or a state of its own")
            config.not_understood(f"{key}[{index}]", ratio, ", ".join(map(str, RATIOS)), direction)
    return [RATIOS[ratio] for ratio in ratios[:layers]]


def _forwards(config: Config, hidden: int, vocab: int) -> dict[str, Forward]:
    """Experts that a router chooses, or a table that gives each token of the vocabulary its own; one is shared."""
    shared = config.optional("n_shared_experts")
    if shared not in (None, 1):  # the class builds one, whatever the number
        config.contradiction("n_shared_experts", shared, "1")
    width = config.dimension("moe_intermediate_size", 2048)
    experts, chosen = read_experts(config, "n_routed_experts", 256, per_token=6)
    beside = gated_mlp(hidden, width, bias=config.flag("mlp_bias", default=False), name="mlp.shared_experts")
    routed = sparse_forward(hidden, width, experts, chosen, shared=1, shared_pieces=beside, correction=CORRECTION)
    table: Sequence[Piece] = [("mlp.gate.tid2eid", (vocab, chosen), "router")]
    return {ROUTED: routed, HASHED: Forward(routed.mlp, routed.pieces, table)}
