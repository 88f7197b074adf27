"""Choices that cannot stand together, one function for each part of the recipe."""

from __future__ import annotations

from collections.abc import Iterator

from capienza.errors import Message, template
from capienza.recipe.choices import Choices
from capienza.recipe.recipe import Recipe

Clash = tuple[tuple[str, ...], Message]
"""The options at fault, the likeliest first, and what is to be said."""

FROZEN_FORMAT = template(
    "recipe.frozen-format",
    "method full trains the weights themselves, and weights in {format} cannot be trained",
    "Write method: qlora, or a format such as bf16 under weights.",
)
PLAIN_BASE = template(
    "recipe.plain-base",
    "qlora trains beside quantised weights, and weights.format is {format}",
    "Write method: lora, or a format such as nf4 under weights.",
)
PAGED_ELSEWHERE = template(
    "recipe.paged-elsewhere",
    "paged states are bitsandbytes' own, and {optimizer} is of {library}",
    "Write optimizer: paged_adamw_8bit or paged_adamw_32bit, or delete paged.",
)
NOT_PAGED = template("recipe.not-paged", "{optimizer} is paged, and paged says false", "Keep one of the two.")
STATES_ELSEWHERE = template(
    "recipe.states-elsewhere",
    "{library} has no states in {states} for {optimizer}",
    "Write an optimizer that has them, such as adamw_8bit or adamw_torch_4bit.",
)
RUN_ELSEWHERE = template(
    "recipe.run-elsewhere",
    "{run} is a way of torch.optim, and {optimizer} is of {library}",
    "Delete optimizer_run.",
)
IN_BACKWARD_ZERO = template(
    "recipe.in-backward-sharded",
    "an optimizer in the backward pass cannot go with {sharding}: DeepSpeed steps by itself after the backward pass",
    "Delete optimizer_in_backward, or choose another sharding.",
)
IN_BACKWARD_ACCUMULATES = template(
    "recipe.in-backward-accumulates",
    "an optimizer in the backward pass keeps no gradients, and accumulation is {accumulation}",
    "Write accumulation: 1, or delete optimizer_in_backward.",
)
IN_BACKWARD_CLIPS = template(
    "recipe.in-backward-clips",
    "an optimizer in the backward pass never has all gradients, and max_grad_norm {norm} clips them together",
    "Write max_grad_norm: none, or delete optimizer_in_backward.",
)
IN_BACKWARD_SCALES = template(
    "recipe.in-backward-scales",
    "an optimizer in the backward pass cannot go with fp16 mixed precision: gradients are unscaled after it",
    "Write mixed_precision: bf16, or delete optimizer_in_backward.",
)
OFFLOAD_ALONE = template(
    "recipe.offload-alone",
    "offload: {offload} is done by {accepted}, and sharding is {sharding}",
    "Choose such a sharding, or delete offload.",
)
RANKS_ALONE = template(
    "recipe.ranks-alone",
    "sharding is none, and {ranks} GPUs work on one update",
    "Write sharding: ddp, or data_parallel: 1.",
)
SHARDS = template(
    "recipe.shards",
    "{shards} GPUs cannot share what {ranks} data parallel GPUs hold",
    "Write a number that divides data_parallel.",
)
NARROW_SHARDED = template(
    "recipe.narrow-sharded",
    "8-bit states of bitsandbytes do not go with {sharding}: FSDP2's sharded tensors stop its kernels (bitsandbytes "
    "issue 1633), and those of FSDP1 cannot be saved (issue 89)",
    "Write optimizer: adamw_torch or adamw_torch_8bit, or sharding: zero2.",
)
SCALED_HALF = template(
    "recipe.scaled-half",
    "fp16 mixed precision unscales gradients of fp32 weights, and the trained weights are in fp16",
    "Hold the trained weights in fp32, or write mixed_precision: none.",
)
FP8_BASE = template(
    "recipe.fp8-base", "fp8 multiplies weights in bf16 or fp32, and the base is in {format}", "Delete fp8."
)
FLASH_WIDE = template(
    "recipe.flash-wide",
    "{attention} computes in bf16 or fp16, and the model computes in fp32",
    "Write attention: sdpa, or mixed_precision: bf16.",
)
MASTER_WIDE = template(
    "recipe.master-wide", "the trained weights are in fp32 and need no copy in fp32", "Delete master_weights."
)
MASK = template("recipe.mask-without-padding", "a batch without padding has no attention mask", "Keep one of the two.")
LIGER_CHUNKS = template(
    "recipe.liger-chunks",
    "loss_type chunked_nll cannot go with the kernels of Liger, which have a loss of their own",
    "Keep one of the two.",
)
OFFLOADED_WHOLE = template(
    "recipe.offload-of-all",
    "gradient_checkpointing {kind} keeps more than the layers' inputs: offloading of that is not computed",
    "Write gradient_checkpointing: full, or delete activation_offloading.",
)
NO_ADAPTER = template(
    "recipe.no-adapter", "method full has no adapters, and export is {export}", "Write export: full_state, or none."
)
NO_EVALUATION = template(
    "recipe.no-evaluation", "{option} is of an evaluation, and there is none", "Write eval_microbatch, or delete it."
)
NO_ADAPTER_TO_SWITCH_OFF = template(
    "recipe.no-adapter-to-switch-off",
    "method full has no adapters that could be switched off for the reference",
    "Write reference: model, or precomputed.",
)
GROUP = template(
    "recipe.group-too-small",
    "grpo compares the completions of one prompt, and a group of {group} has nothing to compare",
    "Write group: 8, or another number above 1.",
)
GROUP_UNEVEN = template(
    "recipe.group-uneven",
    "{completions} completions an update cannot be divided into groups of {group}",
    "Make microbatch x accumulation x data_parallel a multiple of group.",
)
VLLM = template("recipe.rollout-twice", "rollout is {rollout}, and use_vllm is {used}", "Keep one of the two.")

