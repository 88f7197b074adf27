"""Phi-4 multimodal: Phi 3's text model with an image and a speech encoder, all of them counted."""

from __future__ import annotations

import msgspec

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import read_heads, uniform_attention
from capienza.architecture.model import Architecture, Mlp, Parameter
from capienza.architecture.phi4_sides import image_pieces, speech_buffers, speech_pieces
from capienza.architecture.pieces import layer_norms, linear, norm
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers alike; a window only where it is stated."""
    frame = read_frame(
        config, hidden_size=3072, num_hidden_layers=32, vocab_size=200_064, max_position_embeddings=131_072
    )
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=32, num_key_value_heads=8)
    intermediate = config.dimension("intermediate_size", 8192)
    block = Block(
        attention=uniform_attention(config, heads, frame.num_layers, config.optional("sliding_window")),
        mlp=Mlp(kind="dense", intermediate_size=intermediate),
        pieces=[
            *linear("self_attn.o_proj", hidden, heads.query_width, "attention"),
            *linear("self_attn.qkv_proj", heads.query_width + 2 * heads.key_width, hidden, "attention"),
            *linear("mlp.gate_up_proj", 2 * intermediate, hidden, "mlp"),
            *linear("mlp.down_proj", hidden, intermediate, "mlp"),
            *layer_norms(hidden),
        ],
    )
    vision, audio = _side(config, "vision_config"), _side(config, "audio_config")
    architecture = assemble(
        config,
        frame,
        [block] * frame.num_layers,
        after=[*norm("model.norm", hidden), *image_pieces(vision, hidden), *speech_pieces(audio, hidden)],
    )
    return msgspec.structs.replace(architecture, buffers=tuple(Parameter(*piece) for piece in speech_buffers(audio)))


def _side(config: Config, key: str) -> Config:
    """One encoder's part of the file; all class defaults where it is missing."""
    return config.section(key) or Config({}, config.file, prefix=f"{key}.", parent=config)
