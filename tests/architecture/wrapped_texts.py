"""Small random configs of text models that transformers builds only inside an image, audio or omni model."""

from __future__ import annotations

from random import Random

from drawn_parts import Config, deepseek_experts, flag, frame, latent, maybe, mlp_types, types


def sectioned(config: Config, head_size: int) -> Config:
    """Rotary positions in time, height and width, of half a head together."""
    half = head_size // 2
    sections = [half - 2 * (half // 3), half // 3, half // 3]
    return config | {"rope_parameters": {"rope_type": "default", "rope_theta": 100.0, "mrope_section": sections}}


def shared_out(config: Config) -> int:
    """The size of a head where none is stated."""
    return config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]


def glm4v_text(random: Random) -> Config:
    config = frame(random)
    return sectioned(config, shared_out(config))


def glm_ocr_text(random: Random) -> Config:
    config = frame(random)
    maybe(random, config, head_dim=random.choice([4, 6]))
    return sectioned(config, shared_out(config))


def glm4v_moe_text(random: Random) -> Config:
    config = frame(random) | deepseek_experts(random)
    config["first_k_dense_replace"] = random.randint(0, 3)
    maybe(random, config, attention_bias=flag(random), head_dim=random.choice([4, 8]))
    return sectioned(config, shared_out(config) // 2)


def qwen2_5_omni_text(random: Random) -> Config:
    config = frame(random)
    maybe(random, config, use_sliding_window=flag(random), sliding_window=6, max_window_layers=random.randint(0, 4))
    return sectioned(config, shared_out(config))


def qwen3_omni_moe_text(random: Random) -> Config:
    config = frame(random) | {"num_experts": random.choice([2, 5]), "moe_intermediate_size": random.randint(1, 20)}
    config["num_experts_per_tok"] = random.randint(1, 2)
    maybe(random, config, decoder_sparse_step=random.randint(1, 3), mlp_only_layers=random.choice([[], [0]]))
    maybe(random, config, attention_bias=flag(random), sliding_window=random.choice([None, 5]))
    return config


def paddleocr_vl_text(random: Random) -> Config:
    config = frame(random)
    maybe(random, config, use_bias=flag(random))
    config["head_dim"] = random.choice([4, 6])
    return sectioned(config, config["head_dim"])


def hunyuan_vl_text(random: Random) -> Config:
    config = frame(random)
    maybe(random, config, attention_bias=flag(random))
    config["head_dim"] = 8
    return sectioned(config, 8)


def ernie4_5_vl_moe_text(random: Random) -> Config:
    config = frame(random) | {"moe_num_experts": random.randint(2, 5), "moe_k": random.randint(1, 2)}
    config["moe_intermediate_size"] = [random.randint(1, 20), random.randint(1, 20)]
    maybe(random, config, use_bias=flag(random), moe_num_shared_experts=random.choice([0, 1, 3]))
    maybe(random, config, mlp_layer_types=mlp_types(random, config))
    config["hidden_size"] = 8 * config["num_attention_heads"]
    config["rope_parameters"] = {"rope_type": "default", "rope_theta": 100.0, "mrope_section": [1, 1, 2]}
    return config


def mistral4(random: Random) -> Config:
    config = latent(random, frame(random)) | deepseek_experts(random)
    maybe(random, config, q_lora_rank=None, first_k_dense_replace=random.randint(0, 3))
    return config


def mistral_large4_text(random: Random) -> Config:
    config = latent(random, frame(random)) | deepseek_experts(random)
    del config["q_lora_rank"]
    layers = config["num_hidden_layers"]
    config |= {"index_head_dim": random.choice([4, 8]), "index_n_heads": random.choice([1, 2]), "index_topk": 4}
    maybe(random, config, first_k_dense_replace=random.randint(0, 3))
    rotary = [int(flag(random)) for _ in range(layers)]
    config["no_rope_layers"] = rotary
    maybe(random, config, indexer_types=["full", *(random.choice(["full", "shared"]) for _ in range(layers - 1))])
    if flag(random):
        sources: list[int] = []
        for index in range(layers):
            own = [source for source in range(index) if sources[source] == source and rotary[source] == rotary[index]]
            # transformers hands on one latent of each sort at a time: the last that was stored.
            sources.append(random.choice([index, own[0]]) if len(own) == 1 else own[0] if own else index)
        config["kv_source_layers"] = sources
    return config


def molmo2_text(random: Random) -> Config:
    config = frame(random) | {"head_dim": random.choice([4, 6])}
    maybe(random, config, attention_bias=flag(random), additional_vocab_size=random.choice([0, 7]))
    maybe(random, config, qk_norm_type=random.choice(["qwen3", "olmo"]))
    return config


def granite_text(random: Random) -> Config:
    config = frame(random)
    maybe(random, config, attention_bias=flag(random), mlp_bias=flag(random))
    return config


def cosmos3_edge_text(random: Random) -> Config:
    return sectioned(granite_text(random) | {"head_dim": 8}, 8)


def deepseek_ocr2_text(random: Random) -> Config:
    config = granite_text(random) | deepseek_experts(random)
    config |= {"n_group": None, "topk_group": None}
    return config | {"mlp_layer_types": mlp_types(random, config)}


def unlimited_ocr_text(random: Random) -> Config:
    config = granite_text(random) | deepseek_experts(random) | {"n_group": 1}
    maybe(random, config, mlp_layer_types=mlp_types(random, config), first_k_dense_replace=random.randint(0, 3))
    return config


def hy_v4_vl_text(random: Random) -> Config:
    config = sectioned(latent(random, frame(random)) | deepseek_experts(random) | {"qk_rope_head_dim": 4}, 4)
    config |= {"index_head_dim": random.choice([4, 8]), "index_n_heads": random.choice([1, 2]), "index_topk": 4}
    maybe(random, config, hc_mult=random.randint(1, 3), mlp_layer_types=mlp_types(random, config))
    return config


def glm5_next_text(random: Random) -> Config:
    config = latent(random, frame(random, layers=6)) | deepseek_experts(random) | {"qk_rope_head_dim": 0}
    pool = random.choice([1, 2, 4])
    config |= {"index_head_dim": 4, "index_n_heads": random.choice([1, 2]), "index_topk": 4, "index_kpool": pool}
    config |= {"linear_num_heads": random.choice([1, 2]), "linear_head_dim": random.choice([4, 8])}
    config |= {"linear_conv_kernel_dim": random.choice([2, 4])}
    config["layer_types"] = [*types(random, config, "indexed_attention", "linear_attention")[1:], "indexed_attention"]
    config["mlp_layer_types"] = mlp_types(random, config)
    return config


def muse_glimmer_text(random: Random) -> Config:
    config = frame(random) | {"head_dim": random.choice([4, 6]), "sliding_window": random.choice([5, 7])}
    maybe(random, config, attention_bias=flag(random))
    maybe(random, config, layer_types=types(random, config, "sliding_attention", "full_attention"))
    return config


def muse_spark_text(random: Random) -> Config:
    config = muse_glimmer_text(random) | {"num_local_experts": random.randint(2, 5), "num_experts_per_tok": 2}
    config |= {"moe_intermediate_size": random.randint(1, 20), "moe_hidden_size": random.randint(1, 20)}
    maybe(random, config, mlp_layer_types=mlp_types(random, config))
    return config


def step3p5(random: Random) -> Config:
    config = frame(random) | {"head_dim": 4, "sliding_window": random.choice([5, 7])}
    config |= {"n_routed_experts": random.randint(2, 5), "num_experts_per_tok": 2}
    config |= {"moe_intermediate_size": random.randint(1, 20), "share_expert_dim": random.randint(1, 20)}
    if flag(random):
        config["moe_num_experts"] = config.pop("n_routed_experts")
    kinds = types(random, config, "sliding_attention", "full_attention")
    maybe(random, config, attention_bias=flag(random), mlp_bias=flag(random), layer_types=kinds)
    maybe(random, config, num_nextn_predict_layers=2)
    stated = {"mlp_layer_types": mlp_types(random, config), "moe_layers_enum": "1,2"}
    config |= dict([random.choice(list(stated.items()))])
    more = 2 * config["num_attention_heads"]
    maybe(random, config, attention_other_setting={"num_attention_heads": more, "head_dim": 4})
    return config


def kosmos(random: Random) -> Config:
    heads = random.choice([1, 2, 4])
    return {
        "embed_dim": 8 * heads,
        "attention_heads": heads,
        "layers": random.randint(1, 4),
        "ffn_dim": random.randint(1, 40),
        "vocab_size": random.randint(50, 90),
        "max_position_embeddings": 64,
    }


def kosmos_2_text_model(random: Random) -> Config:
    return kosmos(random) | {"add_cross_attention": flag(random)}


def blip_text_model(random: Random) -> Config:
    config = frame(random, grouped=False) | {"is_decoder": random.random() < 0.7}
    config.pop("tie_word_embeddings", None)
    return config


TEXTS = {
    "blip_text_model": blip_text_model,
    "cosmos3_edge_text": cosmos3_edge_text,
    "deepseek_ocr2_text": deepseek_ocr2_text,
    "ernie4_5_vl_moe_text": ernie4_5_vl_moe_text,
    "glm4v_moe_text": glm4v_moe_text,
    "glm4v_text": glm4v_text,
    "glm5_next_text": glm5_next_text,
    "glm_ocr_text": glm_ocr_text,
    "granite4_vision_text": granite_text,
    "granite_docling_text": granite_text,
    "hunyuan_vl_text": hunyuan_vl_text,
    "hy_v4_vl_text": hy_v4_vl_text,
    "kosmos_2_5_text_model": kosmos,
    "kosmos_2_text_model": kosmos_2_text_model,
    "mistral4": mistral4,
    "mistral_large4_text": mistral_large4_text,
    "molmo2_text": molmo2_text,
    "muse_glimmer_text": muse_glimmer_text,
    "muse_spark_text": muse_spark_text,
    "paddleocr_vl_text": paddleocr_vl_text,
    "qwen2_5_omni_text": qwen2_5_omni_text,
    "qwen3_omni_moe_text": qwen3_omni_moe_text,
    "step3p5": step3p5,
    "unlimited_ocr_text": unlimited_ocr_text,
}