OFFLOADERS = {
    "optimizer": ("zero1", "zero2", "zero3"),
    "parameters": ("zero3", "fsdp1", "fsdp2"),
}
STATES_OF = {
    "torch": ("parameter",),
    "bitsandbytes": ("8bit", "fp32"),
    "torchao": ("8bit", "4bit"),
    "transformers": ("parameter", "fp32"),
}


def clashes(recipe: Recipe, choices: Choices) -> Iterator[Clash]:
    """Every contradiction of a recipe."""
    for found in (_formats, _optimizer, _in_backward, _parallel, _passes, _evaluation, _preference):
        yield from found(recipe, choices)


def _is_stated(choices: Choices, *options: str) -> bool:
    return any(option in choices and choices[option].field is not None for option in options)


def _formats(recipe: Recipe, choices: Choices) -> Iterator[Clash]:
    precision = recipe.precision
    if recipe.method == "full" and precision.quantised:
        yield ("method", "base_format"), FROZEN_FORMAT(format=precision.quantised)
    if recipe.method == "qlora" and not precision.quantised:
        yield ("method", "base_format"), PLAIN_BASE(format=precision.base)
    if precision.has_scaler and precision.trained == "fp16":
        yield ("mixed_precision", "trained_dtype", "adapter_dtype", "base_format"), SCALED_HALF()
    if precision.fp8 and precision.quantised:
        yield ("fp8",), FP8_BASE(format=precision.quantised)
    if recipe.attention.startswith("flash") and (precision.autocast or precision.base) == "fp32":
        is_gathered = recipe.parallel.parameter_dtype in ("bf16", "fp16")
        if not is_gathered and _is_stated(choices, "attention"):
            yield ("attention",), FLASH_WIDE(attention=recipe.attention)
    if _is_stated(choices, "master_weights") and choices["master_weights"].value and precision.trained == "fp32":
        yield ("master_weights",), MASTER_WIDE()


def _optimizer(recipe: Recipe, choices: Choices) -> Iterator[Clash]:
    optimizer, name = recipe.optimizer, str(choices["optimizer"].value)
    states = str(choices["optimizer_states"].value)
    if optimizer.is_paged and optimizer.library != "bitsandbytes":
        yield ("paged", "optimizer_library", "optimizer"), PAGED_ELSEWHERE(optimizer=name, library=optimizer.library)
    if name.startswith("paged") and not optimizer.is_paged:
        yield ("paged",), NOT_PAGED(optimizer=name)
    is_wide = states == "fp32" and (recipe.precision.trained == "fp32" or recipe.precision.master is not None)
    if states not in STATES_OF[optimizer.library] and not is_wide and not optimizer.is_paged:
        told = STATES_ELSEWHERE(library=optimizer.library, states=states, optimizer=name)
        yield ("optimizer_states", "optimizer_library", "optimizer"), told
    if _is_stated(choices, "optimizer_run") and optimizer.run != "loop" and optimizer.library != "torch":
        told = RUN_ELSEWHERE(run=optimizer.run, optimizer=name, library=optimizer.library)
        yield ("optimizer_run",), told


