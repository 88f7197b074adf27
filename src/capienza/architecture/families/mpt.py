"""MPT: positions as biases of attention, fused Q K V, no bias anywhere."""

from __future__ import annotations

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import Frame
from capienza.architecture.heads import Heads, full_attention, share_out
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.pieces import linear, norm, plain_mlp
from capienza.architecture.reading import MAX_LAYERS, Config
from capienza.errors import phrase


def build(config: Config) -> Architecture:
    """All layers alike, with full attention."""
    config = config.with_aliases(d_model="hidden_size", n_heads="num_attention_heads", n_layers="num_hidden_layers")
    hidden = config.dimension("d_model", 2048)
    frame = Frame(
        hidden_size=hidden,
        num_layers=config.dimension("n_layers", 24, maximum=MAX_LAYERS),
        vocab_size=config.dimension("vocab_size", 50368),
        max_positions=config.integer("max_seq_len", 2048),
        tied_head=config.flag("tie_word_embeddings", default=True),
    )
    _refuse_variants(config)
    count = config.dimension("n_heads", 16)
    heads = Heads(count, count, share_out(config, hidden, count, "n_heads"))
    block = Block(
        attention=full_attention(config, heads, frame.num_layers),
        mlp=Mlp(kind="dense", intermediate_size=4 * hidden),
        pieces=[
            *norm("norm_1", hidden),
            *linear("attn.Wqkv", 3 * hidden, hidden, "attention"),
            *linear("attn.out_proj", hidden, hidden, "attention"),
            *norm("norm_2", hidden),
            *plain_mlp(hidden, 4 * hidden, up="ffn.up_proj", down="ffn.down_proj", bias=False),
        ],
    )
    return assemble(
        config,
        frame,
        [block] * frame.num_layers,
        before=[("transformer.wte.weight", (frame.vocab_size, hidden), "embedding")],
        after=norm("transformer.norm_f", hidden),
        blocks_at="transformer.blocks",
    )


def _refuse_variants(config: Config) -> None:
    """The files describe variants that the class of transformers does not build."""
    if config.integer("expansion_ratio", 4) != 4:
        config.not_understood(
            "expansion_ratio", config.raw("expansion_ratio"), "4", phrase("the weights would be wrong")
        )
    if not config.flag("no_bias", default=True):
        config.not_understood("no_bias", False, "true", phrase("the weights would come out too small"))
    attention = config.section("attn_config")
    if attention is None:
        return
    if attention.text("attn_type", "multihead_attention") != "multihead_attention":
        direction = phrase("the cache and weights would come out too large")
        attention.not_understood("attn_type", attention.raw("attn_type"), "multihead_attention", direction)
    for key, wanted in (("alibi", True), ("qk_ln", False)):
        if attention.flag(key, default=wanted) is not wanted:
            direction = phrase("the weights would come out too small")
            attention.not_understood(key, not wanted, "true" if wanted else "false", direction)
