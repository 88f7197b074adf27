"""CTRL: computed positions, biases everywhere, a tied head with a bias."""

from __future__ import annotations

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import Frame
from capienza.architecture.heads import Heads, full_attention, share_out
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.pieces import linear, norm, plain_mlp
from capienza.architecture.reading import MAX_LAYERS, Config


def build(config: Config) -> Architecture:
    """All layers alike, with full attention."""
    config = config.with_aliases(
        n_embd="hidden_size",
        n_layer="num_hidden_layers",
        n_head="num_attention_heads",
        n_positions="max_position_embeddings",
    )
    hidden = config.dimension("n_embd", 1280)
    frame = Frame(
        hidden_size=hidden,
        num_layers=config.dimension("n_layer", 48, maximum=MAX_LAYERS),
        vocab_size=config.dimension("vocab_size", 246_534),
        max_positions=config.integer("n_positions", 256),
        tied_head=config.flag("tie_word_embeddings", True),
    )
    count = config.dimension("n_head", 16)
    heads = Heads(count, count, share_out(config, hidden, count, "n_head"))
    intermediate = config.dimension("dff", 8192)
    block = Block(
        attention=full_attention(config, heads, frame.num_layers),
        mlp=Mlp(kind="dense", intermediate_size=intermediate),
        pieces=[
            *(
                piece
                for part in ("Wq", "Wk", "Wv", "dense")
                for piece in linear(f"multi_head_attention.{part}", hidden, hidden, "attention", bias=True)
            ),
            *plain_mlp(hidden, intermediate, up="ffn.0", down="ffn.2"),
            *norm("layernorm1", hidden, bias=True),
            *norm("layernorm2", hidden, bias=True),
        ],
    )
    return assemble(
        config,
        frame,
        [block] * frame.num_layers,
        before=[("transformer.w.weight", (frame.vocab_size, hidden), "embedding")],
        after=norm("transformer.layernorm", hidden, bias=True),
        head=linear("lm_head", frame.vocab_size, hidden, "head", bias=True),
        blocks_at="transformer.h",
    )
