"""OLMo 3: OLMo 2 with a window in three layers of four."""

from __future__ import annotations

from capienza.architecture.assembly import assemble
from capienza.architecture.forward_parts import dense_forward, layer_block
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import attentions, layer_types, read_heads
from capienza.architecture.model import Architecture
from capienza.architecture.pieces import attention_pieces, norm
from capienza.architecture.reading import Config

PERIOD = 4


def build(config: Config) -> Architecture:
    """Every fourth layer is full, unless `layer_types` says otherwise."""
    frame = read_frame(config, hidden_size=4096, num_hidden_layers=32, vocab_size=50304, max_position_embeddings=2048)
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=32)
    types = layer_types(
        config, frame.num_layers, lambda index: "sliding_attention" if (index + 1) % PERIOD else "full_attention"
    )
    bias = config.flag("attention_bias", default=False)
    dense = dense_forward(hidden, config.dimension("intermediate_size", 11008))
    mixing = [
        *attention_pieces(heads, hidden, bias=bias, output_bias=bias),
        *norm("self_attn.q_norm", heads.query_width),
        *norm("self_attn.k_norm", heads.key_width),
    ]
    norms = [*norm("post_attention_layernorm", hidden), *norm("post_feedforward_layernorm", hidden)]
    layers = attentions(config, heads, types, config.optional("sliding_window", 4096))
    return assemble(
        config, frame, [layer_block(hidden, dense, mixing, attention=attention, norms=norms) for attention in layers]
    )
