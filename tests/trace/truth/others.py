"""Models that are no causal language models: seeing, hearing, drawing, encoding. Small, trained with AdamW in fp32.

Each entry gives the class of the model, the keys of its config and what its forward pass is given; the loss is the
mean square of its first output that has a gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import transformers

from truth.programs import BATCH, Program

Inputs = Callable[[], dict[str, Any]]
VIT = {
    "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128,
    "image_size": 32, "patch_size": 8,
}  # fmt: skip
TEXT = {
    "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 500,
    "max_position_embeddings": 128,
}  # fmt: skip
BART = {
    "d_model": 64, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "vocab_size": 500, "max_position_embeddings": 128,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2,
}  # fmt: skip
STAGES = {"depths": [1, 1, 2, 1], "hidden_sizes": [16, 24, 32, 40]}
SOUND = {
    "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 40,
    "conv_dim": (32, 32), "conv_stride": (5, 4), "conv_kernel": (10, 8), "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4, "mask_time_prob": 0.0, "layerdrop": 0.0,
}  # fmt: skip


def pixels(size: int = 32, channels: int = 3) -> Inputs:
    return lambda: {"pixel_values": torch.zeros(BATCH, channels, size, size)}


def video(frames: int = 4, size: int = 32) -> Inputs:
    return lambda: {"pixel_values": torch.zeros(BATCH, frames, 3, size, size)}


def words(length: int = 32) -> torch.Tensor:
    return torch.arange(BATCH * length).reshape(BATCH, length) % 400 + 5


def text() -> dict[str, Any]:
    return {"input_ids": words()}


def both() -> dict[str, Any]:
    return {"input_ids": words(), "decoder_input_ids": words(24)}


def seen_and_told() -> dict[str, Any]:
    return {"input_ids": words(16), "pixel_values": torch.zeros(BATCH, 3, 32, 32)}


def sound() -> dict[str, Any]:
    return {"input_values": torch.zeros(BATCH, 4000)}


def layout() -> dict[str, Any]:
    return {"input_ids": words(), "bbox": torch.zeros(BATCH, 32, 4, dtype=torch.int64)}


def whisper() -> dict[str, Any]:
    return {"input_features": torch.zeros(BATCH, 80, 200), "decoder_input_ids": words(24)}


def speech() -> dict[str, Any]:
    return {"input_features": torch.zeros(BATCH, 100, 80), "decoder_input_ids": words(24)}


def clap() -> dict[str, Any]:
    return {"input_features": torch.zeros(BATCH, 1, 256, 64)}


def noisy(channels: int, size: int, **more: Any) -> Inputs:
    return lambda: {
        "sample": torch.zeros(BATCH, channels, size, size),
        "timestep": torch.full((BATCH,), 5),
        **{name: make() for name, make in more.items()},
    }


SWIN = {"image_size": 32, "patch_size": 4, "embed_dim": 24, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4}
KNOWN: dict[str, tuple[str, dict[str, Any], Inputs]] = {
    "ViT": ("ViTModel", VIT, pixels()),
    "DINOv2": ("Dinov2Model", VIT, pixels()),
    "ConvNeXt": ("ConvNextModel", {**STAGES, "drop_path_rate": 0.1, "image_size": 64}, pixels(64)),
    "Swin": ("SwinModel", SWIN, pixels()),
    "ResNet": ("ResNetModel", {**STAGES, "embedding_size": 16}, pixels(64)),
    "DETR": (
        "DetrForObjectDetection",
        {
            "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
            "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "num_queries": 10,
            "use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None,
            "backbone_config": transformers.ResNetConfig(**STAGES, embedding_size=16, out_features=["stage4"]),
        },
        pixels(64),
    ),
    "CLIP": ("CLIPModel", {"text_config": TEXT, "vision_config": VIT, "projection_dim": 32}, seen_and_told),
    "Whisper": (
        "WhisperModel",
        {**BART, "max_source_positions": 100, "max_target_positions": 64, "num_mel_bins": 80},
        whisper,
    ),
    "T5": (
        "T5Model",
        {"d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4, "vocab_size": 500},
        both,
    ),
    "UNet2DCondition": (
        "diffusers.UNet2DConditionModel",
        {
            "sample_size": 16, "block_out_channels": (32, 64), "layers_per_block": 1, "cross_attention_dim": 32,
            "attention_head_dim": 8, "norm_num_groups": 8,
            "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
            "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
        },
        noisy(4, 16, encoder_hidden_states=lambda: torch.zeros(BATCH, 8, 32)),
    ),
    "DiT": (
        "diffusers.DiTTransformer2DModel",
        {
            "num_attention_heads": 2, "attention_head_dim": 32, "in_channels": 4, "num_layers": 2, "sample_size": 16,
            "num_embeds_ada_norm": 100,
        },
        lambda: {
            "hidden_states": torch.zeros(BATCH, 4, 16, 16),
            "timestep": torch.full((BATCH,), 5),
            "class_labels": torch.full((BATCH,), 3),
        },
    ),
    "Flux": (
        "diffusers.FluxTransformer2DModel",
        {
            "patch_size": 1, "in_channels": 4, "num_layers": 1, "num_single_layers": 1, "attention_head_dim": 16,
            "num_attention_heads": 2, "joint_attention_dim": 32, "pooled_projection_dim": 32,
            "axes_dims_rope": (4, 4, 8),
        },
        lambda: {
            "hidden_states": torch.zeros(BATCH, 64, 4),
            "encoder_hidden_states": torch.zeros(BATCH, 8, 32),
            "pooled_projections": torch.zeros(BATCH, 32),
            "timestep": torch.full((BATCH,), 0.5),
            "img_ids": torch.zeros(64, 3),
            "txt_ids": torch.zeros(8, 3),
        },
    ),
    "AutoencoderKL": (
        "diffusers.AutoencoderKL",
        {
            "block_out_channels": (16, 32), "down_block_types": ("DownEncoderBlock2D",) * 2,
            "up_block_types": ("UpDecoderBlock2D",) * 2, "norm_num_groups": 8, "latent_channels": 4,
        },
        lambda: {"sample": torch.zeros(BATCH, 3, 32, 32)},
    ),
}  # fmt: skip
"""The rules of the trace were found on these."""
HELD_OUT: dict[str, tuple[str, dict[str, Any], Inputs]] = {
    "BEiT": ("BeitModel", VIT, pixels()),
    "DeiT": ("DeiTModel", VIT, pixels()),
    "SegFormer": (
        "SegformerModel",
        {"depths": [1, 1, 1, 1], "hidden_sizes": [16, 32, 48, 64], "num_attention_heads": [1, 2, 2, 4]},
        pixels(64),
    ),
    "MobileViT": (
        "MobileViTModel",
        {"hidden_sizes": [32, 48, 64], "neck_hidden_sizes": [8, 16, 24, 32, 40, 48, 96], "image_size": 64},
        pixels(64),
    ),
    "PoolFormer": ("PoolFormerModel", {**STAGES, "drop_path_rate": 0.1}, pixels(64)),
    "RegNet": ("RegNetModel", {**STAGES, "embedding_size": 16, "groups_width": 8}, pixels(64)),
    "EfficientNet": (
        "EfficientNetModel",
        {"width_coefficient": 0.25, "depth_coefficient": 0.3, "hidden_dim": 320, "image_size": 64},
        pixels(64),
    ),
    "CLAP": (
        "ClapAudioModelWithProjection",
        {
            "patch_embeds_hidden_size": 24, "depths": [2, 2], "num_attention_heads": [2, 4], "spec_size": 128,
            "hidden_size": 48, "num_mel_bins": 64, "window_size": 4, "projection_dim": 32, "enable_fusion": False,
        },
        clap,
    ),
    "Wav2Vec2": ("Wav2Vec2Model", SOUND, sound),
    "HuBERT": ("HubertModel", SOUND, sound),
    "Speech2Text": (
        "Speech2TextModel",
        {
            **BART, "max_source_positions": 200, "max_target_positions": 64, "conv_channels": 64,
            "input_feat_per_channel": 80,
        },
        speech,
    ),
    "SigLIP": ("SiglipModel", {"text_config": TEXT, "vision_config": VIT}, seen_and_told),
    "BLIP": ("BlipModel", {"text_config": TEXT, "vision_config": VIT, "projection_dim": 32}, seen_and_told),
    "YOLOS": ("YolosModel", {**VIT, "image_size": [32, 32], "num_detection_tokens": 5}, pixels()),
    "Mask2Former backbone": (
        "Mask2FormerModel",
        {
            "feature_size": 32, "mask_feature_size": 32, "hidden_dim": 32, "encoder_feedforward_dim": 64,
            "dim_feedforward": 64, "encoder_layers": 1, "decoder_layers": 2, "num_attention_heads": 4,
            "num_queries": 10, "use_timm_backbone": False,
            "backbone_config": transformers.SwinConfig(
                image_size=64, patch_size=4, embed_dim=24, depths=[1, 1, 1, 1], num_heads=[2, 2, 4, 4], window_size=4,
                out_features=["stage1", "stage2", "stage3", "stage4"],
            ),
        },
        pixels(64),
    ),
    "VideoMAE": ("VideoMAEModel", {**VIT, "num_frames": 4, "tubelet_size": 2}, video()),
    "TimeSformer": ("TimesformerModel", {**VIT, "num_frames": 4}, video()),
    "Data2VecVision": ("Data2VecVisionModel", VIT, pixels()),
    "LayoutLM": ("LayoutLMModel", TEXT, layout),
    "Bart encoder-decoder": ("BartModel", BART, both),
}  # fmt: skip
"""No rule of the trace was made from these."""


def other(name: str, device: str = "cpu") -> Program:
    """Build a model with AdamW; one step is forward, mean square of the first output, backward, optimizer step."""
    class_name, keys, inputs = (KNOWN | HELD_OUT)[name]

    def build() -> Any:
        with torch.device(device):
            model = _model(class_name, keys).train()
            return model, torch.optim.AdamW(model.parameters(), lr=1e-4), inputs()

    def step(state: Any) -> None:
        model, optimizer, given = state
        _first(model(**given)).float().pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return build, step


def _model(class_name: str, keys: dict[str, Any]) -> torch.nn.Module:
    if class_name.startswith("diffusers."):
        import diffusers

        return getattr(diffusers, class_name.removeprefix("diffusers."))(**keys)
    model_class = getattr(transformers, class_name)
    return model_class(model_class.config_class(**keys))


def _first(output: Any) -> torch.Tensor:
    values = output.values() if isinstance(output, dict) else output if isinstance(output, tuple) else [output]
    return next(
        value
        for value in values
        if isinstance(value, torch.Tensor) and value.requires_grad and value.is_floating_point()
    )
