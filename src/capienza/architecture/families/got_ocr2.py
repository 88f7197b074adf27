"""GOT-OCR 2: Qwen 2 behind SAM's image encoder and two convolutions."""

from __future__ import annotations

from capienza.architecture.model import Architecture
from capienza.architecture.pieces import Piece, linear, norm
from capienza.architecture.reading import MAX_LAYERS, Config
from capienza.architecture.vision_wrapper import describe_text_part, wrap

TEXT = {
    "vocab_size": 151_860,
    "hidden_size": 1024,
    "intermediate_size": 2816,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "max_position_embeddings": 32_768,
}
"""The text part of a file that states none; one that is stated takes Qwen 2's own defaults."""
TOWER = "model.vision_tower"
PROJECTOR = "model.multi_modal_projector"


def build(config: Config) -> Architecture:
    """The whole model."""
    tied = config.flag("tie_word_embeddings", True)
    text = describe_text_part(config, "qwen2", tied=tied, default=TEXT)
    vision = config.section("vision_config") or Config({}, config.file, prefix="vision_config.", parent=config)
    channels = vision.integer("output_channels", 256)
    upsampled: list[Piece] = [
        (f"{PROJECTOR}.conv_upsampler1.weight", (2 * channels, channels, 3, 3), "vision"),
        (f"{PROJECTOR}.conv_upsampler2.weight", (text.hidden_size, 2 * channels, 3, 3), "vision"),
        *linear(f"{PROJECTOR}.multimodal_projector", text.hidden_size, text.hidden_size, "vision", bias=True),
    ]
    return wrap(config, text, [*_tower(vision, channels), *upsampled])


def _tower(vision: Config, channels: int) -> list[Piece]:
    """SAM's encoder: patches, layers that see a window or the whole image, and a neck of two convolutions."""
    hidden = vision.integer("hidden_size", 768)
    count = vision.integer("num_attention_heads", 12)
    if hidden % count:
        vision.broken_rule("num_attention_heads", count, f"{hidden} % num_attention_heads == 0")
    layers = vision.integer("num_hidden_layers", 12, maximum=MAX_LAYERS)
    patch = vision.integer("patch_size", 16)
    side = vision.integer("image_size", 1024) // patch
    if not side:
        vision.broken_rule("patch_size", patch, "patch_size <= image_size")
    window = vision.integer("window_size", 14, minimum=0)
    stated = vision.integers("global_attn_indexes")
    whole = set((2, 5, 8, 11) if stated is None else stated)
    pieces: list[Piece] = [
        (f"{TOWER}.patch_embed.projection.weight", (hidden, vision.integer("num_channels", 3), patch, patch), "vision"),
        (f"{TOWER}.patch_embed.projection.bias", (hidden,), "vision"),
    ]
    if vision.flag("use_abs_pos", True):
        pieces.append((f"{TOWER}.pos_embed", (1, side, side, hidden), "position"))
    relative = vision.flag("use_rel_pos", True)
    bias = vision.flag("qkv_bias", True)
    wide = vision.integer("mlp_dim", 3072)
    for index in range(layers):
        name = f"{TOWER}.layers.{index}"
        pieces += [
            *norm(f"{name}.layer_norm1", hidden, bias=True),
            *linear(f"{name}.attn.qkv", 3 * hidden, hidden, "vision", bias),
            *linear(f"{name}.attn.proj", hidden, hidden, "vision", bias=True),
            *norm(f"{name}.layer_norm2", hidden, bias=True),
            *linear(f"{name}.mlp.lin1", wide, hidden, "vision", bias=True),
            *linear(f"{name}.mlp.lin2", hidden, wide, "vision", bias=True),
        ]
        if relative:
            seen = side if index in whole or not window else window
            distances = (2 * seen - 1, hidden // count)
            pieces += [(f"{name}.attn.rel_pos_{axis}", distances, "position") for axis in "hw"]
    return [
        *pieces,
        (f"{TOWER}.neck.conv1.weight", (channels, hidden, 1, 1), "vision"),
        *norm(f"{TOWER}.neck.layer_norm1", channels, bias=True),
        (f"{TOWER}.neck.conv2.weight", (channels, channels, 3, 3), "vision"),
        *norm(f"{TOWER}.neck.layer_norm2", channels, bias=True),
    ]
