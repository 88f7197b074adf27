"""BLOOM: no positions table, a norm after the embedding, fused Q K V."""

from __future__ import annotations

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import Frame
from capienza.architecture.heads import Heads, full_attention, share_out
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.pieces import layer_norms, linear, norm, plain_mlp
from capienza.architecture.reading import MAX_LAYERS, Config


def build(config: Config) -> Architecture:
    """All layers alike, with full attention; any length is possible."""
    config = config.with_aliases(hidden_size="n_embed", n_layer="num_hidden_layers", n_head="num_attention_heads")
    hidden = config.dimension("hidden_size", 64)
    frame = Frame(
        hidden_size=hidden,
        num_layers=config.dimension("n_layer", 2, maximum=MAX_LAYERS),
        vocab_size=config.dimension("vocab_size", 250_880),
        max_positions=None,
        tied_head=config.flag("tie_word_embeddings", True),
    )
    count = config.dimension("n_head", 8)
    heads = Heads(count, count, share_out(config, hidden, count, "n_head"))
    block = Block(
        attention=full_attention(config, heads, frame.num_layers),
        mlp=Mlp(kind="dense", intermediate_size=4 * hidden),
        pieces=[
            *layer_norms(hidden, bias=True),
            *linear("self_attention.query_key_value", 3 * hidden, hidden, "attention", bias=True),
            *linear("self_attention.dense", hidden, hidden, "attention", bias=True),
            *plain_mlp(hidden, 4 * hidden, up="mlp.dense_h_to_4h", down="mlp.dense_4h_to_h"),
        ],
    )
    return assemble(
        config,
        frame,
        [block] * frame.num_layers,
        before=[
            ("transformer.word_embeddings.weight", (frame.vocab_size, hidden), "embedding"),
            *norm("transformer.word_embeddings_layernorm", hidden, bias=True),
        ],
        after=norm("transformer.ln_f", hidden, bias=True),
        blocks_at="transformer.h",
    )
