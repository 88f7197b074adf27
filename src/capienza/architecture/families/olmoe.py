"""OLMoE: experts in every layer, norms over all of Q and of K together."""

from __future__ import annotations

from capienza.architecture.assembly import assemble
from capienza.architecture.forward_parts import layer_block, sparse_forward
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import full_attention, read_heads
from capienza.architecture.model import Architecture
from capienza.architecture.pieces import attention_pieces, norm, read_experts
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers alike, with full attention."""
    config = config.with_aliases(num_experts="num_local_experts")
    frame = read_frame(config, hidden_size=2048, num_hidden_layers=16, vocab_size=50304, max_position_embeddings=4096)
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=16, shared_out=True)
    experts, chosen = read_experts(config, "num_experts", 64, per_token=8)
    width = config.dimension("intermediate_size", 2048)
    bias = config.flag("attention_bias", default=False)
    mixing = [
        *attention_pieces(heads, hidden, bias=bias, output_bias=bias),
        *norm("self_attn.q_norm", heads.query_width),
        *norm("self_attn.k_norm", heads.key_width),
    ]
    attention = full_attention(config, heads, frame.num_layers)
    block = layer_block(hidden, sparse_forward(hidden, width, experts, chosen), mixing, attention=attention)
    return assemble(config, frame, [block] * frame.num_layers)
