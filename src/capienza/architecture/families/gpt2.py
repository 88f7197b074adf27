"""GPT-2: learned positions, fused Q K V, weights stored [in, out]."""

from __future__ import annotations

from capienza.architecture.assembly import Block
from capienza.architecture.gpt2_frame import assemble_gpt2, read_gpt2_frame
from capienza.architecture.heads import Heads, full_attention, share_out
from capienza.architecture.model import Architecture, Mlp, Role
from capienza.architecture.pieces import Piece, norm
from capienza.architecture.reading import Config

TRANSPOSED = ("attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight")


def build(config: Config) -> Architecture:
    """All layers alike, with full attention."""
    config, frame = read_gpt2_frame(config)
    hidden = frame.hidden_size
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
    return assemble_gpt2(config, frame, block, transposed=TRANSPOSED)


def _transposed(name: str, rows: int, columns: int, role: Role) -> list[Piece]:
    """A linear layer that keeps its weight [in, out], with its bias."""
    return [(f"{name}.weight", (columns, rows), role), (f"{name}.bias", (rows,), role)]
