"""The encoders of Phi-4 multimodal: SigLIP for images, a conformer for speech, and their projections to the text."""

from __future__ import annotations

from capienza.architecture.heads import share_out
from capienza.architecture.pieces import Piece
from capienza.architecture.reading import MAX_LAYERS, Config
from capienza.architecture.side_pieces import numbered, prefixed, side_convolution, side_linear, side_norm

IMAGE = "model.embed_tokens_extend.image_embed"
SPEECH = "model.embed_tokens_extend.audio_embed"


def image_pieces(vision: Config, hidden: int) -> list[Piece]:
    """The image encoder, its pooling head, and the projection to the text."""
    width, inner = vision.integer("hidden_size", 1152), vision.integer("intermediate_size", 4304)
    heads = vision.integer("num_attention_heads", 16)
    share_out(vision, width, heads)
    patch = vision.integer("patch_size", 14)
    side = vision.integer("image_size", 448) // patch
    mlp = [*side_linear("mlp.fc1", inner, width), *side_linear("mlp.fc2", width, inner)]
    layer = [
        *side_norm("layer_norm1", width),
        *(piece for part in ("k", "v", "q") for piece in side_linear(f"self_attn.{part}_proj", width, width)),
        *side_linear("self_attn.out_proj", width, width),
        *side_norm("layer_norm2", width),
        *mlp,
    ]
    head: list[Piece] = [
        ("probe", (1, 1, width), "vision"),
        ("attention.in_proj_weight", (3 * width, width), "vision"),
        ("attention.in_proj_bias", (3 * width,), "vision"),
        *side_linear("attention.out_proj", width, width),
        *side_norm("layernorm", width),
        *mlp,
    ]
    encoder: list[Piece] = [
        *side_convolution("embeddings.patch_embedding", width, vision.integer("num_channels", 3), patch, patch),
        ("embeddings.position_embedding.weight", (side * side, width), "vision"),
        *numbered("encoder.layers", vision.integer("num_hidden_layers", 27, maximum=MAX_LAYERS), layer),
        *side_norm("post_layernorm", width),
        *prefixed("head", head),
    ]
    return prefixed(
        IMAGE,
        [
            *prefixed("img_processor", encoder),
            *side_linear("img_projection_up", hidden, width),
            *side_linear("img_projection_down", hidden, hidden),
            ("global_img_feature_extensor", (1, 1, width), "vision"),
            ("sub_img_feature_extensor", (1, 1, 1, width), "vision"),
        ],
    )


def speech_pieces(audio: Config, hidden: int) -> list[Piece]:
    """The speech encoder, and its projections to the text with and without an image."""
    width = audio.integer("hidden_size", 1024)
    heads = audio.integer("num_attention_heads", 16)
    buckets = audio.integer("bias_max_distance", 1000) * (1 if audio.flag("bias_symmetric", default=False) else 2)
    encoder: list[Piece] = [
        *_subsampling(audio, width),
        ("relative_attention_bias_layer.bias_values.weight", (buckets, heads), "vision"),
        *numbered("encoders", audio.integer("num_blocks", 24, maximum=MAX_LAYERS), _conformer(audio, width, heads)),
    ]
    wide = width * audio.integer("downsample_rate", 1)
    projections = [
        piece
        for part in ("speech", "vision_speech")
        for piece in (
            *side_linear(f"up_proj_for_{part}", hidden, wide),
            *side_linear(f"down_proj_for_{part}", hidden, hidden),
        )
    ]
    return prefixed(SPEECH, [*prefixed("encoder", encoder), *projections])


def speech_buffers(audio: Config) -> list[Piece]:
    """The stored mean and spread of the input."""
    size = audio.integer("input_size", 80)
    return [
        (f"{SPEECH}.encoder.encoder_embedding.{part}", (size,), "vision") for part in ("global_mean", "global_invstd")
    ]


def _subsampling(audio: Config, width: int) -> list[Piece]:
    """Convolutions that halve the time and the bands again and again."""
    reduction = audio.integer("time_reduction", 8, minimum=2)
    if reduction % 2:
        audio.broken_rule("time_reduction", reduction, "time_reduction % 2 == 0")
    channels, bands = audio.integer("nemo_conv_channels", 1024), audio.integer("input_size", 80)
    times = reduction.bit_length() - 1
    pieces = side_convolution("embed.conv.0", channels, 1, 3, 3)
    for index in range(times - 1):
        at = 2 + 3 * index  # an activation stands between the pairs
        pieces += side_convolution(f"embed.conv.{at}", channels, 1, 3, 3)
        pieces += side_convolution(f"embed.conv.{at + 1}", channels, channels, 1, 1)
    for _ in range(times):
        bands = (bands + 1) // 2
    return [*pieces, *side_linear("embed.out", width, channels * bands)]


def _conformer(audio: Config, width: int, heads: int) -> list[Piece]:
    """Attention and a convolution between two halves of an MLP."""
    inner, out = audio.integer("intermediate_size", 1536), audio.integer("ext_pw_out_channel", 1024)
    size = audio.optional("head_dim") or share_out(audio, width, heads)
    kernel, deep = audio.integer("kernel_size", 3), width * audio.integer("depthwise_multiplier", 1)
    separable = audio.integer("depthwise_separable_out_channel", 1024)
    halves = [
        piece
        for name in ("feed_forward_in", "feed_forward_out")
        for piece in (
            *side_norm(f"{name}.layer_norm", width),
            *side_linear(f"{name}.gate_up_proj", 2 * inner, width),
            *side_linear(f"{name}.down_proj", width, inner),
        )
    ]
    gates: list[Piece] = [(f"conv.glu.{part}", (1, out, 1), "vision") for part in ("b1", "b2")]
    return [
        *halves,
        *(piece for part in "qkv" for piece in side_linear(f"self_attn.{part}_proj", heads * size, width)),
        *side_linear("self_attn.o_proj", width, heads * size),
        *side_norm("conv.layer_norm", width),
        *side_convolution("conv.glu.ext_pw_conv_1d", 2 * out, width, 1),
        *gates,
        *side_convolution("conv.dw_sep_conv_1d.dw_conv", deep, 1, kernel),
        *side_convolution("conv.dw_sep_conv_1d.pw_conv", separable, deep, 1),
        *side_convolution("conv.ext_pw_conv_1d", out, width, 1),
        *side_norm("layer_norm_att", width),
        *side_norm("layer_norm", width),
    ]
