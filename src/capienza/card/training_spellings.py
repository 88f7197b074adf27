"""How frameworks spell the options of a training recipe, and what such a spelling may hold.

`lora_alpha: 32` is `alpha: 32`, `bf16: true` is `mixed_precision: bf16`. Spellings are those of transformers 5.24,
TRL 1.16, PEFT 0.21, axolotl 0.12, LLaMA-Factory 0.9, ms-swift 3.12 and torchtune 0.6.
"""

from __future__ import annotations

from decimal import Decimal

import msgspec

from capienza.card.model import Scalar
from capienza.card.options import plain_name
from capienza.card.problems import MAX_SHOWN, Refused
from capienza.card.training_kinds import FLAG, NOT_A_WORD
from capienza.card.training_options import KNOWN, OWN_FIELDS
from capienza.errors import Message


class Spelling(msgspec.Struct, frozen=True):
    """A framework's own name for an option. `values` translates what is written; None keeps it.

    A value in `weak` yields to any other spelling: `fp16: false` says nothing against `bf16: true`.
    """

    option: str
    values: dict[Scalar, Scalar] | None = None
    weak: tuple[Scalar, ...] = ()


def _same(option: str, *names: str) -> dict[str, Spelling]:
    return {name: Spelling(option) for name in names}


def _flag(option: str, on: Scalar, off: Scalar) -> Spelling:
    return Spelling(option, {True: on, False: off}, (False,))


SPELLINGS: dict[str, Spelling] = {
    **_same("rank", "r", "lora_r", "lora_rank"),
    **_same("alpha", "lora_alpha"),
    **_same("dropout", "lora_dropout"),
    **_same("targets", "target_modules", "lora_target_modules", "lora_target"),
    "lora_target_linear": Spelling("targets", {True: "all-linear"}),
    **_same("modules_to_save", "lora_modules_to_save", "additional_target"),
    "use_dora": Spelling("dora"),
    **_same("optimizer", "optim"),
    **_same("optimizer_in_backward", "optimizer_in_bwd"),
    "bf16": Spelling("mixed_precision", {True: "bf16", False: "none", "auto": "bf16", "full": "none"}, (False,)),
    "fp16": _flag("mixed_precision", "fp16", "none"),
    **_same(
        "gradient_checkpointing", "activation_checkpointing", "enable_activation_checkpointing",
        "use_gradient_checkpointing",
    ),
    **_same("activation_offloading", "enable_activation_offloading"),
    **_same("reentrant", "use_reentrant"),
    **_same("attention", "attn_implementation", "attn_impl"),
    "flash_attention": Spelling("attention", {True: "flash_attention_2", False: "sdpa"}, (False,)),
    "xformers_attention": Spelling("attention", {True: "xformers", False: "sdpa"}, (False,)),
    "eager_attention": Spelling("attention", {True: "eager", False: "sdpa"}, (False,)),
    "flash_attn": Spelling("attention", {"fa2": "flash_attention_2", "sdpa": "sdpa", "disabled": "eager"}),
    "use_liger_kernel": _flag("kernels", "liger", "transformers"),
    "use_liger": _flag("kernels", "liger", "transformers"),
    "enable_liger_kernel": _flag("kernels", "liger", "transformers"),
    **_same("loss_chunks", "num_output_chunks"),
    **_same("packing", "sample_packing", "packed"),
    **_same("eval_microbatch", "per_device_eval_batch_size", "eval_batch_size"),
    "prediction_loss_only": Spelling("eval_keeps_logits", {True: False, False: True}),
    **_same("max_grad_norm", "gradient_clipping", "clip_grad_norm", "max_norm"),
    **_same("compile", "torch_compile"),
    **_same("sharding", "parallelism"),
    "zero_stage": Spelling("sharding", {0: "none", 1: "zero1", 2: "zero2", 3: "zero3"}),
    "deepspeed": Spelling("sharding", {"zero1": "zero1", "zero2": "zero2", "zero3": "zero3"}),
    "fsdp_version": Spelling("sharding", {1: "fsdp1", 2: "fsdp2"}),
    **_same("loads_once", "fsdp_cpu_ram_efficient_loading", "cpu_ram_efficient_loading"),
    "fsdp_reshard_after_forward": Spelling(
        "reshard_after_forward",
        {True: True, False: False, "full_shard": True, "shard_grad_op": False, "hybrid_shard": True,
         "hybrid_shard_zero2": False},
    ),
    "fsdp_sharding_strategy": Spelling(
        "reshard_after_forward",
        {1: True, 2: False, 4: True, 5: False, "1": True, "2": False, "4": True, "5": False, "full_shard": True,
         "shard_grad_op": False, "hybrid_shard": True, "hybrid_shard_zero2": False},
    ),
    "fsdp_offload_params": Spelling("offload", {True: "parameters", False: "none"}, (False,)),
    "fsdp_cpu_offload": Spelling("offload", {True: "parameters", False: "none"}, (False,)),
    "fsdp_state_dict_type": Spelling(
        "saves_whole", {"full_state_dict": True, "sharded_state_dict": False, "local_state_dict": False}
    ),
    "fsdp_activation_checkpointing": Spelling("gradient_checkpointing", {True: "full", False: "none"}, (False,)),
    "fsdp_backward_prefetch": Spelling(
        "gathers_ahead", {"backward_pre": True, "backward_post": False, "no_prefetch": False}
    ),
    "fsdp_backward_prefetch_policy": Spelling(
        "gathers_ahead", {"backward_pre": True, "backward_post": False, "no_prefetch": False}
    ),
    "offload_optimizer": Spelling("offload", {"cpu": "optimizer", True: "optimizer", "none": "none", False: "none"},
                                  ("none", False)),
    "offload_param": Spelling("offload", {"cpu": "parameters", True: "parameters", "none": "none", False: "none"},
                              ("none", False)),
    **_same("bucket_elements", "reduce_bucket_size"),
    "precompute_ref_log_probs": Spelling("reference", {True: "precomputed"}),
    **_same("rollout_share", "vllm_gpu_memory_utilization"),
    **_same("rollout_sleeps", "vllm_enable_sleep_mode"),
    **_same("group", "num_generations"),
    **_same("prompt_tokens", "max_prompt_length"),
    **_same("completion_tokens", "max_completion_length"),
}  # fmt: skip
"""Other names of options, in plain spelling."""