def _in_backward(recipe: Recipe, _choices: Choices) -> Iterator[Clash]:
    if not recipe.optimizer.in_backward:
        return
    options = ("optimizer_in_backward", "optimizer")
    if recipe.parallel.sharding.startswith("zero"):
        yield options, IN_BACKWARD_ZERO(sharding=recipe.parallel.sharding)
    if recipe.accumulation > 1:
        yield options, IN_BACKWARD_ACCUMULATES(accumulation=recipe.accumulation)
    if recipe.max_grad_norm is not None:
        yield ("max_grad_norm", *options), IN_BACKWARD_CLIPS(norm=recipe.max_grad_norm)
    if recipe.precision.has_scaler:
        yield options, IN_BACKWARD_SCALES()


def _parallel(recipe: Recipe, choices: Choices) -> Iterator[Clash]:
    parallel = recipe.parallel
    accepted = OFFLOADERS.get(parallel.offload, ())
    if accepted and parallel.sharding not in accepted:
        yield ("offload",), OFFLOAD_ALONE(offload=parallel.offload, accepted=accepted, sharding=parallel.sharding)
    optimizer = recipe.optimizer
    if parallel.sharding in ("fsdp1", "fsdp2") and optimizer.library == "bitsandbytes" and optimizer.state_bits == 8:
        yield ("optimizer", "optimizer_states", "sharding"), NARROW_SHARDED(sharding=parallel.sharding)
    if parallel.sharding == "none" and parallel.data_ranks > 1:
        yield ("sharding",), RANKS_ALONE(ranks=parallel.data_ranks)
    if _is_stated(choices, "shard_ranks") and parallel.data_ranks % parallel.shard_ranks:
        yield ("shard_ranks",), SHARDS(shards=parallel.shard_ranks, ranks=parallel.data_ranks)


def _passes(recipe: Recipe, choices: Choices) -> Iterator[Clash]:
    def says(option: str) -> bool:
        return option in choices and bool(choices[option].value)

    if says("padding_free") and says("padding_mask") and _is_stated(choices, "padding_mask"):
        yield ("padding_mask",), MASK()
    if says("loss_type") and choices["loss_type"].value == "chunked_nll" and recipe.kernels == "liger":
        yield ("loss_type",), LIGER_CHUNKS()
    if says("activation_offloading") and recipe.checkpointing.kind == "selective":
        yield ("activation_offloading",), OFFLOADED_WHOLE(kind=recipe.checkpointing.kind)


def _evaluation(recipe: Recipe, choices: Choices) -> Iterator[Clash]:
    if recipe.method == "full" and recipe.export in ("adapter", "merge"):
        yield ("export",), NO_ADAPTER(export=recipe.export)
    if recipe.evaluation.microbatch:
        return
    for option in ("eval_keeps_logits", "eval_generates", "eval_rows", "eval_accumulation_steps"):
        if _is_stated(choices, option) and choices[option].value:
            yield (option,), NO_EVALUATION(option=option)


def _preference(recipe: Recipe, choices: Choices) -> Iterator[Clash]:
    preference = recipe.preference
    if preference is None:
        return
    if preference.reference == "adapter_off" and recipe.method == "full":
        yield ("reference",), NO_ADAPTER_TO_SWITCH_OFF()
    if _is_stated(choices, "rollout") and _is_stated(choices, "use_vllm"):
        used = bool(choices["use_vllm"].value)
        if used != preference.rollout.startswith("vllm"):
            yield ("rollout",), VLLM(rollout=preference.rollout, used=str(used).lower())
    if recipe.objective != "grpo":
        return
    if preference.group < 2:
        yield ("group", "objective"), GROUP(group=preference.group)
    completions = recipe.microbatch * recipe.accumulation * recipe.parallel.data_ranks
    if completions % preference.group and preference.group > 1:
        yield ("group", "microbatch"), GROUP_UNEVEN(completions=completions, group=preference.group)
