"""Persimmon: fused Q K V, norms with biases, a norm over each head of Q and K."""

from __future__ import annotations

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import Heads, full_attention, share_out
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.pieces import layer_norms, linear, norm, plain_mlp
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers alike, with full attention."""
    frame = read_frame(
        config, hidden_size=4096, num_hidden_layers=36, vocab_size=262_144, max_position_embeddings=16384
    )
    hidden = frame.hidden_size
    count = config.dimension("num_attention_heads", 64)
    heads = Heads(count, count, share_out(config, hidden, count))
    intermediate = config.dimension("intermediate_size", 16384)
    head_norms = ("q_layernorm", "k_layernorm") if config.flag("qk_layernorm", True) else ()
    block = Block(
        attention=full_attention(config, heads, frame.num_layers),
        mlp=Mlp(kind="dense", intermediate_size=intermediate),
        pieces=[
            *linear("self_attn.query_key_value", 3 * hidden, hidden, "attention", bias=True),
            *linear("self_attn.dense", hidden, hidden, "attention", bias=True),
            *(piece for name in head_norms for piece in norm(f"self_attn.{name}", heads.head_dim, bias=True)),
            *plain_mlp(hidden, intermediate, up="mlp.dense_h_to_4h", down="mlp.dense_4h_to_h"),
            *layer_norms(hidden, bias=True),
        ],
    )
    after = norm("model.final_layernorm", hidden, bias=True)
    return assemble(config, frame, [block] * frame.num_layers, after=after)
