"""Small logs of our own making, in the shapes in which frameworks print: (name, phase, cause or None, memory or None,
is fatal, log). `None` is not checked: the lines leave it open.
"""

from __future__ import annotations

OOM2 = (
    "CUDA out of memory. Tried to allocate 640.00 MiB. GPU 0 has a total capacity of 23.65 GiB of which 211.06 MiB is "
    "free. Including non-PyTorch memory, this process has 23.43 GiB memory in use. Of the allocated memory 22.70 "
    "GiB is "
    "allocated by PyTorch, and 301.12 MiB is reserved by PyTorch but unallocated."
)


def python_stack(*calls: tuple[str, str, str], last: str = f"torch.OutOfMemoryError: {OOM2}", before: str = "") -> str:
    lines = [f"{before}Traceback (most recent call last):"]
    for number, (path, function, code) in enumerate(calls, 11):
        lines += [f'{before}  File "{path}", line {number}, in {function}', f"{before}    {code}"]
    return "\n".join([*lines, f"{before}{last}"]) + "\n"


SITE = "/opt/env/lib/python3.12/site-packages"
MODULE = f"{SITE}/torch/nn/modules/module.py"
CALL = (MODULE, "_call_impl", "return forward_call(*args, **kwargs)")
LLAMA = (f"{SITE}/transformers/models/llama/modeling_llama.py", "forward", "hidden_states = self.mlp(hidden_states)")
TRAIN = ("run.py", "main", "trainer.train()")
INNER = (f"{SITE}/transformers/trainer.py", "_inner_training_loop", "tr_loss_step = self.training_step(model, inputs)")
STEP = (f"{SITE}/transformers/trainer.py", "training_step", "loss = self.compute_loss(model, inputs)")

