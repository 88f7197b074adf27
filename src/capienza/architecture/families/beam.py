"""Beam: gated attention with a bias a head, four norms a layer, windows in five layers of six, experts after three."""

from __future__ import annotations

from capienza.architecture.forward_parts import CORRECTION, dense_forward, sparse_flags, sparse_forward
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import read_heads
from capienza.architecture.layer_stack import assemble_stack
from capienza.architecture.model import Architecture
from capienza.architecture.pieces import attention_pieces, linear, norm, read_experts
from capienza.architecture.plain import FOUR_NORMS
from capienza.architecture.reading import Config
from capienza.architecture.window_patterns import ruled_attentions

DENSE_LAYERS = 3


def build(config: Config) -> Architecture:
    """Every sixth layer is full, and so is the last."""
    frame = read_frame(config, hidden_size=5120, num_hidden_layers=52, vocab_size=151_936, max_position_embeddings=8192)
    hidden, layers = frame.hidden_size, frame.num_layers
    heads = read_heads(config, hidden, num_attention_heads=48, num_key_value_heads=8, head_dim=128)
    bias = config.flag("attention_bias", default=False)
    experts, chosen = read_experts(config, "num_experts", 256, per_token=8)
    sparse = sparse_forward(
        hidden, config.dimension("moe_intermediate_size", 2560), experts, chosen, correction=CORRECTION
    )
    dense = dense_forward(hidden, config.dimension("intermediate_size", 20480))
    common = [
        *attention_pieces(heads, hidden, bias=bias, output_bias=bias, head_norm=True),
        *linear("self_attn.gate_proj", heads.query_width, hidden, "attention"),
        ("self_attn.gate_bias", (heads.num_attention_heads,), "attention"),
        *(piece for name in FOUR_NORMS for piece in norm(name, hidden)),
    ]
    is_full = lambda index: (index + 1) % 6 == 0 or index == layers - 1  # noqa: E731
    return assemble_stack(
        config,
        frame,
        ruled_attentions(config, heads, layers, window=512, full=is_full),
        common,
        [sparse if flag else dense for flag in sparse_flags(config, layers, lambda index: index >= DENSE_LAYERS)],
    )
