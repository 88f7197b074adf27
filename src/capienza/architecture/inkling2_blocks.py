"""The layers of Inkling 2: clipped queries and keys, a gate and a sink, residuals that attend to earlier blocks.

A full layer makes the weights of its key and value convolutions from the input; a windowed one has fixed ones.
A layer that a loop runs again has gates for the messages of the pass before.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from capienza.architecture.assembly import Block
from capienza.architecture.forward_parts import CORRECTION, Forward, layer_block, sparse_forward
from capienza.architecture.frame import Frame
from capienza.architecture.inkling_parts import LayerKind, histories, read_kinds, sliding_flags
from capienza.architecture.mixers import convolution
from capienza.architecture.pieces import Piece, linear, norm, read_experts
from capienza.architecture.reading import Config

FULL_INPUTS = ("q", "k", "v")
MESSAGES = ("q", "k", "v", "mlp")


class Inkling2(msgspec.Struct, frozen=True):
    """What all layers share; `gate_rank` is the bottleneck of the message gates."""

    hidden: int
    kernel: int
    relative: int
    forward: Forward
    passes: int = 1
    gate_rank: int = 0

    def block(self, kind: LayerKind, *, first: bool, looped: bool) -> Block:
        """One layer; the first has no earlier block to attend to."""
        full = kind.window is None
        hidden, passes = self.hidden, self.passes if looped else 1
        queries = (len(FULL_INPUTS), hidden) if full else (hidden,)
        inputs: list[Piece] = [] if first else [("attention_input.query", queries, "attention")]
        pieces = [
            *inputs,
            ("mlp_input.query", (hidden,), "attention"),
            *self._attention(kind),
            *convolution("post_attention_convolution.conv1d", hidden, self.kernel, bias=False),
            *convolution("post_mlp_convolution.conv1d", hidden, self.kernel, bias=False),
            *(self._messages() if looped else []),
        ]
        names = [f"{part}_input_layernorm" for part in FULL_INPUTS] if full else ["input_layernorm"]
        attention = kind.heads.attention() if full else kind.heads.attention("sliding", kind.window)
        return layer_block(
            hidden,
            self.forward,
            pieces,
            attention=msgspec.structs.replace(attention, passes=passes),
            state=histories(kind, hidden, self.kernel, passes),
            norms=[piece for name in (*names, "post_attention_layernorm") for piece in norm(name, hidden)],
        )

    def _attention(self, kind: LayerKind) -> list[Piece]:
        heads, hidden, name = kind.heads, self.hidden, "self_attn"
        count = heads.num_attention_heads
        bias = f"{name}.relative_position_bias"
        return [
            *linear(f"{name}.q_proj.linear", heads.query_width, hidden, "attention"),
            (f"{name}.q_proj.norm.scale", (count, heads.head_dim), "norm"),
            *(piece for part in ("k_proj", "v_proj") for piece in self._key_or_value(kind, f"{name}.{part}")),
            *linear(f"{name}.o_proj.gate_proj", heads.query_width, hidden, "attention"),
            *linear(f"{name}.o_proj.linear", hidden, heads.query_width, "attention"),
            *linear(f"{name}.sink_proj", count, hidden, "attention"),
            (f"{bias}.proj", (self.relative, kind.reach), "position"),
            *linear(f"{bias}.linear", count * self.relative, hidden, "position"),
            (f"{bias}.norm.scale", (count, self.relative), "norm"),
        ]

    def _key_or_value(self, kind: LayerKind, name: str) -> list[Piece]:
        width = kind.heads.key_width
        projection = linear(f"{name}.linear", width, self.hidden, "attention")
        if kind.window is not None:
            return [*projection, *convolution(f"{name}.sconv.conv1d", width, self.kernel, bias=False)]
        taps = kind.heads.num_key_value_heads * self.kernel
        return [
            *projection,
            (f"{name}.sconv.static_weight", (self.kernel, width), "state"),
            *linear(f"{name}.sconv.weight_proj", taps, self.hidden, "state"),
        ]

    def _messages(self) -> list[Piece]:
        pieces: list[Piece] = []
        for part in MESSAGES:
            name = f"{part}_message_gate"
            pieces += linear(f"{name}.down_proj", self.gate_rank, 2 * self.hidden, "other")
            pieces += linear(f"{name}.forget_gate_proj", self.hidden, self.gate_rank, "other")
            pieces += linear(f"{name}.message_gate_proj", self.hidden, self.gate_rank, "other")
        return pieces


def read_inkling2_blocks(
    config: Config,
    frame: Frame,
    *,
    heads: int,
    experts: int,
    width: int,
    looped: Collection[int] = (),
    passes: int = 1,
    gate_rank: int = 0,
) -> list[Block]:
    """All layers; the numbers of heads, experts and their width are the class defaults."""
    hidden = frame.hidden_size
    kinds = read_kinds(config, num_attention_heads=heads, swa_num_key_value_heads=8, window=1024)
    experts, chosen = read_experts(config, "n_routed_experts", experts, per_token=8)
    inner = config.dimension("moe_intermediate_size", width)
    model = Inkling2(
        hidden,
        config.integer("conv_kernel_size", 4),
        config.integer("d_rel", 16),
        sparse_forward(hidden, inner, experts, chosen, correction=CORRECTION),
        passes,
        gate_rank,
    )
    return [
        model.block(kinds[slides], first=index == 0, looped=index in looped)
        for index, slides in enumerate(sliding_flags(config, frame.num_layers))
    ]


def after_blocks(hidden: int) -> list[Piece]:
    """The final norm, and the query of the last residual."""
    return [*norm("model.norm", hidden), ("model.final_input.query", (hidden,), "attention")]


def inkling2_head(config: Config, hidden: int) -> list[Piece]:
    """A head over the tokens that exist; the embedding has more rows."""
    return linear("lm_head", config.integer("unpadded_vocab_size", 200_058), hidden, "head")


def with_inkling2_names(config: Config, names: dict[str, str]) -> Config:
    """The view with the older names, of which the experts' width has one more."""
    return config.with_aliases(**names, moe_intermediate_size="intermediate_size")