LOGS: list[tuple[str, str, str | None, str | None, bool, str]] = [
    ("forward in the trainer", "forward", "activations", "device", True, python_stack(
        TRAIN, INNER, STEP,
        (f"{SITE}/transformers/trainer.py", "compute_loss", "outputs = model(**inputs)"), CALL, LLAMA)),
    ("own loop, forward", "forward", "activations", "device", True, python_stack(
        ("train.py", "<module>", "main()"), ("train.py", "main", "out = net(x)"), CALL,
        ("/home/a/nets/unet.py", "forward", "x = self.up1(x)"))),
    ("own loop, loss", "forward", "logits", "device", True, python_stack(
        ("train.py", "train_one_epoch", "loss = F.cross_entropy(logits.view(-1, v), y.view(-1))"),
        (f"{SITE}/torch/nn/functional.py", "cross_entropy", "return torch._C._nn.cross_entropy_loss(input, target)"))),
    ("backward", "backward", "activations", "device", True, python_stack(
        ("train.py", "step", "scaler.scale(loss).backward()"),
        (f"{SITE}/torch/_tensor.py", "backward", "torch.autograd.backward("))),
    ("recomputation inside backward", "backward", "activations", "device", True, python_stack(
        ("train.py", "main", "accelerator.backward(loss)"),
        (f"{SITE}/torch/autograd/function.py", "apply", "return user_fn(self, *args)"),
        (f"{SITE}/torch/utils/checkpoint.py", "backward", "outputs = ctx.run_function(*detached_inputs)"),
        CALL, LLAMA)),
    ("deepspeed backward", "backward", "activations", "device", True, python_stack(
        TRAIN, INNER, (f"{SITE}/transformers/trainer.py", "training_step", "self.accelerator.backward(loss)"),
        (f"{SITE}/deepspeed/runtime/engine.py", "backward", "self.optimizer.backward(loss)"),
        (f"{SITE}/deepspeed/runtime/zero/stage3.py", "backward", "self.loss_scaler.backward(loss.float())"))),
    ("first step of Adam", "optimizer_step", "optimizer_state", "device", True, python_stack(
        ("train.py", "main", "optimizer.step()"), (f"{SITE}/torch/optim/optimizer.py", "wrapper", "out = func(*args)"),
        (f"{SITE}/torch/optim/adam.py", "step", "has_complex = self._init_group("),
        (f"{SITE}/torch/optim/adam.py", "_init_group", 'state["exp_avg"] = torch.zeros_like('))),
    ("8-bit optimizer", "optimizer_step", "optimizer_state", "device", True, python_stack(
        TRAIN, (f"{SITE}/transformers/trainer.py", "_inner_training_loop", "self.optimizer.step()"),
        (f"{SITE}/accelerate/optimizer.py", "step", "self.optimizer.step(closure)"),
        (f"{SITE}/bitsandbytes/optim/optimizer.py", "init_state", 'state["state1"] = self.get_state_buffer(p)'))),
    ("ZeRO step", "optimizer_step", "optimizer_state", "device", True, python_stack(
        TRAIN, INNER, (f"{SITE}/deepspeed/runtime/engine.py", "step", "self._take_model_step(lr_kwargs)"),
        (f"{SITE}/deepspeed/runtime/zero/stage_1_and_2.py", "step", "self._optimizer_step(i)"))),
    ("gradient clipping", "optimizer_step", None, "device", True, python_stack(
        ("train.py", "main", "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"),
        (f"{SITE}/torch/nn/utils/clip_grad.py", "clip_grad_norm_", "norms.extend(torch._foreach_norm(grads))"))),
    ("validation in own loop", "eval", "activations", "device", True, python_stack(
        ("train.py", "main", "val_loss = validate(model, val_loader)"), ("train.py", "validate", "out = model(x)"),
        CALL, LLAMA)),
    ("evaluation of the trainer", "eval", "activations", "device", True, python_stack(
        TRAIN, (f"{SITE}/transformers/trainer.py", "_maybe_log_save_evaluate", "metrics = self._evaluate(trial)"),
        (f"{SITE}/transformers/trainer.py", "evaluation_loop", "losses, logits, labels = self.prediction_step("),
        (f"{SITE}/transformers/trainer.py", "prediction_step", "loss, outputs = self.compute_loss("), CALL, LLAMA)),
    ("logits kept in evaluation", "eval", "eval_accumulation", "device", True, python_stack(
        (f"{SITE}/transformers/trainer.py", "evaluate", "output = eval_loop("),
        (f"{SITE}/transformers/trainer.py", "evaluation_loop", "all_preds.add(logits)"),
        (f"{SITE}/transformers/trainer_pt_utils.py", "nested_concat", "return torch.cat((t1, t2), dim=0)"))),
    ("Lightning sanity check", "eval", None, "device", True, python_stack(
        ("fit.py", "<module>", "trainer.fit(model, dm)"),
        (f"{SITE}/pytorch_lightning/trainer/trainer.py", "_run_sanity_check", "val_loop.run()"),
        (f"{SITE}/pytorch_lightning/strategies/strategy.py", "validation_step", "return self.lightning_module(*args)"),
        CALL)),
    ("saving with FSDP", "checkpoint", "save_gather", "device", True, python_stack(
        TRAIN, (f"{SITE}/transformers/trainer.py", "_save_checkpoint", "self.save_model(output_dir)"),
        (f"{SITE}/torch/distributed/fsdp/_state_dict_utils.py", "_full_post_state_dict_hook", "x = x.clone()"))),
    ("saving ZeRO-3 weights", "checkpoint", "save_gather", "device", True, python_stack(
        (f"{SITE}/transformers/trainer.py", "save_model", "state_dict = self.accelerator.get_state_dict(m)"),
        (f"{SITE}/deepspeed/runtime/engine.py", "_zero3_consolidated_16bit_state_dict",
         "with GatheredParameters(p):"))),
    ("merging an adapter", "checkpoint", None, "device", True, python_stack(
        ("merge.py", "<module>", "merged = model.merge_and_unload()"),
        (f"{SITE}/peft/tuners/lora/model.py", "_unload_and_optionally_merge", "target.merge()"),
        (f"{SITE}/peft/tuners/lora/layer.py", "get_delta_weight", "out = weight_B @ weight_A"))),
    ("export to ONNX", "checkpoint", None, "device", True, python_stack(
        ("export.py", "main", "torch.onnx.export(model, args, 'm.onnx')"),
        (f"{SITE}/torch/onnx/utils.py", "export", "graph = _model_to_graph(model)"), CALL)),
    ("from_pretrained", "load", "weights", "device", True, python_stack(
        ("chat.py", "<module>", "model = AutoModelForCausalLM.from_pretrained(name, device_map='cuda')"),
        (f"{SITE}/transformers/modeling_utils.py", "from_pretrained", "cls._load_pretrained_model("),
        (f"{SITE}/accelerate/utils/modeling.py", "set_module_tensor_to_device", "new = value.to(device)"))),
    ("model.to", "load", "weights", "device", True, python_stack(
        ("train.py", "<module>", "model = model.to(device)"), (MODULE, "to", "return self._apply(convert)"),
        (MODULE, "_apply", "module._apply(fn)"), (MODULE, "convert", "return t.to(device)"))),
    ("diffusion pipeline moved", "load", "weights", "device", True, python_stack(
        ("app.py", "generate", "pipe.to('cuda')"),
        (f"{SITE}/diffusers/pipelines/pipeline_utils.py", "to", "module.to(device, dtype)"),
        (MODULE, "_apply", "module._apply(fn)"))),
    ("DeepSpeed takes the model", "load", None, "device", True, python_stack(
        ("train.py", "main", "engine, *_ = deepspeed.initialize(model=model)"),
        (f"{SITE}/deepspeed/runtime/engine.py", "_configure_distributed_model", "self.module.to(self.device)"),
        (MODULE, "to", "return self._apply(convert)"))),
    ("resumed checkpoint", "load", None, "device", True, python_stack(
        ("train.py", "main", "ckpt = torch.load('last.pt')"), (f"{SITE}/torch/serialization.py", "load",
         "return _load("))),
    ("diffusion step", "forward", "activations", "device", True, python_stack(
        ("/comfy/execution.py", "execute", "output = get_output_data(obj)"),
        ("/comfy/samplers.py", "sample", "samples = sampler.sample(model_wrap)"),
        ("/comfy/ldm/modules/attention.py", "forward", "x = self.attn1(x)"))),
    ("generation, either part", "unknown", None, "device", True, python_stack(
        ("chat.py", "<module>", "out = model.generate(**inputs, max_new_tokens=256)"),
        (f"{SITE}/transformers/generation/utils.py", "generate", "result = self._sample("),
        (f"{SITE}/transformers/generation/utils.py", "_sample", "outputs = self(**model_inputs)"), CALL, LLAMA)),
    ("generation, prefill named", "prefill", "activations", "device", True, python_stack(
        ("chat.py", "<module>", "out = model.generate(**inputs)"),
        (f"{SITE}/transformers/generation/utils.py", "_sample", "outputs = self._prefill(input_ids)"),
        (f"{SITE}/transformers/generation/utils.py", "_prefill", "return self(**model_inputs)"), CALL, LLAMA)),
    ("growing cache", "decode", "kv_cache", "device", True, python_stack(
        ("chat.py", "<module>", "out = model.generate(**inputs)"),
        (f"{SITE}/transformers/generation/utils.py", "_sample", "outputs = self(**model_inputs)"), CALL,
        (f"{SITE}/transformers/models/gptj/modeling_gptj.py", "forward", "key = torch.cat((past_key, key), dim=-2)"))),
    ("vLLM profile", "profile_warmup", "activations", "device", True, python_stack(
        (f"{SITE}/vllm/v1/engine/core.py", "_initialize_kv_caches", "self.model_executor.determine_available_memory()"),
        (f"{SITE}/vllm/v1/worker/gpu_worker.py", "determine_available_memory", "self.model_runner.profile_run()"),
        (f"{SITE}/vllm/v1/worker/gpu_model_runner.py", "profile_run", "hidden_states = self._dummy_run(n)"), CALL,
        before="(EngineCore_DP0 pid=41) ERROR 11-02 10:00:00 [core.py:708] ")),
    ("vLLM capture", "graph_capture", "graph_capture", "device", True, python_stack(
        (f"{SITE}/vllm/v1/worker/gpu_worker.py", "compile_or_warm_up_model", "self.model_runner.capture_model()"),
        (f"{SITE}/vllm/v1/worker/gpu_model_runner.py", "capture_model", "self._capture_cudagraphs("),
        (f"{SITE}/vllm/v1/worker/gpu_model_runner.py", "_dummy_run", "outputs = self.model("), CALL)),
    ("vLLM weights", "load", "weights", "device", True, python_stack(
        (f"{SITE}/vllm/v1/worker/gpu_worker.py", "load_model", "self.model_runner.load_model()"),
        (f"{SITE}/vllm/model_executor/models/llama.py", "__init__", "self.mlp = LlamaMLP("),
        (f"{SITE}/vllm/model_executor/layers/linear.py", "create_weights", "weight = Parameter(torch.empty("))),
    ("vLLM cache tensors", "kv_cache_allocation", "kv_cache", "device", True, python_stack(
        (f"{SITE}/vllm/v1/worker/gpu_worker.py", "initialize_from_config", "self.model_runner.initialize_kv_cache(c)"),
        (f"{SITE}/vllm/v1/worker/gpu_model_runner.py", "_allocate_kv_cache_tensors", "tensor = torch.zeros("))),
    ("vLLM serving, not told", "unknown", None, "device", True, python_stack(
        (f"{SITE}/vllm/v1/engine/core.py", "run_busy_loop", "self._process_engine_step()"),
        (f"{SITE}/vllm/v1/worker/gpu_model_runner.py", "execute_model", "model_output = self.model("), CALL,
        (f"{SITE}/vllm/model_executor/models/llama.py", "forward", "x = self.down_proj(x)"))),
    ("vLLM old refusal", "kv_cache_allocation", "kv_cache", "device", True,
     "ValueError: The model's max seq len (32768) is larger than the maximum number of tokens that can be stored in KV "
     "cache (21632). Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the "
     "engine.\n"),
    ("vLLM no blocks", "kv_cache_allocation", "kv_cache", "device", True,
     "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing "
     "the engine.\n"),
    ("vLLM taken card", "startup", "other_process", "device", True,
     "ValueError: Free memory on device cuda:1 (11.02/79.15 GiB) on startup is less than desired GPU memory "
     "utilization "
     "(0.92, 72.82 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.\n"),
    ("vLLM unknown architecture", "startup", "compatibility", "no", True,
     "ValueError: Model architectures ['SomethingForCausalLM'] are not supported for now. Supported architectures: "
     "[]\n"),
    ("vLLM preemption", "decode", "kv_cache", "device", False,
     "WARNING 05-02 11:00:00 scheduler.py:1242] Sequence group 44 is preempted by PreemptionMode.RECOMPUTE mode "
     "because "
     "there is not enough KV cache space.\n"),
    ("server prompt too long", "prefill", "configuration", "no", True,
     "ValueError: This model's maximum context length is 8192 tokens. However, you requested 9216 tokens.\n"),
    ("SGLang pool", "kv_cache_allocation", "kv_cache", "device", True,
     "[2025-03-01 10:00:00 TP0] Load weight end. type=LlamaForCausalLM, dtype=torch.bfloat16, avail mem=2.10 GB.\n"
     "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.\n"),
    ("SGLang retraction", "decode", "kv_cache", "device", False,
     "[2025-03-01 10:00:00 TP0] KV cache pool is full. Retract requests. #retracted_reqs: 3, #new_token_ratio: 0.6\n"),
    ("SGLang prefill batch", "prefill", "activations", "device", True,
     "[2025-03-01 10:00:00 TP0] Prefill batch. #new-seq: 1, #new-token: 8192, #cached-token: 0\n" + python_stack(
         (f"{SITE}/sglang/srt/managers/scheduler.py", "run_batch", "logits = self.tp_worker.forward_batch(b)"),
         (f"{SITE}/sglang/srt/models/qwen2.py", "forward", "x = self.act_fn(gate_up)"))),
    ("llama.cpp weights", "load", "weights", "device", True,
     "load_tensors: loading model tensors, this can take a while... (mmap = true)\n"
     "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 9000.00 MiB on device 1: cudaMalloc failed: out of "
     "memory\n"
     "alloc_tensor_range: failed to allocate CUDA1 buffer of size 9437184000\n"
     "llama_model_load: error loading model: unable to allocate CUDA1 buffer\n"),
    ("llama.cpp cache on Metal", "kv_cache_allocation", "kv_cache", "device", True,
     "ggml_backend_metal_buffer_type_alloc_buffer: error: failed to allocate buffer, size = 16384.00 MiB\n"
     "llama_kv_cache_init: failed to allocate buffer for kv cache\n"
     "llama_new_context_with_model: llama_kv_cache_init() failed for self-attention cache\n"),
    ("llama.cpp graph on Vulkan", "profile_warmup", "activations", "device", True,
     "ggml_vulkan: Device memory allocation of size 2147483648 failed.\n"
     "ggml_gallocr_reserve_n: failed to allocate Vulkan0 buffer of size 2147483648\n"
     "graph_reserve: failed to allocate compute buffers\n"),
    ("llama.cpp damaged file", "load", "not_memory", "no", True,
     "llama_model_load: error loading model: tensor 'output.weight' data is not within the file bounds, model is "
     "corrupted or incomplete\nllama_model_load_from_file_impl: failed to load model\n"),
    ("llama.cpp unknown architecture", "load", "compatibility", "no", True,
     "llama_model_load: error loading model: error loading model architecture: unknown model architecture: "
     "'newarch'\n"),
    ("llama.cpp pinned memory", "load", "host_ram", "host", False,
     "ggml_cuda_host_malloc: failed to allocate 512.00 MiB of pinned memory: out of memory\n"),
    ("llama.cpp prompt too long", "prefill", "configuration", "no", True,
     "srv  send_error: task id = 4, error: the request exceeds the available context size. try increasing it\n"),
    ("ollama wants host memory", "load", "host_ram", "host", True,
     "Error: model requires more system memory (38.5 GiB) than is available (30.1 GiB)\n"),
    ("TGI warm-up, cause not told", "profile_warmup", "unknown", "unknown", True,
     "2024-05-01T10:00:00.000000Z ERROR warmup: text_generation_client: Server error: Not enough memory to handle 8192 "
     "prefill tokens. You need to decrease `--max-batch-prefill-tokens`\n"),
    ("TGI warm-up", "profile_warmup", "activations", "device", True,
     f"torch.OutOfMemoryError: {OOM2}\nThe above exception was the direct cause of the following exception:\n"
     "RuntimeError: Not enough memory to handle 4096 prefill tokens. You need to decrease "
     "`--max-batch-prefill-tokens`\n"),
    ("TGI prefill", "prefill", "activations", "device", True,
     "2024-05-01T10:00:00.0Z ERROR text_generation_launcher: Method Prefill encountered an error.\n" + python_stack(
         (f"{SITE}/text_generation_server/models/flash_causal_lm.py", "generate_token", "out = self.forward(batch)"),
         CALL)),
    ("TGI load", "load", "weights", "device", True,
     "2024-05-01T10:00:00.0Z ERROR text_generation_launcher: Error when initializing model\n" + python_stack(
         (f"{SITE}/text_generation_server/models/__init__.py", "get_model", "return FlashLlama("),
         (f"{SITE}/text_generation_server/utils/weights.py", "get_tensor", "tensor = tensor.to(device=self.device)"))),
    ("TensorRT-LLM cache", "kv_cache_allocation", "kv_cache", "device", True,
     "[10/02/2025-10:00:00] [TRT-LLM] [I] Number of blocks in KV cache primary pool: 5120\n"
     "[TensorRT-LLM][ERROR] CUDA runtime error in cudaMallocAsync: out of memory\n"),
    ("bitsandbytes does not fit", "load", "weights", "device", True,
     "ValueError: Some modules are dispatched on the CPU or the disk. Make sure you have enough GPU RAM to fit the "
     "quantized model.\n"),
    ("bitsandbytes without library", "environment", "compatibility", "no", True,
     "CUDA SETUP: CUDA detection failed! Possible reasons:\n1. CUDA driver not installed\n"),
    ("host memory while loading", "load", "host_ram", "host", True,
     "Loading checkpoint shards:  33%|###3      | 5/15 [01:10<02:20]Killed\n"),
    ("container killed", "unknown", "host_ram", "host", True, "trainer-1 exited with code 137\n"),
    ("kernel log", "unknown", "host_ram", "host", True,
     "[ 9913.1] Out of memory: Killed process 4242 (python3) total-vm:91234567kB, anon-rss:61234567kB\n"),
    ("deepspeed killed", "unknown", "host_ram", "host", True,
     "[2024-02-02 10:00:00,000] [ERROR] [launch.py:321:sigkill_handler] ['/usr/bin/python', 'train.py'] exits with "
     "return code = -9\n"),
    ("array on the host", "unknown", "host_ram", "host", True,
     "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 7.45 GiB for an array with shape (100000, 10000)\n"),
    ("shared memory of workers", "data", "host_ram", "host", True,
     "RuntimeError: DataLoader worker (pid 77) is killed by signal: Bus error. It is possible that dataloader's "
     "workers "
     "are out of shared memory. Please try to raise your shared memory limit.\n"),
    ("worker killed", "data", "host_ram", "host", True,
     "RuntimeError: DataLoader worker (pid 78) is killed by signal: Killed.\n"),
    ("disk full while saving", "checkpoint", "disk", "no", True, python_stack(
        ("train.py", "main", "torch.save(model.state_dict(), path)"),
        last="RuntimeError: PytorchStreamWriter failed writing file data/17: file write failed")),
    ("disk full, elsewhere", "unknown", "disk", "no", True, "OSError: [Errno 28] No space left on device\n"),
    ("NCCL timeout", "communication", "communication", "no", True,
     "[rank2]:[E1] ProcessGroupNCCL.cpp:616] [Rank 2] Watchdog caught collective operation timeout: "
     "WorkNCCL(SeqNum=9, OpType=ALLREDUCE, NumelIn=1, Timeout(ms)=600000) ran for 600024 milliseconds\n"),
    ("NCCL system error", "communication", "communication", "no", True,
     "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1333, unhandled system error (run with "
     "NCCL_DEBUG=INFO for details), NCCL version 2.18.1\nncclSystemError: System call (e.g. socket, malloc) failed\n"),
    ("Xid of lost card", "environment", "not_memory", "no", True,
     "kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', GPU has fallen off the bus.\n"),
    ("illegal access", "unknown", "not_memory", "no", True,
     "RuntimeError: CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be asynchronously "
     "reported at some other API call, so the stacktrace below might be incorrect.\n"),
    ("driver too old", "environment", "compatibility", "no", True,
     "RuntimeError: The NVIDIA driver on your system is too old (found version 11040).\n"),
    ("driver mismatch", "environment", "compatibility", "no", True,
     "Failed to initialize NVML: Driver/library version mismatch\n"),
    ("no kernel", "environment", "compatibility", "no", True,
     "RuntimeError: CUDA error: no kernel image is available for execution on the device\n"),
    ("flash-attn absent", "environment", "compatibility", "no", True,
     "ImportError: FlashAttention2 has been toggled on, but it cannot be used due to the following error: the package "
     "flash_attn seems to be not installed.\n"),
    ("module absent", "environment", "compatibility", "no", True, "ModuleNotFoundError: No module named 'deepspeed'\n"),
    ("two devices", "unknown", "not_memory", "no", True,
     "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and "
     "cuda:1!\n"),
    ("gated model", "startup", "not_memory", "no", True,
     "huggingface_hub.errors.GatedRepoError: 401 Client Error.\nCannot access gated repo for url https://example\n"),
    ("TensorFlow backward", "backward", "activations", "device", True,
     "ResourceExhaustedError: OOM when allocating tensor with shape[32,512,64,64] and type float on "
     "/job:localhost/replica:0/task:0/device:GPU:1 by allocator GPU_1_bfc\n\t [[{{node "
     "gradients/conv2_grad/Conv2D}}]]\n"),
    ("TensorFlow, no failure", "unknown", None, "device", False,
     "W tensorflow/core/common_runtime/bfc_allocator.cc:245] Allocator (GPU_0_bfc) ran out of memory trying to "
     "allocate "
     "2.20GiB with freed_by_count=0. The caller indicates that this is not a failure, but may mean that there could be "
     "performance gains if more memory were available.\n"),
    ("JAX", "unknown", None, "device", True,
     "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating 4294967296 bytes.\n"),
    ("retry of the batch", "unknown", None, "device", False,
     "| WARNING: ran out of memory, skipping batch: CUDA out of memory. Tried to allocate 1.50 GiB (GPU 0; 15.90 GiB "
     "total capacity; 13.00 GiB already allocated; 900.00 MiB free; 13.90 GiB reserved in total by PyTorch)\n"),
    ("tiled instead", "forward", "activations", "device", False,
     "Warning: Ran out of memory when regular VAE decoding, retrying with tiled VAE decoding.\n"),
    ("Triton resources", "unknown", "compatibility", "no", True,
     "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 131072, Hardware limit: 101376. "
     "Reducing block sizes or `num_stages` may help.\n"),
    ("launcher only", "unknown", "unknown", "unknown", True,
     "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n"
     "train.py FAILED\n  exitcode  : 1 (pid: 900)\n  error_file: <N/A>\n"),
    ("message alone", "unknown", None, "device", True, f"torch.OutOfMemoryError: {OOM2}\n"),
]  # fmt: skip
