"""A.X K2: latent attention with an indexer and an output gate, norms with a low-rank gate of their own."""

from __future__ import annotations

from capienza.architecture.assembly import assemble
from capienza.architecture.forward_parts import (
    dense_forward,
    late_experts,
    layer_block,
    note_prediction_layers,
    read_deepseek_experts,
    sparse_flags,
)
from capienza.architecture.frame import read_frame
from capienza.architecture.indexer import read_indexer
from capienza.architecture.latent import Latent, read_latent
from capienza.architecture.model import Architecture
from capienza.architecture.pieces import Piece, linear, norm
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """Experts as `mlp_layer_types` says, else after the first dense layers."""
    config = config.with_aliases(n_routed_experts="num_local_experts")
    frame = read_frame(
        config, hidden_size=2048, num_hidden_layers=48, vocab_size=163_840, max_position_embeddings=131_072
    )
    hidden = frame.hidden_size
    latent = read_latent(
        config, num_attention_heads=32, query_rank=384, rank=128, nope=64, rope=32, value=64, compressed=True
    )
    indexer = read_indexer(config, latent, frame.num_layers, index_n_heads=16)
    rank = config.integer("gated_norm_rank", 16)
    attention = latent.indexed(indexer.head_dim)
    mixing = [
        *_attention_pieces(latent, hidden, config.flag("attention_bias", default=False)),
        *indexer.pieces(hidden, latent.query_rank or 0),
        *_gated_norm("input_layernorm", hidden, rank),
    ]
    dense = dense_forward(hidden, config.dimension("intermediate_size", 5120))
    sparse = read_deepseek_experts(
        config,
        hidden,
        moe_intermediate_size=512,
        n_routed_experts=128,
        n_shared_experts=1,
        num_experts_per_tok=8,
    )
    note_prediction_layers(config)
    name = "post_attention_layernorm"
    blocks = {
        False: layer_block(hidden, dense, mixing, attention=attention, norms=norm(name, hidden)),
        True: layer_block(hidden, sparse, mixing, attention=attention, norms=_gated_norm(name, hidden, rank)),
    }
    flags = sparse_flags(config, frame.num_layers, late_experts(config, first=1, periodic=True))
    return assemble(config, frame, [blocks[flag] for flag in flags])


def _gated_norm(name: str, hidden: int, rank: int) -> list[Piece]:
    """A norm whose output a bottleneck gates."""
    return [
        *norm(f"{name}.norm", hidden),
        *linear(f"{name}.mlp.fc1", rank, hidden, "norm"),
        *linear(f"{name}.mlp.fc2", hidden, rank, "norm"),
    ]


def _attention_pieces(latent: Latent, hidden: int, bias: bool) -> list[Piece]:
    """The usual projections, but for one that makes queries and gates from the compressed query and its norm."""
    query = latent.query_rank or 0
    wide = latent.num_heads * (latent.nope + latent.rope + latent.value)
    usual = [piece for piece in latent.pieces(hidden, bias) if not piece[0].startswith("self_attn.q_b_proj")]
    return [*usual, *linear("self_attn.q_gate_proj", wide, 2 * query, "attention")]
