"""What single model types need to be small: keys whose meaning is not told by their name, and how long they must be."""

from __future__ import annotations

from typing import Any

LAYERS: dict[str, int] = {
    **dict.fromkeys(("qwen3_5", "qwen3_5_moe", "qwen3_5_moe_text", "qwen3_5_text", "qwen3_next"), 4),
    **dict.fromkeys(("qwen4_exp", "qwen4_exp_text", "kimi_linear", "olmo_hybrid", "lara_mini"), 4),
    "kimi_linear": 5,
    "recurrent_gemma": 3,
    "zamba": 5,
}
"""Types whose attention layers stand every few layers: a cache without one cannot tell its length."""

MAMBA2 = {"mamba_n_heads": 8, "mamba_d_head": 32, "mamba_expand": 2}
ROPE = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [4, 6, 6]}
GEMMA3N = {"intermediate_size": 256, "hidden_size_per_layer_input": 16, "laurel_rank": 16, "num_kv_shared_layers": 0}
GEMMA3N |= {"activation_sparsity_pattern": [0.95, 0.0]}
INDEXER = {"indexer_n_heads": 2, "indexer_kv_heads": 1, "indexer_head_dim": 32, "indexer_budget": 32}
INDEXER |= {"indexer_compress_ratio": 4}
HEADS_STATED = {"head_dim": 32}

ODD: dict[str, dict[str, Any]] = {
    "bailing_hybrid": {"layer_group_size": 2},
    "bamba": {**MAMBA2, "attn_layer_indices": [1]},
    "cohere_compass_text": {"rope_parameters": {"full_attention": ROPE, "sliding_attention": ROPE}},
    "dbrx": {
        "attn_config": {"kv_n_heads": 2, "rope_theta": 10000.0, "clip_qkv": 8},
        "ffn_config": {"ffn_hidden_size": 64},
    },
    "deepseek_v2": {"num_experts_per_tok": 2},
    "dory": {"num_hidden_layers": 6, "n_recurrent_layers": 2},
    "dots1": {"num_local_experts": 8, "num_experts_per_tok": 2, "n_shared_experts": 1},
    "dots3_note": {
        "vision_config": {"mlp_layer_types": ["dense", "dense"], "adapter_in_dim": 128},
        "audio_config": {"adapter_input_size": 128},
    },
    "gemma3n": {"text_config": GEMMA3N},
    "gemma3n_text": GEMMA3N,
    "gemma4_assistant": {
        "text_config": {"num_kv_shared_layers": 2, "hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": 0}
    },
    "gemma4_unified_assistant": {"text_config": {"num_kv_shared_layers": 0}},
    "git": {"vision_config": {"image_size": 32}},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "granitemoehybrid": {**MAMBA2, "layer_types": ["mamba", "attention"], "num_local_experts": 8},
    "hrm_text": {"num_hidden_layers": 16},
    "hunyuan_v1_dense": HEADS_STATED,
    "hunyuan_v1_moe": HEADS_STATED,
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "mamba2": {"num_heads": 8},
    "ministral": HEADS_STATED,
    "musicgen": {"decoder": {"num_codebooks": 1}},
    "musicgen_melody": {"decoder": {"num_codebooks": 1}},
    "nemotron": {"num_key_value_heads": 2},
    "nemotron_h": {"mamba_num_heads": 8, "mamba_head_dim": 32},
    "qwen4_exp": {"text_config": INDEXER},
    "qwen4_exp_text": INDEXER,
    "reformer": {
        "is_decoder": True,
        "attn_layers": ["local", "lsh"],
        "axial_pos_shape": [8, 8],
        "axial_pos_embds_dim": [64, 64],
        "local_attn_chunk_length": 16,
        "lsh_attn_chunk_length": 16,
        "num_buckets": 4,
        "max_position_embeddings": 64,
    },
    "xlnet": {"d_head": 32},
    "xmod": {"default_language": "en_XX"},
    "zamba": {
        "attn_layer_period": 2,
        "attn_layer_offset": 0,
        "n_mamba_heads": 2,
        "attention_hidden_size": ...,
        "attention_head_dim": ...,
    },
    "zamba2": {
        "layers_block_type": ["linear_attention", "hybrid"],
        "n_mamba_heads": 4,
        "adapter_rank": 16,
        "mamba_headdim": ...,
        "attention_head_dim": ...,
        "attention_hidden_size": ...,
    },
}
"""Keys over the shrunk config, config by config; `...` takes a key away."""

DEFAULTS: dict[str, dict[str, Any]] = {
    "gemma4_assistant": {
        "text_config": {
            "model_type": "gemma4_text", "hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": 0,
            "num_kv_shared_layers": 0,
        }
    },
}  # fmt: skip
"""What a config class needs to give its defaults at all."""

PART: dict[str, tuple[str, str]] = {
    "musicgen": ("decoder", "MusicgenForCausalLM"),
    "musicgen_melody": ("decoder", "MusicgenMelodyForCausalLM"),
}
"""Types whose causal language model is built from a part of their config: the key of the part and the class."""
