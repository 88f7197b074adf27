"""HyperCLOVA X SEED: Granite's block, with norms after attention and MLP as well unless they are switched off."""

from __future__ import annotations

from capienza.architecture.frame import read_frame
from capienza.architecture.heads import full_attention, read_heads
from capienza.architecture.model import Architecture
from capienza.architecture.plain import TWO_NORMS, assemble_plain
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers alike, with full attention."""
    frame = read_frame(config, hidden_size=4096, num_hidden_layers=32, vocab_size=32000, max_position_embeddings=2048)
    heads = read_heads(config, frame.hidden_size, num_attention_heads=32)
    bias = config.flag("attention_bias", default=False)
    more = ("post_norm1", "post_norm2") if config.flag("use_post_norm", default=True) else ()
    return assemble_plain(
        config,
        frame,
        heads,
        [full_attention(config, heads, frame.num_layers)] * frame.num_layers,
        intermediate_size=11008,
        bias=bias,
        output_bias=bias,
        mlp_bias=config.flag("mlp_bias", default=False),
        norms=(*TWO_NORMS, *more),
    )
