"""The first GPT: GPT-2's tensors without a last norm, and no cache."""

from __future__ import annotations

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.decoder_notes import uncached_attention
from capienza.architecture.frame import Frame
from capienza.architecture.heads import Heads, share_out
from capienza.architecture.model import Architecture, Mlp, Role
from capienza.architecture.pieces import Piece, norm
from capienza.architecture.reading import MAX_LAYERS, Config

TRANSPOSED = ("attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight")


def build(config: Config) -> Architecture:
    """All layers alike; the class takes no cache, so each new token runs over the whole sequence."""
    config = config.with_aliases(
        n_embd="hidden_size",
        n_layer="num_hidden_layers",
        n_head="num_attention_heads",
        n_positions="max_position_embeddings",
    )
    hidden = config.dimension("n_embd", 768)
    positions = config.integer("n_positions", 512)
    frame = Frame(
        hidden_size=hidden,
        num_layers=config.dimension("n_layer", 12, maximum=MAX_LAYERS),
        vocab_size=config.dimension("vocab_size", 40478),
        max_positions=positions,
        tied_head=config.flag("tie_word_embeddings", True),
    )
    count = config.dimension("n_head", 12)
    heads = Heads(count, count, share_out(config, hidden, count, "n_head"))
    block = Block(
        attention=uncached_attention(config, heads),
        mlp=Mlp(kind="dense", intermediate_size=4 * hidden),
        pieces=[
            *_transposed("attn.c_attn", 3 * hidden, hidden, "attention"),
            *_transposed("attn.c_proj", hidden, hidden, "attention"),
            *norm("ln_1", hidden, bias=True),
            *_transposed("mlp.c_fc", 4 * hidden, hidden, "mlp"),
            *_transposed("mlp.c_proj", hidden, 4 * hidden, "mlp"),
            *norm("ln_2", hidden, bias=True),
        ],
    )
    return assemble(
        config,
        frame,
        [block] * frame.num_layers,
        before=[
            ("transformer.tokens_embed.weight", (frame.vocab_size, hidden), "embedding"),
            ("transformer.positions_embed.weight", (positions, hidden), "position"),
        ],
        after=[],
        blocks_at="transformer.h",
        transposed=TRANSPOSED,
    )


def _transposed(name: str, rows: int, columns: int, role: Role) -> list[Piece]:
    """A linear layer that keeps its weight [in, out], with its bias."""
    return [(f"{name}.weight", (columns, rows), role), (f"{name}.bias", (rows,), role)]