CARD_FIELDS: dict[str, str] = {
    **dict.fromkeys(("per_device_train_batch_size", "micro_batch_size", "train_batch_size_per_gpu"), "microbatch"),
    **dict.fromkeys(("gradient_accumulation_steps", "gradient_accumulation"), "accumulation"),
    **dict.fromkeys(("max_seq_length", "max_seq_len", "sequence_len", "cutoff_len"), "tokens.required"),
}
"""Names by Transformers, TRL, axolotl, LLaMA-Factory, torchtune and DeepSpeed, and the card's own field."""
LOADERS = ("load_in_4bit", "load_in_8bit")
"""Options that say in how many bits the base is held, which a card says under weights."""
SAID_ELSEWHERE = frozenset({*CARD_FIELDS, *LOADERS})
"""Options whose place in a card is another one: they may repeat it."""


def refusal_of(name: str, value: Scalar) -> Message | None:
    """Why a spelling cannot hold a value; None where it can, and for a name that is none.

    Where only some texts are translated, such as the name of a configuration file, others are left to the recipe.
    """
    spelling = SPELLINGS.get(plain_name(name))
    if spelling is None:
        return None
    if spelling.values is None:
        kind = KNOWN[spelling.option].kind if spelling.option in KNOWN else OWN_FIELDS.get(spelling.option)
    else:
        named = tuple(one for one in spelling.values if isinstance(one, str))
        is_flag = any(one is True for one in spelling.values)
        if not named and not is_flag and value not in spelling.values:
            return NOT_A_WORD(accepted=tuple(map(str, spelling.values)), found=str(value)[:MAX_SHOWN])
        if not is_flag or value in named:
            return None
        if named and not isinstance(value, bool):
            return NOT_A_WORD(accepted=("true", "false", *named), found=str(value)[:MAX_SHOWN])
        kind = FLAG
    if kind is None or kind.convert is None:
        return None
    try:
        kind.convert(Decimal(str(value)) if isinstance(value, float) else value)
    except Refused as refused:
        return refused.message
    return None
