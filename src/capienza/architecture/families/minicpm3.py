"""MiniCPM 3: DeepSeek's latent attention and a dense gated MLP; values share out the hidden size."""

from __future__ import annotations

from capienza.architecture.assembly import assemble
from capienza.architecture.forward_parts import dense_forward, layer_block
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import share_out
from capienza.architecture.latent import read_latent
from capienza.architecture.model import Architecture
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers alike."""
    frame = read_frame(
        config, hidden_size=2560, num_hidden_layers=62, vocab_size=73448, max_position_embeddings=32768, tied=True
    )
    hidden = frame.hidden_size
    size = share_out(config, hidden, config.dimension("num_attention_heads", 40))
    latent = read_latent(config, num_attention_heads=40, query_rank=768, rank=256, nope=64, rope=32, value=size)
    mixing = latent.pieces(hidden, config.flag("attention_bias", default=False))
    bias = config.flag("mlp_bias", default=False)
    dense = dense_forward(hidden, config.dimension("intermediate_size", 6400), bias=bias)
    block = layer_block(hidden, dense, mixing, attention=latent.attention)
    return assemble(config, frame, [block] * frame.num_layers)
