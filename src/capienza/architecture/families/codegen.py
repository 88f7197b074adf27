"""CodeGen: GPT-J with Q, K and V in one matrix."""

from __future__ import annotations

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import Frame
from capienza.architecture.heads import Heads, full_attention, share_out
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.pieces import linear, norm, plain_mlp
from capienza.architecture.reading import MAX_LAYERS, Config


def build(config: Config) -> Architecture:
    """All layers alike, with full attention."""
    config = config.with_aliases(
        n_embd="hidden_size",
        n_layer="num_hidden_layers",
        n_head="num_attention_heads",
        n_positions="max_position_embeddings",
    )
    hidden = config.dimension("n_embd", 4096)
    frame = Frame(
        hidden_size=hidden,
        num_layers=config.dimension("n_layer", 28, maximum=MAX_LAYERS),
        vocab_size=config.dimension("vocab_size", 50400),
        max_positions=config.integer("n_positions", 2048),
        tied_head=config.flag("tie_word_embeddings", False),
    )
    count = config.dimension("n_head", 16)
    heads = Heads(count, count, share_out(config, hidden, count, "n_head"))
    intermediate = config.optional("n_inner") or 4 * hidden
    block = Block(
        attention=full_attention(config, heads, frame.num_layers),
        mlp=Mlp(kind="dense", intermediate_size=intermediate),
        pieces=[
            *norm("ln_1", hidden, bias=True),
            *linear("attn.qkv_proj", 3 * hidden, hidden, "attention"),
            *linear("attn.out_proj", hidden, hidden, "attention"),
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
