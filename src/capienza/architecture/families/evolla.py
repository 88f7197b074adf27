"""Evolla: Llama's block, where some layers also look at a protein; the head is never the embedding."""

from __future__ import annotations

import msgspec

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import full_attention, read_heads
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.pieces import Piece, attention_pieces, gated_mlp, layer_norms, linear, norm
from capienza.architecture.reading import Config
from capienza.architecture.wrapper import TEXT_SIDE


def build(config: Config) -> Architecture:
    """The text side, with its looks at the protein; what reads the protein is not counted."""
    frame = read_frame(config, hidden_size=4096, num_hidden_layers=32, vocab_size=128_256, max_position_embeddings=8192)
    frame = msgspec.structs.replace(frame, tied_head=False)
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=32, num_key_value_heads=8)
    bias = config.flag("attention_bias", default=False)
    width = config.dimension("intermediate_size", 14336)
    config.notes.append(TEXT_SIDE(model_type=config.text("model_type")))
    common = [
        *attention_pieces(heads, hidden, bias=bias, output_bias=bias),
        *gated_mlp(hidden, width, bias=config.flag("mlp_bias", default=False)),
        *layer_norms(hidden),
    ]
    added = config.integer("aligner_num_add_layers", 8)
    period = max(frame.num_layers // added, 1)
    look = _look(config, hidden, heads.num_attention_heads)
    attention = full_attention(config, heads, frame.num_layers)
    mlp = Mlp(kind="dense", intermediate_size=width)
    plain = Block(attention=attention, mlp=mlp, pieces=common)
    seeing = Block(attention=attention, mlp=mlp, pieces=[*common, *look])
    return assemble(config, frame, [plain if (index + 1) % period else seeing for index in range(frame.num_layers)])


def _look(config: Config, hidden: int, heads: int) -> list[Piece]:
    """Attention to the protein's vectors and an MLP of its own, each behind a gate."""
    width = heads * (hidden // heads)
    inner = hidden * config.integer("aligner_ffn_mult", 4)
    return [
        *linear("adapter.query", width, hidden, "attention", bias=True),
        *linear("adapter.key_protein", width, hidden, "attention", bias=True),
        *linear("adapter.value_protein", width, hidden, "attention", bias=True),
        *norm("adapter.attention_norm", hidden),
        *linear("adapter.out_proj", hidden, hidden, "attention", config.flag("aligner_enable_bias", default=True)),
        *norm("adapter.ff.norm", hidden, bias=True),
        *linear("adapter.ff.fc1", inner, hidden, "mlp"),
        *linear("adapter.ff.fc2", hidden, inner, "mlp"),
        ("adapter.gate_attention", (1,), "attention"),
        ("adapter.gate_ffw", (1,), "mlp"),
    ]
