"""DBRX: fused Q, K and V, layer norms without biases, all experts of a layer in three tall matrices."""

from __future__ import annotations

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import Frame
from capienza.architecture.heads import Heads, full_attention, share_out
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.pieces import Piece, linear, norm, read_experts
from capienza.architecture.reading import MAX_LAYERS, Config

DOWN = "ffn.experts.mlp.w2"


def build(config: Config) -> Architecture:
    """All layers alike, with full attention."""
    config = config.with_aliases(
        d_model="hidden_size",
        n_heads="num_attention_heads",
        n_layers="num_hidden_layers",
        max_seq_len="max_position_embeddings",
    )
    frame = Frame(
        hidden_size=config.dimension("d_model", 2048),
        num_layers=config.dimension("n_layers", 24, maximum=MAX_LAYERS),
        vocab_size=config.dimension("vocab_size", 32000),
        max_positions=config.integer("max_seq_len", 2048),
        tied_head=config.flag("tie_word_embeddings", default=False),
    )
    if frame.tied_head:
        config.broken_rule("tie_word_embeddings", True, "tie_word_embeddings == false (dbrx)")
    hidden = frame.hidden_size
    heads = _read_heads(config, hidden)
    mlp = _read_mlp(config)
    rows = mlp.num_experts * mlp.intermediate_size
    experts: list[Piece] = [(f"ffn.experts.mlp.{name}", (rows, hidden), "expert") for name in ("w1", "v1", "w2")]
    block = Block(
        attention=full_attention(config, heads, frame.num_layers),
        mlp=mlp,
        pieces=[
            *norm("norm_attn_norm.norm_1", hidden),
            *linear("norm_attn_norm.attn.Wqkv", hidden + 2 * heads.key_width, hidden, "attention"),
            *linear("norm_attn_norm.attn.out_proj", hidden, hidden, "attention"),
            *norm("norm_attn_norm.norm_2", hidden),
            *linear("ffn.router.layer", mlp.num_experts, hidden, "router"),
            *experts,
        ],
    )
    return assemble(
        config,
        frame,
        [block] * frame.num_layers,
        before=[("transformer.wte.weight", (frame.vocab_size, hidden), "embedding")],
        after=norm("transformer.norm_f", hidden),
        blocks_at="transformer.blocks",
        transposed={DOWN},
    )


def _part(config: Config, key: str) -> Config:
    """A part of the file; one that is missing has the defaults of its class."""
    return config.section(key) or Config({}, config.file, prefix=f"{config.prefix}{key}.", parent=config)


def _read_heads(config: Config, hidden: int) -> Heads:
    count = config.dimension("n_heads", 16)
    part = _part(config, "attn_config")
    kv_heads = part.integer("kv_n_heads", 1)
    if count % kv_heads:
        part.broken_rule("kv_n_heads", kv_heads, f"{count} % kv_n_heads == 0")
    return Heads(count, kv_heads, share_out(config, hidden, count, "n_heads"))


def _read_mlp(config: Config) -> Mlp:
    part = _part(config, "ffn_config").with_aliases(num_experts_per_tok="moe_top_k")
    experts, chosen = read_experts(part, "moe_num_experts", 4, per_token=1)
    return Mlp(
        kind="experts",
        intermediate_size=part.integer("ffn_hidden_size", 3584),
        num_experts=experts,
        num_experts_per_token=chosen,
    )
