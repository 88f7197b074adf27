"""Qwen 1, the first generation, whose files bring their own modules: fused Q K V with biases, a gated MLP."""

from __future__ import annotations

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import Heads, full_attention
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.pieces import linear, norm
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers alike, with full attention. `intermediate_size` counts both halves of the gated MLP.

    transformers has no class for it; names and shapes are those of the published files. The defaults are those of
    the 7B, which its own class has.
    """
    frame = read_frame(config, hidden_size=4096, num_hidden_layers=32, vocab_size=151_936, max_position_embeddings=8192)
    hidden = frame.hidden_size
    count = config.dimension("num_attention_heads", 32)
    heads = Heads(count, count, config.integer("kv_channels", 128))
    whole = config.dimension("intermediate_size", 22016)
    if whole % 2:
        config.broken_rule("intermediate_size", whole, "intermediate_size % 2 == 0")
    intermediate = whole // 2
    bias = not config.flag("no_bias", default=True)
    block = Block(
        attention=full_attention(config, heads, frame.num_layers),
        mlp=Mlp(kind="dense", intermediate_size=intermediate),
        pieces=[
            *norm("ln_1", hidden),
            *linear("attn.c_attn", 3 * heads.query_width, hidden, "attention", bias=True),
            *linear("attn.c_proj", hidden, heads.query_width, "attention", bias),
            *norm("ln_2", hidden),
            *linear("mlp.w1", intermediate, hidden, "mlp", bias),
            *linear("mlp.w2", intermediate, hidden, "mlp", bias),
            *linear("mlp.c_proj", hidden, intermediate, "mlp", bias),
        ],
    )
    return assemble(
        config,
        frame,
        [block] * frame.num_layers,
        before=[("transformer.wte.weight", (frame.vocab_size, hidden), "embedding")],
        after=norm("transformer.ln_f", hidden),
        blocks_at="transformer.h",
    )
