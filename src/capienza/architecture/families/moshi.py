"""The text model of Moshi: a window of keys, a gated MLP in two matrices, one word more than the head has."""

from __future__ import annotations

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import Frame
from capienza.architecture.heads import read_heads, uniform_attention
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.pieces import Piece, layer_norms, linear
from capienza.architecture.reading import MAX_LAYERS, Config
from capienza.architecture.wrapper import TEXT_SIDE


def build(config: Config) -> Architecture:
    """All layers alike; the audio codec and the depth decoder are not part of it, and the head is never tied."""
    config.notes.append(TEXT_SIDE(model_type=config.text("model_type")))
    frame = Frame(
        hidden_size=config.dimension("hidden_size", 4096),
        num_layers=config.dimension("num_hidden_layers", 32, maximum=MAX_LAYERS),
        vocab_size=config.dimension("vocab_size", 32000),
        max_positions=config.integer("max_position_embeddings", 3000),
        tied_head=False,
    )
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=32)
    width = config.dimension("ffn_dim", 22528)
    if width % 2:
        config.broken_rule("ffn_dim", width, "ffn_dim % 2 == 0")
    window = config.integer("sliding_window", 3000, minimum=2)
    name = "self_attn"
    block = Block(
        attention=uniform_attention(config, heads, frame.num_layers, window),
        mlp=Mlp(kind="dense", intermediate_size=width // 2),
        pieces=[
            *linear(f"{name}.q_proj.linear", heads.query_width, hidden, "attention"),
            *linear(f"{name}.k_proj.linear", heads.key_width, hidden, "attention"),
            *linear(f"{name}.v_proj.linear", heads.key_width, hidden, "attention"),
            *linear(f"{name}.o_proj.linear", hidden, heads.query_width, "attention"),
            *linear("mlp.fc1", width, hidden, "mlp"),
            *linear("mlp.fc2", hidden, width // 2, "mlp"),
            *layer_norms(hidden),
        ],
    )
    before: list[Piece] = [("model.embed_tokens.weight", (frame.vocab_size + 1, hidden), "embedding")]
    return assemble(config, frame, [block] * frame.num_layers, before=before)
