"""GLM 4 (9B): gate and up in one projection, biases on Q, K and V."""

from __future__ import annotations

from capienza.architecture.frame import read_frame
from capienza.architecture.heads import full_attention, read_heads
from capienza.architecture.layer_stack import assemble_stack, plain_part
from capienza.architecture.model import Architecture
from capienza.architecture.pieces import attention_pieces, layer_norms, linear
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers alike, with full attention."""
    frame = read_frame(
        config, hidden_size=4096, num_hidden_layers=40, vocab_size=151_552, max_position_embeddings=131_072
    )
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=32, num_key_value_heads=2, head_dim=128)
    width = config.dimension("intermediate_size", 13696)
    mlp = [
        *linear("mlp.gate_up_proj", 2 * width, hidden, "mlp"),
        *linear("mlp.down_proj", hidden, width, "mlp"),
    ]
    common = [
        *attention_pieces(heads, hidden, bias=config.flag("attention_bias", default=True)),
        *layer_norms(hidden),
    ]
    attentions = [full_attention(config, heads, frame.num_layers)] * frame.num_layers
    return assemble_stack(config, frame, attentions, common, [plain_part(width, mlp)] * frame.num_layers)
