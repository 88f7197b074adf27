"""StarCoder 1 and SantaCoder: GPT-2's block with one head of K and V, weights stored [out, in]."""

from __future__ import annotations

from capienza.architecture.assembly import Block
from capienza.architecture.gpt2_frame import assemble_gpt2, read_gpt2_frame
from capienza.architecture.heads import Heads, full_attention, share_out
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.pieces import linear, norm, plain_mlp
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers alike, with full attention."""
    config, frame = read_gpt2_frame(config)
    hidden = frame.hidden_size
    count = config.dimension("n_head", 12)
    kv_heads = 1 if config.flag("multi_query", default=True) else count
    heads = Heads(count, kv_heads, share_out(config, hidden, count, "n_head"))
    intermediate = config.optional("n_inner") or 4 * hidden
    block = Block(
        attention=full_attention(config, heads, frame.num_layers),
        mlp=Mlp(kind="dense", intermediate_size=intermediate),
        pieces=[
            *norm("ln_1", hidden, bias=True),
            *linear("attn.c_attn", hidden + 2 * heads.key_width, hidden, "attention", bias=True),
            *linear("attn.c_proj", hidden, hidden, "attention", bias=True),
            *norm("ln_2", hidden, bias=True),
            *plain_mlp(hidden, intermediate, up="mlp.c_fc", down="mlp.c_proj"),
        ],
    )
    return assemble_gpt2(config, frame, block)
