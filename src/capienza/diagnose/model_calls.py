"""Calls that write, load or change the model: export and saving, the optimizer, loading, the backward pass."""

from __future__ import annotations

from capienza.diagnose.call import Call, call

_MODEL = (
    r"(?:\w*(?:model|net|pipe|pipeline|unet|vae|encoder|decoder|transformer|module|llm|policy|critic|generator"
    r"|discriminator|backbone|student|teacher|adapter)\w*)"
)

MODEL_CALLS: tuple[Call, ...] = (
    call(
        "teardown",
        r"destroy\w*|_shutdown\w*|shutdown|__del__|teardown|_exit_function|_cleanup\w*|abort\w*",
    ),
    # Exporting and saving. Quantising for export is of the same kind: it writes another model. Merging makes a second
    # copy of what it merges.
    call(
        "checkpoint",
        r"merge_and_unload|_unload_and_optionally_merge|merge_adapter|unload_and_\w+|unsloth_save_model"
        r"|save_pretrained_(?:merged|gguf)|merge_lora\w*|merge_weights|merge_adapters?|fuse_lora|get_delta_weight"
        r"|_?unsloth_merge\w*|merge_to_base\w*",
        topic="merge",
    ),
    call(
        "checkpoint",
        code=r"\.merge_and_unload\(|\.merge_adapter\(|\.fuse_lora\(|save_pretrained_(?:merged|gguf)\(",
        topic="merge",
    ),
    call(
        "checkpoint",
        r"fasterquant|quantize|_quantize|quantize_(?:model|weight|layer|module|block)\w*|oneshot"
        r"|gptq_\w+|awq_\w+|convert_to_\w+",
        r"(?i)gptq|awq|quanti|llmcompressor|peft|unsloth|merge|hqq|autoround|auto_round|neural_compressor|onnx"
        r"|export|convert|opt\.py|llama\.py",
        topic="export",
    ),
    call(
        "checkpoint",
        code=(
            r"\.quantize\(|^oneshot\(|\btorch\.jit\.trace\(|\btorch\.export\.export\("
            r"|\.fasterquant\(|\btorch\.onnx\.export\("
        ),
    ),
    call("checkpoint", path=r"ds_to_universal|zero_to_fp32|convert_\w*(?:checkpoint|ckpt)\w*\.py"),
    call(
        "checkpoint",
        r"export|_export|export_\w+|onnx_export|main_export",
        r"onnx|optimum|export",
    ),
    call(
        "checkpoint",
        r"_save_checkpoint|save_checkpoint|save_model|_save|save|save_pretrained|save_state|_save_\w+"
        r"|save_to_\w+|save_\w*(?:model|checkpoint|weights|state|lora|adapter)\w*|dump_checkpoint|legacy_save"
        r"|_legacy_save|maybe_save_checkpoint|async_save|on_save|write_\w*checkpoint",
        r"^(?!.*/(?:PIL|datasets|numpy|pandas|matplotlib)/)",
        topic="save",
    ),
    call(
        "checkpoint",
        r"state_dict|_state_dict|_full_post_state_dict_hook|_common_unshard_post_state_dict_hook"
        r"|_\w*state_dict_hook|full_optim_state_dict|_optim_state_dict\w*|optim_state_dict|get_model_state_dict"
        r"|get_state_dict|_gather_state_dict|_zero3_consolidated_16bit_state_dict|consolidate_state_dict"
        r"|full_tensor|gather_full_state\w*|get_fp32_state_dict\w*|convert_zero_checkpoint\w*",
        topic="gather",
    ),
    call(
        "checkpoint",
        code=(
            r"\btorch\.save\(|\.save_pretrained\(|\.save_model\(|\.save_checkpoint\(|\.save_state\("
            r"|accelerator\.save\(|safetensors\.\w*\.?save_file\(|(?<!load_)(?<!_from_)(?:model|module"
            r"|optimizer)\.state_dict\(\)|get_state_dict\("
        ),
        topic="save",
    ),
    # Optimizer.
    call(
        "optimizer_step",
        r"step|_step\w*|step_\w+|_init_group|init_state|_init_state|initialize_optimizer_states"
        r"|_take_model_step|optimizer_step|_optimizer_step\w*|_?(?:multi|single)_tensor_\w+|_fused_\w*"
        r"|fused_\w+|init_group|update_step|adamw?|adafactor|sgd|lion|get_state_buffer|_maybe_opt_step|unscale_"
        r"|_unscale_grads_|_post_step|clip_grad_norm_?|clip_grad_norm_\w*|_clip_grad\w*|_foreach_\w+"
        r"|unscale_and_clip_grads|get_grad_norm\w*|scaled_global_norm|zero_grad|_exp_avg\w*|unflatten_\w+",
        r"torch/optim|bitsandbytes/optim|deepspeed/(?:runtime|ops)|apex|transformers/optimization"
        r"|accelerate/optimizer|optim|lion|galore|adam|shampoo|muon|amp/grad_scaler|clip_grad|megatron|fairseq",
    ),
    call(
        "optimizer_step",
        r"optimizer_step|_take_model_step|initialize_optimizer_states|train_step_optimizer|take_optimizer_step",
    ),
    call(
        "optimizer_step",
        code=(
            r"\b\w*optim\w*(?:\[\w+\])?\.step\(|\bscaler\.step\(|\bopt\w?\.step\(|_take_model_step\("
            r"|initialize_optimizer_states\(|\[.exp_avg(?:_sq)?.\]|clip_grad_norm_\(|exp_avg_sq"
        ),
    ),
    call(
        "load",
        r"__init__",
        r"modeling_|custom_modeling|model_executor/(?:models|layers)|srt/(?:models|layers)|transformers/models/"
        r"|(?:model|tensor)_parallel/layers|nn/modules/(?:linear|sparse|conv|normalization)\.py",
    ),
    # Loading, also when a run is resumed. Some calls hold what they load a second time.
    call("load", r"patch_weight_to_device|calculate_weight|patch_model\w*|load_lora_for_models", topic="copy"),
    call(
        "load",
        code=rf"\bdeepcopy\(\s*(?:state_dict|checkpoint|ckpt|(?:self\.)?{_MODEL})\)|cast_to_device\(.*copy=True",
        topic="copy",
    ),
    call("load", r"shard_and_distribute_module|distribute_(?:tensor|module)|partition_tensor"),
    call("load", code=r"^(?:self\.)?(?:model|net|network|unet|llm) = [A-Z]\w*\("),
    call("load", r"_?load_(?:opt|optim|optimizer)(?:_\w+)?", topic="optimizer"),
    call(
        "load",
        r"from_pretrained|_from_pretrained|from_single_file|from_config|from_checkpoint|load_from_checkpoint"
        r"|load_\w*(?:model|weight|checkpoint|state|module|pipeline|tensor|pretrained|lora|adapter|encoder|unet"
        r"|vae|shard)\w*|load_state_dict|_load_state_dict\w*|_load_\w*(?:model|checkpoint|weight|state"
        r"|shard)\w*|load_file|load_weights\w*|load_single_module|load_torch_file|load_sd|_load|load_lora\w*"
        r"|load_clip|load_diffusion_model\w*",
    ),
    call(
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
    call(
        "load",
        r"cuda|to|_apply|convert|half|float|bfloat16|to_empty|cpu",
        r"nn/modules/module\.py|transformers/modeling_utils\.py|diffusers/|accelerate/big_modeling\.py"
        r"|lightning\w*/\w*/?core/|mixins/device_dtype",
    ),
    call(
        "load",
        r"__init__|_init_\w+|_configure_distributed_model|_broadcast_model|_create_fp16_partitions\w*"
        r"|_create_fp32_partitions|create_reduce_and_remove_grad_hooks|_flatten_\w+|flatten_dense_tensors\w*"
        r"|_auto_wrap|_recursive_wrap|_wrap|sync_params_and_buffers|_sync_\w+|_init_param_handle_from_module"
        r"|_sync_module_\w+|_materialize\w*",
        r"deepspeed/|fsdp|fully_sharded|nn/parallel/distributed",
        topic="wrap",
    ),
    call(
        "load",
        r"(?:_?prepare_model|_?prepare_one|prepare|_prepare_deepspeed|_prepare_fsdp\w*)",
        r"accelerate/accelerator\.py|fabric|strategies",
    ),
    call(
        "load",
        code=rf"\b{_MODEL}(?:\[\w+\])?\s*\.(?:to|cuda|half|bfloat16|float|to_empty|xpu|npu)\(|\.from_pretrained\(|\btorch\.load\(|\.load_state_dict\(|\bload_(?:model|checkpoint|weights|file|pretrained|state_dict)\w*\(|AutoModel\w*\(|\bLlama\(\s*$|\bget_peft_model\(|load_checkpoint_and_dispatch\(|safe_open\(|dispatch_model\(",
    ),
    call(
        "load",
        r"create_lora_\w+|_?load_(?!data|image|audio|video|batch|conf|token|args|env|yaml|json|sample|example|text|csv)\w+",
    ),
    # Backward.
    call(
        "backward",
        r"backward|_backward\w*|run_backward|_engine_run_backward|backward_\w+|_run_backward|manual_backward"
        r"|compiled_bw|bwd|_bwd\w*|backward_step|grad",
        r"^(?!.*loss\.py)",
    ),
    call(
        "backward",
        r"\w*reduce\w*(?:grads?|ipg|buckets?)\w*|average_tensor|overlapping_partition_\w+|allreduce_gradients|\w+_ipg_\w+",
        r"deepspeed",
    ),
    call("backward", r"_post_backward\w*|_pre_backward\w*|_reduce_grad\w*|post_backward|pre_backward", r"fsdp"),
    call(
        "backward",
        code=r"\.backward\(|\bbackward\(loss|autograd\.grad\(|_execution_engine\.run_backward|_(?:backward|bwd)\w*\[",
    ),
)
