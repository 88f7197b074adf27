"""BitNet b1.58: Llama's block with a norm before each output projection. Ternary packing is the file's format."""

from __future__ import annotations

from capienza.architecture.forward_parts import dense_forward
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import full_attention, read_heads
from capienza.architecture.layer_stack import assemble_stack
from capienza.architecture.model import Architecture
from capienza.architecture.pieces import attention_pieces, layer_norms, norm
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers alike, with full attention; the norm inside attention is as wide as the residual stream."""
    frame = read_frame(config, hidden_size=2560, num_hidden_layers=30, vocab_size=128_256, max_position_embeddings=2048)
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=20, num_key_value_heads=5, shared_out=True)
    bias = config.flag("attention_bias", default=False)
    width = config.dimension("intermediate_size", 6912)
    common = [
        *attention_pieces(heads, hidden, bias=bias, output_bias=bias),
        *norm("self_attn.attn_sub_norm", hidden),
        *norm("mlp.ffn_sub_norm", width),
        *layer_norms(hidden),
    ]
    attentions = [full_attention(config, heads, frame.num_layers)] * frame.num_layers
    return assemble_stack(config, frame, attentions, common, [dense_forward(hidden, width)] * frame.num_layers)
