"""Arcee's AFM: Llama's attention beside an MLP without a gate."""

from __future__ import annotations

from capienza.architecture.frame import read_frame
from capienza.architecture.heads import full_attention, read_heads
from capienza.architecture.layer_stack import assemble_stack, plain_part
from capienza.architecture.model import Architecture
from capienza.architecture.pieces import attention_pieces, layer_norms, plain_mlp
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers alike, with full attention."""
    frame = read_frame(config, hidden_size=2560, num_hidden_layers=32, vocab_size=32000, max_position_embeddings=4096)
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=32)
    bias = config.flag("attention_bias", default=False)
    width = config.dimension("intermediate_size", 18432)
    mlp = plain_mlp(hidden, width, up="mlp.up_proj", down="mlp.down_proj", bias=config.flag("mlp_bias", default=False))
    return assemble_stack(
        config,
        frame,
        [full_attention(config, heads, frame.num_layers)] * frame.num_layers,
        [*attention_pieces(heads, hidden, bias=bias, output_bias=bias), *layer_norms(hidden)],
        [plain_part(width, mlp)] * frame.num_layers,
    )
