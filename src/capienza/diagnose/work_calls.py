"""Calls that use the model: what serving engines prepare, validation, serving, data, and plain computing."""

from __future__ import annotations

from capienza.diagnose.call import Call, call

WORK_CALLS: tuple[Call, ...] = (
    # Graph capture, profiling and pools of serving engines.
    call(
        "graph_capture",
        r"capture|capture_model|capture_\w*graphs?\w*|_capture\w*|init_cuda_graphs?|init_device_graphs"
        r"|capture_one_batch_size|cuda_graph_\w+|capture_begin|capture_end"
        r"|init_forward_metadata_capture_cuda_graph|make_graphed_callables",
    ),
    call(
        "graph_capture",
        path=r"cuda_graph_runner\.py|cuda_graph\.py|torch/cuda/graphs\.py|cudagraph_\w+\.py",
    ),
    call(
        "graph_capture",
        code=r"torch\.cuda\.graph\(|\.capture_model\(|CudaGraphRunner\(|init_cuda_graphs\(|init_device_graphs\(",
    ),
    call(
        "profile_warmup",
        r"profile_run|_dummy_run|profile\w*_run|determine_num_available_blocks|determine_available_memory"
        r"|Warmup|profile_num_available_blocks|_dummy_(?:sampler|pooler)_run\w*|_run_mm_encoder_dummy|warmup|warm_up"
        r"|_warm_?up\w*|warmup_\w+|kernel_warmup|compile_or_warm_up_model|profile_cudagraph_memory"
        r"|profile_multimodal\w*|_profile_multimodal|maybe_profile_\w+|autotune|_autotune\w*|run_autotuner\w*"
        r"|estimate_max_\w+|_estimate_\w+_memory|run_warmup",
    ),
    call(
        "profile_warmup",
        code=(
            r"\.profile_run\(|_dummy_run\(|\.determine_num_available_blocks|\.determine_available_memory|\.warmup\("
            r"|\.warm_up\("
        ),
    ),
    call(
        "kv_cache_allocation",
        r"_?allocate_\w*cache\w*|initialize_cache|_initialize_kv_caches?|initialize_kv_caches?\w*|_?allocate_kv_cache\w*"
        r"|_allocate_kv_cache\w*|init_kv_cache|init_cache_engine|_init_cache_engine|init_memory_pool"
        r"|_init_pools|init_memory_pools?|profile_max_num_token\w*|raise_if_cache_size_invalid"
        r"|_check_enough_kv_cache_memory|check_enough_kv_cache_memory|get_kv_cache_configs?|_create_buffers"
        r"|create_kv_\w+|setup_caches|init_paged_kv\w*|allocate_cache|_setup_cache|initialize_from_config"
        r"|alloc_kv\w*|reset_kv_cache|resize_kv_cache|create_state_tensors",
    ),
    call("kv_cache_allocation", r"__init__|_get_cache|early_initialization", r"/cache_utils\.py|generation/utils\.py"),
    call(
        "kv_cache_allocation",
        path=(
            r"cache_engine\.py|mem_cache/memory_pool\.py|models/cache_manager\.py|flash_causal_lm/kv_cache"
            r"|layers/attention/kv_cache\.py"
        ),
    ),
    # Validation.
    call(
        "eval",
        r"nested_concat|nested_gather|gather_for_metrics|pad_across_processes|nested_numpify|_gather_for_metrics",
        topic="eval",
    ),
    call(
        "eval",
        r"_*(?:evaluate|evaluation|evaluation_loop|eval_loop|prediction_loop|prediction_step|evaluation_step"
        r"|validate|validation|validation_step|validation_epoch\w*|val|val_epoch|val_step|eval_epoch|eval_step"
        r"|eval_model|evaluate_\w+|eval_\w+|run_eval\w*|run_validation|log_validation|do_eval|do_validation"
        r"|validate_\w+|valid|valid_step|valid_epoch|_run_sanity_check|_?run_evaluate|test_epoch|test_step"
        r"|testing|_?maybe_log_save_evaluate|_evaluate|compute_metrics|on_validation_\w+|val_dataloader_loop"
        r"|validate_one_epoch|evaluate_one_epoch|test|test_loop|test_model|inference_on_dataset|simple_evaluate"
        r"|_?loglikelihood\w*|val_loop)",
        r"^(?!.*(?:llama_cpp|/torch/(?:_dynamo|_inductor|fx|jit)|ast\.py|pydantic|config|/vllm/|/sglang/))",
    ),
    call(
        "eval",
        path=(
            r"^(?!.*/(?:torch|pandas|pydantic|sympy|vllm|sglang)/)"
            r"(?:.*/)?(?:(?:val|eval)(?:id|uat)?(?:e|ion|or)?(?:_\w+)?\.py$|evaluation/|lm_eval/"
            r"|opencompass/)"
        ),
    ),
    call(
        "eval",
        r"predict|_predict\w*",
        r"transformers/trainer|lightning",
    ),
    call(
        "eval",
        code=(
            r"preds\w* = .{0,60}torch\.cat\(|torch\.(?:cat|concat\w*|stack|vstack)\(\(?\[?all_\w+"
            r"|all_(?:preds|logits|outputs|labels)\b.{0,40}(?:torch\.cat|append"
            r"|nested_concat)|nested_concat\("
        ),
        topic="eval",
    ),
    call(
        "eval",
        code=(
            r"\btrainer\.(?:evaluate|predict|validate)\(|\.(?:perform|run|do)_\w*(?:validation|evaluation)\(|\b(?:evaluate|validate|validation|run_validation|run_eval"
            r"|do_eval|do_test|eval_model|evaluate_model)\(\s*(?!\w*expr)|\b(?:val|valid|test)_loop\.run\(|\.val_step\("
            r"|trainer\.test\("
        ),
    ),
    # Serving: prefill and decode where one can be told from the other.
    call(
        "prefill",
        r"_?[Pp]refill|_prefill_\w+|prefill_\w+|forward_extend|forward_prefill|_forward_prefill|run_prefill"
        r"|_get_prompt_logprobs\w*|get_prompt_logprobs|_execute_mm_encoder|context_attention_fwd|prepare_prefill"
        r"|process_prompt|prompt_logprobs",
    ),
    call("prefill", path=r"ops/prefill\w*\.py|context_flashattention|prefix_prefill"),
    call("prefill", code=r"\bself\._?prefill\(|\.forward_extend\(|prefill_outputs\b|is_prefill=True"),
    # A whole sequence or its images at once: prefill when it is served, a forward pass when it is trained.
    call(
        "whole",
        r"embed_multimodal|get_multimodal_embeddings|get_\w*(?:image|video|vision|audio)_(?:features|embeds?\w*)"
        r"|encode_(?:images?|videos?)|_encode_image|_process_(?:image|video|audio)_input|chunk_\w*(?:fwd|rule)\w*"
        r"|\w*chunk_(?:scan|state)\w*|ssd_chunk\w*",
    ),
    call("whole", path=r"fla/ops/\w*chunk|fla/ops/\w+/chunk"),
    call(
        "whole",
        code=(
            r"\bchunk_gated_delta_rule\w*\(|\bself\.(?:visual|vision_tower|vision_model|vision_encoder|image_encoder"
            r"|audio_tower|vpm)\("
        ),
    ),
    call(
        "decode",
        r"Decode|forward_decode|_forward_decode|decode_step|_decode_step|decode_one_token|decode_n_tokens"
        r"|_reorder_cache|reorder_cache|batch_repeat_interleave|_temporary_reorder_cache|run_decode"
        r"|event_loop_\w*decode|fused_recurrent_\w+|selective_state_update|paged_attention_v\d|check_decode_mem"
        r"|retract_decode|update_running_batch|prepare_for_decode|decode_batch",
    ),
    call(
        "decode",
        code=(
            r"torch\.cat\(\s*[\[(]\s*(?:self\.(?:key|value)_cache|past_key|layer_past|past_value|k_cache|v_cache"
            r"|past_k|self\.keys|self\.values)|\.forward_decode\(|_reorder_cache\(|decode_one_token\("
        ),
    ),
    # Data and preparation.
    call(
        "data",
        r"_next_data|_process_next_batch|_try_get_data|_get_data|fetch|default_collate|collate_\w*|_worker_loop"
        r"|_do_pin_memory_loop|pin_memory|__getitem__|_map_single|map|encode_batch|tokenize\w*|torch_call"
        r"|preprocess_function|prepare_dataset|_prepare_dataset",
        r"torch/utils/data|datasets/|data_?loader|dataset|data_collator|collat",
    ),
    call("data", path=r"/datasets/(?:builder|arrow_dataset|table|features/|packaged_modules/)"),
    call(
        "environment",
        r"_lazy_init|_cuda_init|_check_driver",
        r"torch/cuda",
    ),
    call(
        "startup",
        r"create_engine_config|create_model_config|verify_with_parallel_config|_verify_\w+|__post_init__"
        r"|init_device|init_distributed_environment|init_worker_distributed_environment|check_server_args"
        r"|parse_args|from_cli_args|init_torch_distributed|get_open_port|_init_executor|init_process_group"
        r"|initialize_model_parallel|_check_config|validate_\w*args?|initialize_ray_cluster|_bind|bind"
        r"|check_gpu_\w+|setup_server|bind_socket|launch_model",
        r"vllm|sglang|xinference|lmdeploy|tensorrt_llm|torch/distributed|ray/|text_generation|argparse|config"
        r"|server|engine|uvicorn|megatron/training",
    ),
    call(
        "startup",
        path=r"configuration_(?:utils|auto)\.py|image_processing_\w+\.py$|/hydra/|omegaconf/",
    ),
    call("load", code=r"temp_file\.write\("),
    call(
        "startup",
        path=r"urllib3/|requests/|httpx/|httpcore/|huggingface_hub/(?:utils/_http|file_download|hf_api)",
    ),
    call(
        "data",
        r"convert_to_tensors|_batch_encode_plus|_encode_plus|pad|_pad|batch_encode_plus|_call_one|encode"
        r"|_tokenize\w*|tokenize\w*",
        r"tokeniz",
    ),
    call(
        "startup",
        code=(
            r"json\.loads?\(\s*(?:\w*conf|f\b|cfg|[^)]{0,40}conf)|yaml\.(?:safe_|full_)?load\(|OmegaConf\.load|parse_args\("
            r"|HfArgumentParser|parse_json_file\("
        ),
    ),
    # Computing. Weak: what contains it tells more.
    call(
        "generate",
        r"generate|_?sample|greedy_search|_greedy_search|contrastive_search|_contrastive_search|beam_search"
        r"|_beam_search|_assisted_decoding|assisted_decoding|beam_sample|_beam_sample|chat|stream_chat"
        r"|stream_generate",
        r"generation|modeling_|generate|trl|unsloth|vllm/entrypoints|tasks|utils\.py",
    ),
    call(
        "serve",
        r"execute_model|_model_forward|run_engine_loop|run_busy_loop|step_async|engine_step|engine_step_async"
        r"|event_loop_overlap|event_loop_normal|run_batch|forward_thread_func|forward_thread_func_|_engine_step"
        r"|run_busy_loop|process_input_queue|generate_token|forward_batch_generation|_forward_step"
        r"|executor_request_fetcher|_executor_loop\w*",
        is_weak=False,
    ),
    call("forward", r"_?convert_to_fp32", r"accelerate/", topic="logits"),
    call("forward", code=r"compute_loss\("),
    call(
        "forward",
        r"compute_loss|_compute_loss|get_batch_loss_metrics|concatenated_forward|_compute_loss_\w+",
    ),
    call(
        "forward",
        r"get_batch_logps|_get_per_token_logps\w*|selective_log_softmax|cross_entropy|fixed_cross_entropy"
        r"|ForCausalLMLoss|log_softmax|nll_loss|get_batch_logits|logprobs_from_logits|lm_head_forward"
        r"|logits_to_logprobs|entropy_from_logits|ce_loss|criterion|compute_logits|_get_logits|_compute_logits"
        r"|gather_log_probs|logsumexp|compute_log_probs?|fused_linear_cross_entropy\w*"
        r"|vocab_parallel_cross_entropy",
        topic="logits",
    ),
    call(
        "forward",
        code=(
            r"cross_entropy\(|\blm_head\(|\blogits\s*=\s*(?!None)|log_softmax\(|logits\.float\(\)|logits\.to\("
            r"|shift_logits|logits / |criterion\(|log_?probs?\(|logits\.clone|loss_fct\(|loss_fn\(|\.logits\b"
        ),
        topic="logits",
    ),
    call(
        "forward",
        r"forward|__call__|_call_impl|_wrapped_call_impl|_slow_forward|training_step|train_step"
        r"|scaled_dot_product_attention|checkpointed_forward|_fn|custom_forward|inner|decorate_autocast"
        r"|decorate_context|_conv_forward|eager_attention_forward|\w*attention_forward|apply_rotary_pos_emb"
        r"|repeat_kv|sample_euler\w*|p_losses|shared_step|apply_model|forward_step|forward_\w+|_forward\w*"
        r"|model_fn|decode_latents|encode_prompt|decode_tiled\w*|encode_first_stage|decode_first_stage"
        r"|sampling_function|calc_cond\w*|get_output_data|pairwise_distance|softmax|relu|gelu|dropout"
        r"|layer_norm|linear|conv2d|interpolate|batch_norm|max_pool2d",
        is_weak=True,
    ),
    call(
        "forward",
        code=(
            r"^\s*\w+(?:, ?\w+)* = (?:self\.)?(?:model|net|module|unet|transformer|network|seg_net|vae|encoder"
            r"|decoder)\w*\(|scaled_dot_product_attention\(|\bF\.\w+\(|torch\.nn\.functional\.|torch\.(?:matmul|bmm"
            r"|baddbmm|einsum|softmax)\(|\bout(?:puts?)? = self\.|self\.model\(|\bself\.(?:conv|bn|fc|attn|mlp"
            r"|layers?|linear|act|gate_proj|up_proj|down_proj|q_proj|k_proj|v_proj|o_proj"
            r"|self_attn)\w*(?:\[\w+\])?\(|attn_weights = |attention_(?:scores|probs)\b|hidden_states = |\.softmax\("
        ),
        is_weak=True,
    ),
)
