"""Every option of the training recipe that is understood, once: what it means and what it takes.

The card keeps all of them in `Training.options`, beside those that are written by a framework's own name.
"""

from __future__ import annotations

import msgspec

from capienza.card.kinds import Kind, text, whole
from capienza.card.training_kinds import CONFIGURATION, EXPORT, FLAG, NAMES, amount, count, words

DTYPES = ("bf16", "fp16", "fp32")
LONGEST = 10**9
MAX_RANK = 10**6


class TrainingOption(msgspec.Struct, frozen=True):
    """One option. `is_common`: it stands in the card that `card new` writes."""

    name: str
    kind: Kind
    description: str
    example: str
    is_common: bool = False


OPTIONS: tuple[TrainingOption, ...] = (
    TrainingOption(
        "objective",
        words("sft", "dpo", "orpo", "simpo", "grpo"),
        "What the loss compares: next tokens, pairs of answers, or groups of answers.",
        "sft",
    ),
    TrainingOption("alpha", amount(0, 10**6), "Alpha of the adapters: it changes no memory.", "32", True),
    TrainingOption(
        "targets",
        NAMES,
        "The modules with adapters: the ends of their names, or all-linear.",
        "[q_proj, k_proj, v_proj, o_proj]",
        True,
    ),
    TrainingOption("dropout", amount(0, 1, open_end=True), "Dropout in front of the adapters.", "0.05", True),
    TrainingOption(
        "modules_to_save", NAMES, "Modules that are trained whole, as a copy beside the frozen one.", "[lm_head]"
    ),
    TrainingOption("dora", FLAG, "Adapters with a magnitude of their own (DoRA), as method: dora says too.", "true"),
    TrainingOption("adapter_dtype", words(*DTYPES), "The number format of the adapters.", "fp32"),
    TrainingOption(
        "optimizer_run",
        words("foreach", "fused", "loop"),
        "How the optimizer walks the parameters: all at once, in one kernel, or one by one.",
        "fused",
    ),
    TrainingOption(
        "optimizer_states",
        words("parameter", "fp32", "8bit", "4bit"),
        "The format of the optimizer's states; parameter is that of the weights.",
        "8bit",
    ),
    TrainingOption(
        "optimizer_library",
        words("torch", "bitsandbytes", "torchao", "transformers"),
        "The library whose optimizer runs.",
        "bitsandbytes",
    ),
    TrainingOption("paged", FLAG, "Optimizer states in managed memory, moved by the driver.", "true"),
    TrainingOption("optimizer_in_backward", FLAG, "Each weight is updated as soon as its gradient is there.", "true"),
    TrainingOption("momentum", amount(0, 1), "Momentum of SGD and RMSprop.", "0.9"),
    TrainingOption("projection_rank", count(), "Rank of the projected states of GaLore and APOLLO.", "128"),
    TrainingOption(
        "mixed_precision",
        words("none", "no", "bf16", "fp16"),
        "The format of automatic mixed precision (autocast); none runs in the format of the weights.",
        "bf16",
        True,
    ),
    TrainingOption("trained_dtype", words(*DTYPES), "The number format of weights that are trained.", "fp32"),
    TrainingOption("master_weights", FLAG, "The optimizer keeps a copy in fp32 of weights that are narrower.", "true"),
    TrainingOption("fp8", FLAG, "Linear modules multiply in fp8.", "true"),
    TrainingOption(
        "kbit_upcast",
        words("none", "norms", "rest"),
        "What of a quantised base is taken up to fp32: nothing, the norms, or all that is not quantised.",
        "norms",
    ),
    TrainingOption("fp32_outputs", FLAG, "The logits are copied to fp32 as they leave the model.", "true"),
    TrainingOption(
        "gradient_checkpointing",
        words("none", "no", "off", "full", "selective", "offload", "unsloth", flags=True),
        "What is computed again in the backward pass instead of being kept; offload keeps the layers' inputs in main "
        "memory.",
        "full",
        True,
    ),
    TrainingOption("activation_offloading", FLAG, "What is kept for the backward pass waits in main memory.", "true"),
    TrainingOption("reentrant", FLAG, "The older, reentrant form of gradient checkpointing.", "false"),
    TrainingOption(
        "attention",
        words("sdpa", "eager", "flash_attention_2", "flash_attention_3", "xformers"),
        "The implementation of attention.",
        "sdpa",
        True,
    ),
    TrainingOption(
        "kernels",
        words("transformers", "liger", "unsloth", "foak", "litgpt", "torchtune", "torchtitan"),
        "Whose code runs norms, rotary positions and the gated product.",
        "liger",
    ),
    TrainingOption(
        "loss",
        words("full", "fused", "fused_linear", "chunked", "liger", "cce"),
        "How logits become a loss: all at once, in one kernel, or never whole (liger, cce, chunked).",
        "chunked",
        True,
    ),
    TrainingOption("loss_type", text(60), "The loss by TRL's own name.", "nll"),
    TrainingOption("loss_fp32", FLAG, "The loss copies the logits to fp32.", "true"),
    TrainingOption("loss_shift_copy", FLAG, "The loss copies the logits once more to shift them.", "false"),
    TrainingOption("loss_chunk", count(), "Tokens of one piece of a chunked loss.", "256"),
    TrainingOption("loss_chunks", count(), "Pieces of a chunked loss.", "8"),
    TrainingOption("keep_outputs", FLAG, "The program holds the model's outputs during the backward pass.", "false"),
    TrainingOption(
        "images",
        count(0, 10**4, or_none=True),
        "Images of one row; 0 trains a model that also sees on text alone.",
        "1",
    ),
    TrainingOption(
        "image_size", count(1, 10**5, or_none=True), "Pixels of a side of an image, as the model is given it.", "224"
    ),
    TrainingOption("packing", FLAG, "Several short sequences fill one row.", "true", True),
    TrainingOption("packing_strategy", text(60), "How TRL packs.", "bfd"),
    TrainingOption("padding_free", FLAG, "A batch is one row without padding.", "true"),
    TrainingOption("padding_mask", FLAG, "The batch holds an attention mask.", "true"),
    TrainingOption(
        "eval_microbatch", count(0, 10**6), "Sequences of one evaluation pass; 0 evaluates nothing.", "8", True
    ),
    TrainingOption("eval_keeps_logits", FLAG, "Evaluation keeps the logits of all rows on the GPU.", "false"),
    TrainingOption(
        "eval_rows",
        count(or_none=True),
        "Sequences of the whole evaluation, where it keeps their logits until its end.",
        "500",
    ),
    TrainingOption(
        "eval_accumulation_steps",
        count(or_none=True),
        "Passes after which an evaluation moves kept logits to main memory.",
        "1",
    ),
    TrainingOption("eval_generates", count(0, LONGEST), "Tokens that evaluation generates.", "0"),
    TrainingOption(
        "export",
        EXPORT,
        "What is handed on at the end: nothing, the adapters alone, the model with its adapters merged in, or whole "
        "weights, as they are held or in a format that is named.",
        "merge",
    ),
    TrainingOption(
        "export_device",
        words("gpu", "cpu"),
        "Where what is exported is put together; on the cpu the whole weights are loaded into main memory for it.",
        "cpu",
    ),
    TrainingOption("save_total_limit", count(0, 10**6), "Checkpoints that are kept on disk; 0 keeps all.", "2"),
    TrainingOption(
        "save_only_model", FLAG, "A checkpoint is of weights alone, without the optimizer's states.", "true"
    ),
    TrainingOption(
        "max_grad_norm",
        amount(0, 10**9, or_none=True),
        "The norm that gradients are clipped to; none or 0 clips nothing.",
        "1.0",
    ),
    TrainingOption("compile", FLAG, "The model is compiled.", "false"),
    TrainingOption(
        "sharding",
        words("none", "ddp", "fsdp1", "fsdp2", "zero1", "zero2", "zero3"),
        "How data parallel GPUs share weights, gradients and states; placement.data_parallel says how many they are.",
        "fsdp2",
        True,
    ),
    TrainingOption("shard_ranks", count(1, 1024), "GPUs that share one copy of what is sharded.", "8"),
    TrainingOption("parameter_dtype", words(*DTYPES), "The format in which FSDP gathers weights.", "bf16"),
    TrainingOption("reduce_dtype", words(*DTYPES), "The format in which FSDP adds up gradients.", "fp32"),
    TrainingOption("reshard_after_forward", FLAG, "FSDP frees gathered weights between forward and backward.", "true"),
    TrainingOption(
        "offload",
        words("none", "optimizer", "parameters", "cpu"),
        "What waits in main memory: the optimizer's states, or the parameters as well.",
        "optimizer",
    ),
    TrainingOption("bucket_elements", count(), "Elements of one communication bucket.", "500000000"),
    TrainingOption("gradient_as_bucket_view", FLAG, "DDP's buckets are the gradients themselves.", "false"),
    TrainingOption("prefetch_elements", count(0, 10**12), "Elements that ZeRO-3 gathers ahead.", "50000000"),
    TrainingOption(
        "persistence_elements", count(0, 10**12), "Weights up to so many elements stay whole under ZeRO-3.", "100000"
    ),
    TrainingOption("live_elements", count(0, 10**12), "Elements that are whole at once under ZeRO-3.", "1000000000"),
    TrainingOption("overlaps", FLAG, "ZeRO's buckets are two, so that one is filled while the other is sent.", "true"),
    TrainingOption("saves_whole", FLAG, "A checkpoint is of whole weights, put together from all GPUs.", "false"),
    TrainingOption("loads_once", FLAG, "One GPU's process reads the weights and sends them to the others.", "true"),
    TrainingOption(
        "sync_each_batch", FLAG, "FSDP reduces gradients after every microbatch, not once an update.", "false"
    ),
    TrainingOption("gathers_ahead", FLAG, "FSDP1 gathers the next layer while one runs backward.", "true"),
    TrainingOption("fsdp", CONFIGURATION, "FSDP by the words of transformers: full_shard auto_wrap, or true.", "true"),
    TrainingOption(
        "fsdp_config",
        CONFIGURATION,
        "FSDP's configuration as transformers and accelerate take it.",
        "{version: 2, cpu_ram_efficient_loading: true}",
    ),
    TrainingOption(
        "deepspeed",
        CONFIGURATION,
        "DeepSpeed's configuration, its path, or zero1 to zero3.",
        "{zero_optimization: {stage: 3}}",
    ),
    TrainingOption(
        "reference",
        words("none", "model", "adapter_off", "precomputed"),
        "The reference of preference learning: a second model, the same without adapters, or figures from before.",
        "adapter_off",
    ),
    TrainingOption("beta", amount(0, 10**6), "Weight of the distance from the reference.", "0.1"),
    TrainingOption("reward_model", text(200), "A model that gives rewards, by id or path.", "org/reward-model"),
    TrainingOption(
        "rollout",
        words("none", "transformers", "vllm_colocate", "vllm_server"),
        "What writes the completions of reinforcement learning.",
        "vllm_colocate",
    ),
    TrainingOption("use_vllm", FLAG, "Completions are written by vLLM.", "true"),
    TrainingOption("vllm_mode", words("colocate", "server"), "Where TRL's vLLM runs.", "colocate"),
    TrainingOption("rollout_share", amount(0, 1), "The share of the card that a colocated engine takes.", "0.3"),
    TrainingOption("rollout_sleeps", FLAG, "The colocated engine gives its memory back during the update.", "true"),
    TrainingOption("group", count(1, 10**6), "Completions of each prompt.", "8"),
    TrainingOption("prompt_tokens", count(1, LONGEST), "The longest prompt of reinforcement learning.", "512"),
    TrainingOption("completion_tokens", count(1, LONGEST), "The longest completion of reinforcement learning.", "512"),
)

KNOWN: dict[str, TrainingOption] = {option.name: option for option in OPTIONS}
OWN_FIELDS: dict[str, Kind] = {"method": text(), "rank": whole(1, MAX_RANK), "optimizer": text()}
"""What the struct's own fields take, whichever name they are written by."""
