"""The table of calls: functions, files and lines of code that one phase alone runs. The first match counts."""

from __future__ import annotations

import re

import msgspec


class Call(msgspec.Struct, frozen=True, gc=False):
    """A known call: every pattern given must match (function in full, path and code anywhere).

    `topic` is what the call works on where that tells the cause, such as logits; a weak row says only that the model
    computes.
    """

    phase: str
    function: re.Pattern[str] | None
    path: re.Pattern[str] | None
    code: re.Pattern[str] | None
    topic: str = ""
    is_weak: bool = False


def _call(
    phase: str, function: str = "", path: str = "", code: str = "", topic: str = "", *, is_weak: bool = False
) -> Call:
    return Call(phase, _pattern(function), _pattern(path), _pattern(code), topic, is_weak)


def _pattern(text: str) -> re.Pattern[str] | None:
    return re.compile(text) if text else None


_MODEL = (
    r"(?:\w*(?:model|net|pipe|pipeline|unet|vae|encoder|decoder|transformer|module|llm|policy|critic|generator"
    r"|discriminator|backbone|student|teacher|adapter)\w*)"
)

CALLS: tuple[Call, ...] = (
    _call(
        "teardown",
        r"destroy\w*|_shutdown\w*|shutdown|__del__|teardown|_exit_function|_cleanup\w*|abort\w*",
    ),
    # Exporting and saving. Quantising for export is of the same kind: it writes another model. Merging makes a second
    # copy of what it merges.
    _call(
        "checkpoint",
        r"merge_and_unload|_unload_and_optionally_merge|merge_adapter|unload_and_\w+|unsloth_save_model"
        r"|save_pretrained_(?:merged|gguf)|merge_lora\w*|merge_weights|merge_adapters?|fuse_lora|get_delta_weight"
        r"|_?unsloth_merge\w*|merge_to_base\w*",
        topic="merge",
    ),
    _call(
        "checkpoint",
        code=r"\.merge_and_unload\(|\.merge_adapter\(|\.fuse_lora\(|save_pretrained_(?:merged|gguf)\(",
        topic="merge",
    ),
    _call(
        "checkpoint",
        r"fasterquant|quantize|_quantize|quantize_(?:model|weight|layer|module|block)\w*|oneshot"
        r"|gptq_\w+|awq_\w+|convert_to_\w+",
        r"(?i)gptq|awq|quanti|llmcompressor|peft|unsloth|merge|hqq|autoround|auto_round|neural_compressor|onnx"
        r"|export|convert|opt\.py|llama\.py",
        topic="export",
    ),
    _call(
        "checkpoint",
        code=(
            r"\.quantize\(|^oneshot\(|\btorch\.jit\.trace\(|\btorch\.export\.export\("
            r"|\.fasterquant\(|\btorch\.onnx\.export\("
        ),
    ),
    _call(
        "checkpoint",
        r"export|_export|export_\w+|onnx_export|main_export",
        r"onnx|optimum|export",
    ),
    _call(
        "checkpoint",
        r"_save_checkpoint|save_checkpoint|save_model|_save|save|save_pretrained|save_state|_save_\w+"
        r"|save_to_\w+|save_\w*(?:model|checkpoint|weights|state|lora|adapter)\w*|dump_checkpoint|legacy_save"
        r"|_legacy_save|maybe_save_checkpoint|async_save|on_save|write_\w*checkpoint",
        r"^(?!.*/(?:PIL|datasets|numpy|pandas|matplotlib)/)",
        topic="save",
    ),
    _call(
        "checkpoint",
        r"state_dict|_state_dict|_full_post_state_dict_hook|_common_unshard_post_state_dict_hook"
        r"|_\w*state_dict_hook|full_optim_state_dict|_optim_state_dict\w*|optim_state_dict|get_model_state_dict"
        r"|get_state_dict|_gather_state_dict|_zero3_consolidated_16bit_state_dict|consolidate_state_dict"
        r"|full_tensor|gather_full_state\w*|get_fp32_state_dict\w*|convert_zero_checkpoint\w*",
        topic="gather",
    ),
    _call(
        "checkpoint",
        code=(
            r"\btorch\.save\(|\.save_pretrained\(|\.save_model\(|\.save_checkpoint\(|\.save_state\("
            r"|accelerator\.save\(|safetensors\.\w*\.?save_file\(|(?<!load_)(?<!_from_)(?:model|module"
            r"|optimizer)\.state_dict\(\)|get_state_dict\("
        ),
        topic="save",
    ),
    # Optimizer.
    _call(
        "optimizer_step",
        r"step|_step\w*|step_\w+|_init_group|init_state|_init_state|initialize_optimizer_states"
        r"|_take_model_step|optimizer_step|_optimizer_step\w*|_?(?:multi|single)_tensor_\w+|_fused_\w*"
        r"|fused_\w+|init_group|update_step|adamw?|adafactor|sgd|lion|get_state_buffer|_maybe_opt_step|unscale_"
        r"|_unscale_grads_|_post_step|clip_grad_norm_?|clip_grad_norm_\w*|_clip_grad\w*|_foreach_\w+"
        r"|unscale_and_clip_grads|get_grad_norm\w*|scaled_global_norm|zero_grad|_exp_avg\w*|unflatten_\w+",
        r"torch/optim|bitsandbytes/optim|deepspeed/(?:runtime|ops)|apex|transformers/optimization"
        r"|accelerate/optimizer|optim|lion|galore|adam|shampoo|muon|amp/grad_scaler|clip_grad|megatron|fairseq",
    ),
    _call(
        "optimizer_step",
        r"optimizer_step|_take_model_step|initialize_optimizer_states|train_step_optimizer|take_optimizer_step",
    ),
    _call(
        "optimizer_step",
        code=(
            r"\b\w*optim\w*(?:\[\w+\])?\.step\(|\bscaler\.step\(|\bopt\w?\.step\(|_take_model_step\("
            r"|initialize_optimizer_states\(|\[.exp_avg(?:_sq)?.\]|clip_grad_norm_\(|exp_avg_sq"
        ),
    ),
    _call(
        "load",
        r"__init__",
        r"modeling_|custom_modeling|model_executor/(?:models|layers)|srt/(?:models|layers)|transformers/models/",
    ),
    # Loading, also when a run is resumed. Some calls hold what they load a second time.
    _call("load", r"patch_weight_to_device|calculate_weight|patch_model\w*|load_lora_for_models", topic="copy"),
    _call(
        "load",
        code=rf"\bdeepcopy\(\s*(?:state_dict|checkpoint|ckpt|(?:self\.)?{_MODEL})\)|cast_to_device\(.*copy=True",
        topic="copy",
    ),
    _call("load", r"_?load_(?:opt|optim|optimizer)(?:_\w+)?", topic="optimizer"),
    _call(
        "load",
        r"from_pretrained|_from_pretrained|from_single_file|from_config|from_checkpoint|load_from_checkpoint"
        r"|load_\w*(?:model|weight|checkpoint|state|module|pipeline|tensor|pretrained|lora|adapter|encoder|unet"
        r"|vae|shard)\w*|load_state_dict|_load_state_dict\w*|_load_\w*(?:model|checkpoint|weight|state"
        r"|shard)\w*|load_file|load_weights\w*|load_single_module|load_torch_file|load_sd|_load|load_lora\w*"
        r"|load_clip|load_diffusion_model\w*",
    ),
    _call(
        "load",
        r"dispatch_model|set_module_tensor_to_device|set_module_quantized_tensor_to_device"
        r"|create_quantized_param|_move_model_to_device|_move_missing_keys\w*|move_missing_keys\w*"
        r"|process_weights_after_loading|_?wake_up|create_and_map|create_weights|_initialize_model"
        r"|initialize_model|get_model|download_model|prepare_model_for_kbit_training|replace_with_bnb_linear"
        r"|patch_weight_to_device|partially_load|model_load|model_use_more_vram|_convert_to_\w*bit"
        r"|quantize_4bit|materialize_and_distribute\w*|caching_allocator_warmup|_?initialize_missing_keys|_finalize_model_loading|_convert_to_zero_parameters|init_model|build_model"
        r"|create_model|model_provider|get_model_\w*provider|setup_model|_setup_model\w*|resume_from_checkpoint"
        r"|_maybe_load\w*|ensure_weights_retie",
    ),
    _call(
        "load",
        r"cuda|to|_apply|convert|half|float|bfloat16|to_empty|cpu",
        r"nn/modules/module\.py|transformers/modeling_utils\.py|diffusers/|accelerate/big_modeling\.py"
        r"|lightning\w*/\w*/?core/|mixins/device_dtype",
    ),
    _call(
        "load",
        r"__init__|_init_\w+|_configure_distributed_model|_broadcast_model|_create_fp16_partitions\w*"
        r"|_create_fp32_partitions|create_reduce_and_remove_grad_hooks|_flatten_\w+|flatten_dense_tensors\w*"
        r"|_auto_wrap|_recursive_wrap|_wrap|sync_params_and_buffers|_sync_\w+|_init_param_handle_from_module"
        r"|_sync_module_\w+|_materialize\w*",
        r"deepspeed/|fsdp|fully_sharded|nn/parallel/distributed",
        topic="wrap",
    ),
    _call(
        "load",
        r"(?:_?prepare_model|_?prepare_one|prepare|_prepare_deepspeed|_prepare_fsdp\w*)",
        r"accelerate/accelerator\.py|fabric|strategies",
    ),
    _call(
        "load",
        code=rf"\b{_MODEL}(?:\[\w+\])?\s*\.(?:to|cuda|half|bfloat16|float|to_empty|xpu|npu)\(|\.from_pretrained\(|\btorch\.load\(|\.load_state_dict\(|\bload_(?:model|checkpoint|weights|file|pretrained|state_dict)\w*\(|AutoModel\w*\(|\bLlama\(\s*$|\bget_peft_model\(|load_checkpoint_and_dispatch\(|safe_open\(|dispatch_model\(",
    ),
    _call(
        "load",
        r"create_lora_\w+|_?load_(?!data|image|audio|video|batch|conf|token|args|env|yaml|json|sample|example|text|csv)\w+",
    ),
    # Backward.
    _call(
        "backward",
        r"backward|_backward\w*|run_backward|_engine_run_backward|backward_\w+|_run_backward|manual_backward"
        r"|compiled_bw|bwd|_bwd\w*|backward_step|grad",
        r"^(?!.*loss\.py)",
    ),
    _call("backward", r"_post_backward\w*|_pre_backward\w*|_reduce_grad\w*|post_backward|pre_backward", r"fsdp"),
    _call(
        "backward",
        code=r"\.backward\(|\bbackward\(loss|autograd\.grad\(|_execution_engine\.run_backward|_(?:backward|bwd)\w*\[",
    ),
    # Graph capture, profiling and pools of serving engines.
    _call(
        "graph_capture",
        r"capture|capture_model|capture_\w*graphs?\w*|_capture\w*|init_cuda_graphs?|init_device_graphs"
        r"|capture_one_batch_size|cuda_graph_\w+|capture_begin|capture_end"
        r"|init_forward_metadata_capture_cuda_graph|make_graphed_callables",
    ),
    _call(
        "graph_capture",
        path=r"cuda_graph_runner\.py|cuda_graph\.py|torch/cuda/graphs\.py|cudagraph_\w+\.py",
    ),
    _call(
        "graph_capture",
        code=r"torch\.cuda\.graph\(|\.capture_model\(|CudaGraphRunner\(|init_cuda_graphs\(|init_device_graphs\(",
    ),
    _call(
        "profile_warmup",
        r"profile_run|_dummy_run|profile\w*_run|determine_num_available_blocks|determine_available_memory"
        r"|Warmup|profile_num_available_blocks|_dummy_(?:sampler|pooler)_run\w*|_run_mm_encoder_dummy|warmup|warm_up"
        r"|_warm_?up\w*|warmup_\w+|kernel_warmup|compile_or_warm_up_model|profile_cudagraph_memory"
        r"|profile_multimodal\w*|_profile_multimodal|maybe_profile_\w+|autotune|_autotune\w*|run_autotuner\w*"
        r"|estimate_max_\w+|_estimate_\w+_memory|run_warmup",
    ),
    _call(
        "profile_warmup",
        code=(
            r"\.profile_run\(|_dummy_run\(|\.determine_num_available_blocks|\.determine_available_memory|\.warmup\("
            r"|\.warm_up\("
        ),
    ),
    _call(
        "kv_cache_allocation",
        r"_?allocate_\w*cache\w*|initialize_cache|_initialize_kv_caches?|initialize_kv_caches?\w*|_?allocate_kv_cache\w*"
        r"|_allocate_kv_cache\w*|init_kv_cache|init_cache_engine|_init_cache_engine|init_memory_pool"
        r"|_init_pools|init_memory_pools?|profile_max_num_token\w*|raise_if_cache_size_invalid"
        r"|_check_enough_kv_cache_memory|check_enough_kv_cache_memory|get_kv_cache_configs?|_create_buffers"
        r"|create_kv_\w+|setup_caches|init_paged_kv\w*|allocate_cache|_setup_cache|initialize_from_config"
        r"|alloc_kv\w*|reset_kv_cache|resize_kv_cache",
    ),
    _call("kv_cache_allocation", r"__init__|_get_cache|early_initialization", r"/cache_utils\.py|generation/utils\.py"),
    _call(
        "kv_cache_allocation",
        path=(
            r"cache_engine\.py|mem_cache/memory_pool\.py|models/cache_manager\.py|flash_causal_lm/kv_cache"
            r"|layers/attention/kv_cache\.py"
        ),
    ),
    # Validation.
    _call(
        "eval",
        r"nested_concat|nested_gather|gather_for_metrics|pad_across_processes|nested_numpify|_gather_for_metrics",
        topic="eval",
    ),
    _call(
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
    _call(
        "eval",
        path=(
            r"^(?!.*/(?:torch|pandas|pydantic|sympy|vllm|sglang)/)"
            r"(?:.*/)?(?:(?:val|eval)(?:id|uat)?(?:e|ion|or)?(?:_\w+)?\.py$|evaluation/|lm_eval/"
            r"|opencompass/)"
        ),
    ),
    _call(
        "eval",
        r"predict|_predict\w*",
        r"transformers/trainer|lightning",
    ),
    _call(
        "eval",
        code=(
            r"preds\w* = .{0,60}torch\.cat\(|torch\.(?:cat|concat\w*|stack|vstack)\(\(?\[?all_\w+"
            r"|all_(?:preds|logits|outputs|labels)\b.{0,40}(?:torch\.cat|append"
            r"|nested_concat)|nested_concat\("
        ),
        topic="eval",
    ),
    _call(
        "eval",
        code=(
            r"\btrainer\.(?:evaluate|predict|validate)\(|\b(?:evaluate|validate|validation|run_validation|run_eval"
            r"|do_eval|do_test|eval_model|evaluate_model)\(\s*(?!\w*expr)|\b(?:val|valid|test)_loop\.run\(|\.val_step\("
            r"|trainer\.test\("
        ),
    ),
    # Serving: prefill and decode where one can be told from the other.
    _call(
        "prefill",
        r"_?[Pp]refill|_prefill_\w+|prefill_\w+|forward_extend|forward_prefill|_forward_prefill|run_prefill"
        r"|_get_prompt_logprobs\w*|get_prompt_logprobs|_execute_mm_encoder|context_attention_fwd|prepare_prefill"
        r"|process_prompt|prompt_logprobs",
    ),
    _call("prefill", path=r"ops/prefill\w*\.py|context_flashattention|prefix_prefill"),
    _call("prefill", code=r"\bself\._?prefill\(|\.forward_extend\(|prefill_outputs\b|is_prefill=True"),
    # A whole sequence or its images at once: prefill when it is served, a forward pass when it is trained.
    _call(
        "whole",
        r"embed_multimodal|get_multimodal_embeddings|get_\w*(?:image|video|vision|audio)_(?:features|embeds?\w*)"
        r"|encode_(?:images?|videos?)|_encode_image|_process_(?:image|video|audio)_input|chunk_\w*(?:fwd|rule)\w*"
        r"|\w*chunk_(?:scan|state)\w*|ssd_chunk\w*",
    ),
    _call("whole", path=r"fla/ops/\w*chunk|fla/ops/\w+/chunk"),
    _call(
        "whole",
        code=(
            r"\bchunk_gated_delta_rule\w*\(|\bself\.(?:visual|vision_tower|vision_model|vision_encoder|image_encoder"
            r"|audio_tower|vpm)\("
        ),
    ),
    _call(
        "decode",
        r"Decode|forward_decode|_forward_decode|decode_step|_decode_step|decode_one_token|decode_n_tokens"
        r"|_reorder_cache|reorder_cache|batch_repeat_interleave|_temporary_reorder_cache|run_decode"
        r"|event_loop_\w*decode|fused_recurrent_\w+|selective_state_update|paged_attention_v\d|check_decode_mem"
        r"|retract_decode|update_running_batch|prepare_for_decode|decode_batch",
    ),
    _call(
        "decode",
        code=(
            r"torch\.cat\(\s*[\[(]\s*(?:self\.(?:key|value)_cache|past_key|layer_past|past_value|k_cache|v_cache"
            r"|past_k|self\.keys|self\.values)|\.forward_decode\(|_reorder_cache\(|decode_one_token\("
        ),
    ),
    # Data and preparation.
    _call(
        "data",
        r"_next_data|_process_next_batch|_try_get_data|_get_data|fetch|default_collate|collate_\w*|_worker_loop"
        r"|_do_pin_memory_loop|pin_memory|__getitem__|_map_single|map|encode_batch|tokenize\w*|torch_call"
        r"|preprocess_function|prepare_dataset|_prepare_dataset",
        r"torch/utils/data|datasets/|data_?loader|dataset|data_collator|collat",
    ),
    _call("data", path=r"/datasets/(?:builder|arrow_dataset|table|features/|packaged_modules/)"),
    _call(
        "environment",
        r"_lazy_init|_cuda_init|_check_driver",
        r"torch/cuda",
    ),
    _call(
        "startup",
        r"create_engine_config|create_model_config|verify_with_parallel_config|_verify_\w+|__post_init__"
        r"|init_device|init_distributed_environment|init_worker_distributed_environment|check_server_args"
        r"|parse_args|from_cli_args|init_torch_distributed|get_open_port|_init_executor|init_process_group"
        r"|initialize_model_parallel|_check_config|validate_\w*args?|initialize_ray_cluster|_bind|bind"
        r"|check_gpu_\w+|setup_server|bind_socket|launch_model",
        r"vllm|sglang|xinference|lmdeploy|tensorrt_llm|torch/distributed|ray/|text_generation|argparse|config"
        r"|server|engine|uvicorn|megatron/training",
    ),
    _call(
        "startup",
        path=r"configuration_(?:utils|auto)\.py|image_processing_\w+\.py$|/hydra/|omegaconf/",
    ),
    _call("load", code=r"temp_file\.write\("),
    _call(
        "startup",
        path=r"urllib3/|requests/|httpx/|httpcore/|huggingface_hub/(?:utils/_http|file_download|hf_api)",
    ),
    _call(
        "data",
        r"convert_to_tensors|_batch_encode_plus|_encode_plus|pad|_pad|batch_encode_plus|_call_one|encode"
        r"|_tokenize\w*|tokenize\w*",
        r"tokeniz",
    ),
    _call(
        "startup",
        code=(
            r"json\.loads?\(\s*(?:\w*conf|f\b|cfg|[^)]{0,40}conf)|yaml\.(?:safe_|full_)?load\(|OmegaConf\.load|parse_args\("
            r"|HfArgumentParser|parse_json_file\("
        ),
    ),
    # Computing. Weak: what contains it tells more.
    _call(
        "generate",
        r"generate|_?sample|greedy_search|_greedy_search|contrastive_search|_contrastive_search|beam_search"
        r"|_beam_search|_assisted_decoding|assisted_decoding|beam_sample|_beam_sample|chat|stream_chat"
        r"|stream_generate",
        r"generation|modeling_|generate|trl|unsloth|vllm/entrypoints|tasks|utils\.py",
    ),
    _call(
        "serve",
        r"execute_model|_model_forward|run_engine_loop|run_busy_loop|step_async|engine_step|engine_step_async"
        r"|event_loop_overlap|event_loop_normal|run_batch|forward_thread_func|forward_thread_func_|_engine_step"
        r"|run_busy_loop|process_input_queue|generate_token|forward_batch_generation|_forward_step"
        r"|executor_request_fetcher|_executor_loop\w*",
        is_weak=False,
    ),
    _call("forward", r"_?convert_to_fp32", r"accelerate/", topic="logits"),
    _call("forward", code=r"compute_loss\("),
    _call(
        "forward",
        r"compute_loss|_compute_loss|get_batch_loss_metrics|concatenated_forward|_compute_loss_\w+",
    ),
    _call(
        "forward",
        r"get_batch_logps|_get_per_token_logps\w*|selective_log_softmax|cross_entropy|fixed_cross_entropy"
        r"|ForCausalLMLoss|log_softmax|nll_loss|get_batch_logits|logprobs_from_logits|lm_head_forward"
        r"|logits_to_logprobs|entropy_from_logits|ce_loss|criterion|compute_logits|_get_logits|_compute_logits"
        r"|gather_log_probs|logsumexp|compute_log_probs?|fused_linear_cross_entropy\w*"
        r"|vocab_parallel_cross_entropy",
        topic="logits",
    ),
    _call(
        "forward",
        code=(
            r"cross_entropy\(|\blm_head\(|\blogits\s*=\s*(?!None)|log_softmax\(|logits\.float\(\)|logits\.to\("
            r"|shift_logits|logits / |criterion\(|log_?probs?\(|logits\.clone|loss_fct\(|loss_fn\(|\.logits\b"
        ),
        topic="logits",
    ),
    _call(
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
    _call(
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
