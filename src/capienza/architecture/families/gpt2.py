"""GPT-2: learned positions, fused Q K V, weights stored [in, out]."""

from __future__ import annotations

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import Frame
from capienza.architecture.heads import Heads, full_attention, share_out
from capienza.architecture.model import Architecture, Mlp, Role
from capienza.architecture.pieces import Piece, norm
from capienza.architecture.reading import MAX_LAYERS, Config


def build(config: Config) -> Architecture:
    """All layers alike, with full attention."""
    config = config.with_aliases(
        n_embd="hidden_size",
        n_layer="num_hidden_layers",
        n_head="num_attention_heads",
        n_positions="max_position_embeddings",
    )
    if config.flag("add_cross_attention", False):
        config.not_understood("add_cross_attention", True, "false", "the weights and cache would come out too small")
    hidden = config.dimension("n_embd", 768)
    frame = Frame(
        hidden_size=hidden,
        num_layers=config.dimension("n_layer", 12, maximum=MAX_LAYERS),
        vocab_size=config.dimension("vocab_size", 50257),
        max_positions=config.integer("n_positions", 1024),
        tied_head=config.flag("tie_word_embeddings", True),
    )
    count = config.dimension("n_head", 12)
    heads = Heads(count, count, share_out(config, hidden, count, "n_head"))
    intermediate = config.optional("n_inner") or 4 * hidden
    block = Block(
        attention=full_attention(config, heads, frame.num_layers),
        mlp=Mlp(kind="dense", intermediate_size=intermediate),
        pieces=[
            *norm("ln_1", hidden, bias=True),
            *_transposed("attn.c_attn", 3 * hidden, hidden, "attention"),
            *_transposed("attn.c_proj", hidden, hidden, "attention"),
            *norm("ln_2", hidden, bias=True),
            *_transposed("mlp.c_fc", intermediate, hidden, "mlp"),
            *_transposed("mlp.c_proj", hidden, intermediate, "mlp"),
        ],
    )
    return assemble(
        config,
        frame,
        [block] * frame.num_layers,
        before=[
            ("transformer.wte.weight", (frame.vocab_size, hidden), "embedding"),
            ("transformer.wpe.weight", (config.integer("n_positions", 1024), hidden), "position"),
        ],
        after=norm("transformer.ln_f", hidden, bias=True),
        blocks_at="transformer.h",
        transposed=("attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight"),
    )


def _transposed(name: str, rows: int, columns: int, role: Role) -> list[Piece]:
    """A linear layer that keeps its weight [in, out], with its bias."""
    return [(f"{name}.weight", (columns, rows), role), (f"{name}.bias", (rows,), role)]
