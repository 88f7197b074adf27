"""FlexOlmo: OLMo 2's attention and norms with experts in every layer."""

from __future__ import annotations

from capienza.architecture.forward_parts import sparse_forward
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import full_attention, read_heads
from capienza.architecture.layer_stack import assemble_stack
from capienza.architecture.model import Architecture
from capienza.architecture.pieces import attention_pieces, norm, read_experts
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers alike, with full attention."""
    config = config.with_aliases(num_experts="num_local_experts")
    frame = read_frame(config, hidden_size=4096, num_hidden_layers=32, vocab_size=100_352, max_position_embeddings=4096)
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=32)
    bias = config.flag("attention_bias", default=False)
    experts, chosen = read_experts(config, "num_experts", 7, per_token=5)
    width = config.dimension("intermediate_size", 11008)
    common = [
        *attention_pieces(heads, hidden, bias=bias, output_bias=bias),
        *norm("self_attn.q_norm", heads.query_width),
        *norm("self_attn.k_norm", heads.key_width),
        *norm("post_attention_layernorm", hidden),
        *norm("post_feedforward_layernorm", hidden),
    ]
    attentions = [full_attention(config, heads, frame.num_layers)] * frame.num_layers
    forward = sparse_forward(hidden, width, experts, chosen)
    return assemble_stack(config, frame, attentions, common, [forward] * frame.num_layers)
