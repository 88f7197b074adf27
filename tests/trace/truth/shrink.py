"""A small config of any model type of transformers, made from its own defaults by the meaning of each key.

Widths, heads, layers and vocabularies are set by the name of the key, in the config and in each config inside it; what
is written once per layer is left to the config class, which derives it from the number of layers. What this cannot
know about single types stands in `odd_configs`.
"""

from __future__ import annotations

from typing import Any

from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from truth.odd_configs import DEFAULTS, LAYERS, ODD

Config = dict[str, Any]

HIDDEN, HEADS, KV_HEADS, HEAD_DIM, FFN, EXPERT_FFN = 128, 4, 2, 32, 256, 64
VOCABULARY, LONGEST = 1000, 512

SIZES: tuple[tuple[int, str], ...] = (
    (
        HIDDEN,
        "hidden_size n_embd d_model embedding_dim emb_dim embedding_size word_embed_proj_dim lru_width "
        "hidden_size_global attention_hidden_size projector_input_dim projector_output_dim out_hidden_size "
        "dim_model_base adapter_out_dim input_embedding_size",
    ),
    (
        HEADS,
        "num_attention_heads n_head n_heads num_heads attention_heads encoder_attention_heads decoder_attention_heads "
        "num_encoder_attention_heads num_decoder_attention_heads linear_num_heads linear_num_value_heads "
        "swa_num_attention_heads conf_num_attention_heads index_n_heads",
    ),
    (KV_HEADS, "swa_num_key_value_heads linear_num_key_heads"),
    (
        HEAD_DIM,
        "head_dim v_head_dim dim_head d_head kv_channels attention_head_size linear_key_head_dim linear_value_head_dim "
        "linear_head_dim index_head_dim swa_head_dim query_pre_attn_scalar qk_nope_head_dim",
    ),
    (
        FFN,
        "intermediate_size ffn_dim n_inner dff d_inner dim_ff encoder_ffn_dim decoder_ffn_dim feed_forward_size "
        "mlp_dim ffn_hidden_size intermediate_size_mlp dense_intermediate_size",
    ),
    (
        EXPERT_FFN,
        "moe_intermediate_size shared_expert_intermediate_size expert_ffn_hidden_size shared_intermediate_size "
        "moe_shared_expert_intermediate_size shared_experts_intermediate_size router_hidden_size q_lora_rank "
        "hc_lowrank o_lora_rank",
    ),
    (8, "num_experts num_local_experts n_routed_experts moe_num_experts zero_expert_num"),
    (2, "num_experts_per_tok num_experts_per_token moe_k moe_topk moe_top_k"),
    (1, "n_group topk_group num_expert_group mamba_n_groups n_groups"),
    (32, "kv_lora_rank index_topk mamba_dt_rank"),
    (16, "qk_rope_head_dim rotary_dim mamba_d_state ssm_state_size state_size"),
    (
        LONGEST,
        "max_position_embeddings n_positions max_seq_len model_max_length n_ctx context_length max_target_positions",
    ),
)
BY_KEY = {key: size for size, keys in SIZES for key in keys.split()}
LAYER_KEYS = frozenset(
    "num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers num_encoder_layers num_decoder_layers "
    "depth num_blocks conf_num_hidden_layers num_layers_per_stack attention_layers n_input_layers n_output_layers "
    "n_recurrent_layers".split()
)
VOCABULARY_KEYS = frozenset(
    "vocab_size decoder_vocab_size unpadded_vocab_size vocab_size_per_layer_input encoder_hash_byte_group_vocab".split()
)
DERIVED = frozenset(
    "model_type transformers_version architectures id2label label2id num_labels layer_types mlp_layer_types "
    "indexer_types no_rope_layers moe_layers layers_block_type per_layer_config layer_rope_theta full_attn_idxs "
    "qk_head_dim num_attention_heads_per_layer attn_layers attention_layers hybrid_layer_ids".split()
)
"""What a config class derives from other keys, or writes once per layer."""


def _size(key: str, value: Any, config: Config, layers: int) -> Any:
    """The small value of one key; the value itself where its meaning is unknown."""
    if key.endswith("layerdrop"):
        return 0.0
    if isinstance(value, bool) or not isinstance(value, int):
        return value
    if key in LAYER_KEYS:
        return layers
    if key in VOCABULARY_KEYS:
        return VOCABULARY
    if key.endswith(("_token_id", "_token_index")):
        return value % 90 if value < VOCABULARY else VOCABULARY - 10 - value % 80
    if key in ("num_key_value_heads", "num_kv_heads"):
        grouped = value != config.get("num_attention_heads")
        return min(value, KV_HEADS) if grouped else HEADS
    if key == "head_dim" and "qk_rope_head_dim" in config:
        return BY_KEY["qk_rope_head_dim"]  # latent attention rotates that part of each head only
    if key == "first_k_dense_replace":
        return min(value, 1)
    if key in BY_KEY:
        return min(value, BY_KEY[key]) if value else value
    return value


def _shrunk(config: Config, layers: int) -> Config:
    small: Config = {}
    for key, value in config.items():
        if key in DERIVED or key.startswith("_"):
            continue
        inner = isinstance(value, dict) and "model_type" in value
        small[key] = (
            {"model_type": value["model_type"], **_shrunk(value, layers)}
            if inner
            else _size(key, value, config, layers)
        )
    return small


def _merged(config: Config, more: Config) -> Config:
    """`more` over `config`, config by config; a value of `...` removes the key."""
    for key, value in more.items():
        if value is ...:
            config.pop(key, None)
        elif isinstance(value, dict) and isinstance(config.get(key), dict):
            config[key] = _merged(dict(config[key]), value)
        else:
            config[key] = value
    return config


def small_config(model_type: str, layers: int | None = None) -> Any:
    """The config object of a model of a few layers, 128 wide, with 1000 tokens."""
    config_class = CONFIG_MAPPING[model_type]
    defaults = config_class(**DEFAULTS.get(model_type, {})).to_dict()
    values = _shrunk(defaults, layers or LAYERS.get(model_type, 2))
    return config_class(**_merged(values, ODD.get(model_type, {})))
