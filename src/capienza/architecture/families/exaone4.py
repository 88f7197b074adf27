"""EXAONE 4: norms after attention and MLP, and over each head of Q and K; three windowed layers to one full."""

from __future__ import annotations

from capienza.architecture.frame import read_frame
from capienza.architecture.heads import read_heads
from capienza.architecture.model import Architecture
from capienza.architecture.plain import assemble_plain
from capienza.architecture.reading import Config
from capienza.architecture.window_patterns import patterned_attentions


def build(config: Config) -> Architecture:
    """Layers as `layer_types` says, else by the pattern; all full where no window is stated."""
    frame = read_frame(config, hidden_size=4096, num_hidden_layers=32, vocab_size=102_400, max_position_embeddings=2048)
    heads = read_heads(config, frame.hidden_size, num_attention_heads=32, num_key_value_heads=32)
    return assemble_plain(
        config,
        frame,
        heads,
        patterned_attentions(config, heads, frame.num_layers, window=4096, pattern=4),
        intermediate_size=16384,
        head_norm=True,
        norms=("post_attention_layernorm", "post_feedforward_layernorm"),
    )
