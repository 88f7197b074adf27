"""What LFM2 and its mixture share: blocks of a short convolution or attention under LFM2's own names."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from capienza.architecture.assembly import Block
from capienza.architecture.frame import Frame
from capienza.architecture.heads import layer_types, read_heads
from capienza.architecture.mixers import short_convolution
from capienza.architecture.model import Mlp
from capienza.architecture.pieces import Piece, attention_pieces, linear, norm
from capienza.architecture.reading import Config

LAYER_TYPES = frozenset({"full_attention", "conv"})


def lfm2_mlp(hidden: int, width: int) -> list[Piece]:
    """Gate (w1), up (w3) and down (w2)."""
    return [
        *linear("feed_forward.w1", width, hidden, "mlp"),
        *linear("feed_forward.w3", width, hidden, "mlp"),
        *linear("feed_forward.w2", hidden, width, "mlp"),
    ]


def lfm2_blocks(
    config: Config,
    frame: Frame,
    parts: Sequence[tuple[Mlp, list[Piece]]],
    default: Callable[[int], str],
    expert_buffers: Sequence[Piece] = (),
) -> list[Block]:
    """Every layer with its feed-forward part; `default` is the kind of a layer where none is stated.

    `expert_buffers` stand in the layers with experts.
    """
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=32, num_key_value_heads=8)
    mixer = short_convolution(
        "conv", hidden, config.integer("conv_L_cache", 3), config.flag("conv_bias", default=False)
    )
    attending = [
        *attention_pieces(heads, hidden, output="out_proj"),
        *norm("self_attn.q_layernorm", heads.head_dim),
        *norm("self_attn.k_layernorm", heads.head_dim),
    ]
    norms = [*norm("operator_norm", hidden), *norm("ffn_norm", hidden)]
    blocks = []
    for kind, (mlp, forward) in zip(layer_types(config, frame.num_layers, default, LAYER_TYPES), parts, strict=True):
        attends = kind == "full_attention"
        blocks.append(
            Block(
                attention=heads.attention() if attends else None,
                state=None if attends else mixer.state,
                mlp=mlp,
                pieces=[*(attending if attends else mixer.pieces), *forward, *norms],
                buffers=expert_buffers if mlp.kind == "experts" else (),
            )
        )
    return blocks
