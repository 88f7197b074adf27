"""Falcon 7B (one K and V head) and 40B, 180B, 11B (the new decoder, grouped heads)."""

from __future__ import annotations

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import Heads, full_attention, share_out
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.pieces import Piece, layer_norms, linear, norm, plain_mlp
from capienza.architecture.reading import Config
from capienza.errors import template

REPEATED_CACHE = template(
    "architecture.falcon-repeated-cache",
    "transformers keeps K and V of this model repeated for all {heads} heads; the cache counted here holds the"
    " {kv_heads} heads that differ, as serving engines keep them",
    "With transformers, multiply the cache by {ratio}.",
)


def build(config: Config) -> Architecture:
    """All layers alike, with full attention."""
    config = config.with_aliases(hidden_size="n_embed", num_attention_heads="n_head", num_hidden_layers="n_layer")
    frame = read_frame(
        config,
        hidden_size=4544,
        num_hidden_layers=32,
        vocab_size=65024,
        max_position_embeddings=2048,
        tied=True,
    )
    hidden = frame.hidden_size
    new_decoder = config.flag("new_decoder_architecture", False)
    heads = _heads(config, hidden, new_decoder)
    intermediate = config.optional("ffn_hidden_size") or 4 * hidden
    bias = config.flag("bias", False)
    block = Block(
        attention=full_attention(config, heads, frame.num_layers),
        mlp=Mlp(kind="dense", intermediate_size=intermediate),
        pieces=[
            *linear(
                "self_attention.query_key_value",
                heads.query_width + 2 * heads.key_width,
                hidden,
                "attention",
                bias,
            ),
            *linear("self_attention.dense", hidden, hidden, "attention", bias),
            *plain_mlp(hidden, intermediate, up="mlp.dense_h_to_4h", down="mlp.dense_4h_to_h", bias=bias),
            *_norms(config, hidden, new_decoder),
        ],
    )
    return assemble(
        config,
        frame,
        [block] * frame.num_layers,
        before=[("transformer.word_embeddings.weight", (frame.vocab_size, hidden), "embedding")],
        after=norm("transformer.ln_f", hidden, bias=True),
        blocks_at="transformer.h",
    )


def _heads(config: Config, hidden: int, new_decoder: bool) -> Heads:
    """Grouped K and V heads in the new decoder; in the old one a single head, or as many as queries."""
    count = config.dimension("num_attention_heads", 71)
    size = share_out(config, hidden, count)
    if not new_decoder:
        return Heads(count, 1 if config.flag("multi_query", True) else count, size)
    kv_heads = config.optional("num_kv_heads") or count
    if count % kv_heads:
        config.broken_rule("num_kv_heads", kv_heads, f"{count} % num_kv_heads == 0")
    if kv_heads < count:
        config.notes.append(REPEATED_CACHE(heads=count, kv_heads=kv_heads, ratio=count // kv_heads))
    return Heads(count, kv_heads, size)


def _norms(config: Config, hidden: int, new_decoder: bool) -> list[Piece]:
    """Two norms in sequence, or one or two in parallel."""
    if not config.flag("parallel_attn", True):
        return layer_norms(hidden, bias=True)
    parallel = config.optional("num_ln_in_parallel_attn") or (2 if new_decoder else 1)
    if parallel == 2:
        return [*norm("ln_attn", hidden, bias=True), *norm("ln_mlp", hidden, bias=True)]
    return norm("input_layernorm", hidden, bias=True)
