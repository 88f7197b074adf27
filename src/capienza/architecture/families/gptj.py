"""GPT-J: rotary positions, no learned table, one norm before attention and MLP together, a head with a bias."""

from __future__ import annotations

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.gpt2_frame import read_gpt2_frame
from capienza.architecture.heads import Heads, full_attention, share_out
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.pieces import attention_pieces, linear, norm, plain_mlp
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers alike, with full attention."""
    config, frame = read_gpt2_frame(config, tied=False)
    hidden = frame.hidden_size
    count = config.dimension("n_head", 16)
    heads = Heads(count, count, share_out(config, hidden, count, "n_head"))
    intermediate = config.optional("n_inner") or 4 * hidden
    block = Block(
        attention=full_attention(config, heads, frame.num_layers),
        mlp=Mlp(kind="dense", intermediate_size=intermediate),
        pieces=[
            *norm("ln_1", hidden, bias=True),
            *attention_pieces(heads, hidden, name="attn", output="out_proj"),
            *plain_mlp(hidden, intermediate, up="mlp.fc_in", down="mlp.fc_out"),
        ],
    )
    return assemble(
        config,
        frame,
        [block] * frame.num_layers,
        before=[("transformer.wte.weight", (frame.vocab_size, hidden), "embedding")],
        after=norm("transformer.ln_f", hidden, bias=True),
        head=linear("lm_head", frame.vocab_size, hidden, "head", bias=True),
        blocks_at="transformer.h",
    )
