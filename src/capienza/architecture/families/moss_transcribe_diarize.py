"""MOSS-Transcribe-Diarize: a speech encoder as Whisper's, a projector, and a text model, all of them counted."""

from __future__ import annotations

import msgspec

from capienza.architecture import registry
from capienza.architecture.model import Architecture, Parameter
from capienza.architecture.pieces import Piece
from capienza.architecture.reading import MAX_LAYERS, Config
from capienza.architecture.side_pieces import numbered, prefixed, side_convolution, side_linear, side_norm
from capienza.errors import phrase

TEXT = {
    "model_type": "qwen3",
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131_072,
}
"""The text model of a file that states none."""
BASE = "model."


def build(config: Config) -> Architecture:
    """The text model under its names inside the whole, with the encoder and the projector."""
    if config.nested:
        direction = phrase("the weights would come out too small")
        config.not_understood(
            "model_type", config.text("model_type"), phrase("the model type of a text model"), direction
        )
    section = config.section("text_config")
    mapping = TEXT if section is None else {"model_type": TEXT["model_type"], **section.mapping}
    tied = config.flag("tie_word_embeddings", default=True)
    view = Config({**mapping, "tie_word_embeddings": tied}, config.file, prefix="text_config.", parent=config)
    text = registry.build(view)
    parameters = [_inside(config, parameter) for parameter in text.parameters if parameter.role != "head"]
    head = Parameter("lm_head.weight", (text.vocab_size, text.hidden_size), "head")
    sides = [*_encoder(config, text.hidden_size)]
    return msgspec.structs.replace(
        text,
        model_type=config.text("model_type"),
        parameters=(*parameters, *(Parameter(*piece) for piece in sides), *(() if tied else (head,))),
        buffers=tuple(_inside(config, buffer) for buffer in text.buffers),
    )


def _inside(config: Config, parameter: Parameter) -> Parameter:
    """A tensor of the text model under the name it has in the whole model."""
    if not parameter.name.startswith(BASE):
        direction = phrase("the tensors would have other names")
        config.not_understood("text_config", parameter.name, f"{BASE}*", direction)
    return msgspec.structs.replace(parameter, name=f"model.language_model.{parameter.name.removeprefix(BASE)}")


def _encoder(config: Config, hidden: int) -> list[Piece]:
    """The speech encoder and the projection of several of its frames at once."""
    audio = (
        config.section("audio_config") or Config({}, config.file, prefix="audio_config.", parent=config)
    ).with_aliases(
        hidden_size="d_model",
        num_hidden_layers="encoder_layers",
        num_attention_heads="encoder_attention_heads",
        intermediate_size="encoder_ffn_dim",
    )
    width, inner = audio.integer("hidden_size", 1024), audio.integer("intermediate_size", 4096)
    heads = audio.integer("num_attention_heads", 16)
    if width % heads:
        audio.broken_rule("num_attention_heads", heads, f"{width} % num_attention_heads == 0")
    layer = [
        *side_linear("self_attn.k_proj", width, width, bias=False),
        *(
            piece
            for part in ("v_proj", "q_proj", "out_proj")
            for piece in side_linear(f"self_attn.{part}", width, width)
        ),
        *side_norm("self_attn_layer_norm", width),
        *side_linear("fc1", inner, width),
        *side_linear("fc2", width, inner),
        *side_norm("final_layer_norm", width),
    ]
    encoder: list[Piece] = [
        *side_convolution("conv1", width, audio.integer("num_mel_bins", 80), 3),
        *side_convolution("conv2", width, width, 3),
        ("embed_positions.weight", (audio.integer("max_source_positions", 1500), width), "vision"),
        *numbered("layers", audio.integer("num_hidden_layers", 24, maximum=MAX_LAYERS), layer),
        *side_norm("layer_norm", width),
    ]
    frames = config.integer("audio_merge_size", 4)
    bias = config.flag("projector_bias", default=True)
    projector = [
        *side_linear("linear_1", hidden, frames * width, bias),
        *side_linear("linear_2", hidden, hidden, bias),
        *side_norm("norm", hidden),
    ]
    return [*prefixed("model.audio_tower", encoder), *prefixed("model.multi_modal_projector", projector)]
