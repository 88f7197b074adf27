"""The text side of Hunyuan OCR and VL: dense Hunyuan with a tied head."""

from __future__ import annotations

from capienza.architecture.forward_parts import dense_forward
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import full_attention, read_heads
from capienza.architecture.hunyuan_attention import hunyuan_attention
from capienza.architecture.layer_stack import assemble_stack
from capienza.architecture.model import Architecture
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers alike, with full attention."""
    config = config.with_aliases(head_dim="attention_head_dim", vocab_size="org_vocab_size")
    frame = read_frame(
        config,
        hidden_size=4096,
        num_hidden_layers=32,
        vocab_size=290_943,
        max_position_embeddings=2048,
        tied=True,
    )
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=32)
    return assemble_stack(
        config,
        frame,
        [full_attention(config, heads, frame.num_layers)] * frame.num_layers,
        hunyuan_attention(config, heads, hidden),
        [dense_forward(hidden, config.dimension("intermediate_size", 11008))] * frame.num_layers,
    )
