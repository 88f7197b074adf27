"""GLM 4 (0414), dense: gate and up in one projection, four norms."""

from __future__ import annotations

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import full_attention, read_heads
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.pieces import attention_pieces, linear, norm
from capienza.architecture.reading import Config

NORMS = ("input_layernorm", "post_attention_layernorm", "post_self_attn_layernorm", "post_mlp_layernorm")


def build(config: Config) -> Architecture:
    """All layers alike, with full attention; biases on Q, K and V only."""
    frame = read_frame(
        config, hidden_size=4096, num_hidden_layers=40, vocab_size=151_552, max_position_embeddings=131_072
    )
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=32, num_key_value_heads=2, head_dim=128)
    intermediate = config.dimension("intermediate_size", 13696)
    block = Block(
        attention=full_attention(config, heads, frame.num_layers),
        mlp=Mlp(kind="dense", intermediate_size=intermediate),
        pieces=[
            *attention_pieces(heads, hidden, bias=config.flag("attention_bias", default=True)),
            *linear("mlp.gate_up_proj", 2 * intermediate, hidden, "mlp"),
            *linear("mlp.down_proj", hidden, intermediate, "mlp"),
            *(piece for name in NORMS for piece in norm(name, hidden)),
        ],
    )
    return assemble(config, frame, [block] * frame.num_layers)
