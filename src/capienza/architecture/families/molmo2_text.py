"""The text side of Molmo 2: Qwen 3's block; the embedding has rows beside the vocabulary, and is never the head."""

from __future__ import annotations

import msgspec

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import full_attention, read_heads
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.pieces import Piece, attention_pieces, gated_mlp, layer_norms, norm
from capienza.architecture.reading import Config
from capienza.errors import phrase


def build(config: Config) -> Architecture:
    """All layers alike; `qk_norm_type` says whether a norm runs over each head or over all heads together."""
    frame = read_frame(
        config, hidden_size=4096, num_hidden_layers=36, vocab_size=151_936, max_position_embeddings=36864
    )
    frame = msgspec.structs.replace(frame, tied_head=False)
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=32, num_key_value_heads=8, head_dim=128)
    bias = config.flag("attention_bias", default=False)
    if config.flag("qkv_bias", default=bias) != bias:  # the key of the published files, which transformers passes over
        config.contradiction("qkv_bias", config.raw("qkv_bias"), str(bias).lower())
    kind = config.text("qk_norm_type", "qwen3")
    if kind not in ("qwen3", "olmo"):
        config.not_understood("qk_norm_type", kind, "qwen3, olmo", phrase("the norms may have another size"))
    whole = kind == "olmo"
    intermediate = config.dimension("intermediate_size", 12288)
    block = Block(
        attention=full_attention(config, heads, frame.num_layers),
        mlp=Mlp(kind="dense", intermediate_size=intermediate),
        pieces=[
            *attention_pieces(heads, hidden, bias=bias),
            *norm("self_attn.q_norm", heads.query_width if whole else heads.head_dim),
            *norm("self_attn.k_norm", heads.key_width if whole else heads.head_dim),
            *gated_mlp(hidden, intermediate),
            *layer_norms(hidden),
        ],
    )
    rows = frame.vocab_size + config.integer("additional_vocab_size", 128, minimum=0)
    before: list[Piece] = [("model.embed_tokens.weight", (rows, hidden), "embedding")]
    return assemble(config, frame, [block] * frame.num_layers, before=before)
