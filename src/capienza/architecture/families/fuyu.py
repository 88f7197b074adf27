"""Fuyu: Persimmon, with image patches projected straight into the sequence."""

from __future__ import annotations

from capienza.architecture.model import Architecture
from capienza.architecture.pieces import linear
from capienza.architecture.reading import Config
from capienza.architecture.vision_wrapper import describe_text_part, wrap

OLDER_KEYS = (
    "vocab_size",
    "max_position_embeddings",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "qk_layernorm",
)
"""What older files state at the top instead of in `text_config`."""


def build(config: Config) -> Architecture:
    """The whole model."""
    flat = {key: config.mapping[key] for key in OLDER_KEYS if key in config.mapping}
    text = describe_text_part(config, "persimmon", tied=config.flag("tie_word_embeddings", False), default=flat or None)
    patch = config.integer("patch_size", 30)
    pixels = patch * patch * config.integer("num_channels", 3)
    return wrap(config, text, linear("model.vision_embed_tokens", text.hidden_size, pixels, "vision", bias=True))
