"""Recipes that contradict themselves: each refused at its line and key, with what to do; and their sound neighbours."""

from __future__ import annotations

from pathlib import Path

import pytest
from recipe_cards import HEAD, card_of, made

from capienza.card.load import load_card
from capienza.errors import InputError, InputErrors, UsageError
from capienza.recipe.read import recipe_of
from capienza.recipe.settle import missing_fields

RANKS = "placement: {data_parallel: 4}"
REFUSED: dict[tuple[str, ...], list[str]] = {
    # formats
    ("{method: full}", "weights: {format: nf4}"): ["7 frozen-format training.method"],
    ("{method: full}", "weights: {format: gptq-int4-g128}"): ["7 frozen-format training.method"],
    ("{method: qlora}", "weights: {format: bf16}"): ["7 plain-base training.method"],
    ("{method: full, fp16: true}", "weights: {format: fp16}"): ["7 scaled-half training.fp16"],
    ("{method: lora, adapter_dtype: fp16, fp16: true}", "weights: {format: fp16}"): ["7 scaled-half training.fp16"],
    ("{method: qlora, fp8: true}",): ["7 fp8-base training.fp8"],
    ("{method: full, master_weights: true}", "weights: {format: fp32}"): ["7 master-wide training.master_weights"],
    ("{method: full, attention: flash_attention_2}", "weights: {format: fp32}"): ["7 flash-wide training.attention"],
    ("{method: lora, kbit_upcast: norms}",): ["7 needs training.kbit_upcast"],
    # adapters
    ("{method: full, targets: q_proj}",): ["7 needs training.targets"],
    ("{method: full, dropout: 0.1}",): ["7 needs training.dropout"],
    ("{method: full, modules_to_save: lm_head}",): ["7 needs training.modules_to_save"],
    ("{method: full, adapter_dtype: bf16}",): ["7 needs training.adapter_dtype"],
    ("{method: full, use_dora: true}",): ["7 needs training.use_dora"],
    ("{method: lora, trained_dtype: fp32}",): ["7 needs training.trained_dtype"],
    # the optimizer
    ("{method: full, optimizer: adamw_torch, paged: true}",): ["7 paged-elsewhere training.paged"],
    ("{method: full, optimizer: paged_adamw_8bit, optimizer_library: torch}",): [
        "7 paged-elsewhere training.optimizer_library",
    ],
    ("{method: full, optimizer: paged_adamw, paged: false}",): ["7 not-paged training.paged"],
    ("{method: full, optimizer: adamw_torch, optimizer_states: 8bit}",): [
        "7 states-elsewhere training.optimizer_states"
    ],
    ("{method: full, optimizer: adamw_8bit, optimizer_states: 4bit}",): [
        "7 states-elsewhere training.optimizer_states"
    ],
    ("{method: full, optimizer: adamw_8bit, optimizer_run: fused}",): ["7 run-elsewhere training.optimizer_run"],
    ("{method: full, optimizer: adamw, momentum: 0.9}",): ["7 needs training.momentum"],
    ("{method: full, optimizer: adamw, projection_rank: 64}",): ["7 needs training.projection_rank"],
    # the optimizer in the backward pass
    ("{method: full, optimizer_in_backward: true, sharding: zero3}", RANKS): [
        "7 in-backward-sharded training.optimizer_in_backward"
    ],
    ("{method: full, optimizer_in_backward: true, zero_stage: 1}", RANKS): [
        "7 in-backward-sharded training.optimizer_in_backward"
    ],
    ("{method: full, optimizer_in_backward: true}", "accumulation: 4"): [
        "7 in-backward-accumulates training.optimizer_in_backward"
    ],
    ("{method: full, optimizer: galore_adamw_layerwise}", "accumulation: 4"): [
        "7 in-backward-accumulates training.optimizer"
    ],
    ("{method: full, optimizer_in_backward: true, max_grad_norm: 1}",): ["7 in-backward-clips training.max_grad_norm"],
    ("{method: full, optimizer_in_backward: true, fp16: true}", "weights: {format: fp32}"): [
        "7 in-backward-scales training.optimizer_in_backward"
    ],
    # several GPUs
    ("{method: full, offload: optimizer}",): ["7 offload-alone training.offload"],
    ("{method: full, offload_param: cpu}",): ["7 offload-alone training.offload_param"],
    ("{method: full, offload: parameters, sharding: zero2}", RANKS): ["7 offload-alone training.offload"],
    ("{method: full, offload: optimizer, sharding: fsdp2}", RANKS): ["7 offload-alone training.offload"],
    ("{method: full, sharding: none}", RANKS): ["7 ranks-alone training.sharding"],
    ("{method: full, sharding: fsdp2, shard_ranks: 3}", RANKS): ["7 shards training.shard_ranks"],
    ("{method: full, shard_ranks: 2}", RANKS): ["7 needs training.shard_ranks"],
    ("{method: full, parameter_dtype: bf16, sharding: ddp}", RANKS): ["7 needs training.parameter_dtype"],
    ("{method: full, reduce_dtype: fp32}",): ["7 needs training.reduce_dtype"],
    ("{method: full, reshard_after_forward: true, sharding: zero3}", RANKS): ["7 needs training.reshard_after_forward"],
    ("{method: full, bucket_elements: 1000, sharding: fsdp2}", RANKS): ["7 needs training.bucket_elements"],
    ("{method: full, gradient_as_bucket_view: true}",): ["7 needs training.gradient_as_bucket_view"],
    # the passes
    ("{method: full, reentrant: true}",): ["7 needs training.reentrant"],
    ("{method: full, activation_offloading: true}",): ["7 needs training.activation_offloading"],
    ("{method: full, gradient_checkpointing: selective, activation_offloading: true}",): [
        "7 needs training.activation_offloading",
        "7 offload-of-all training.activation_offloading",
    ],
    ("{method: full, loss: full, loss_chunk: 128}",): ["7 needs training.loss_chunk"],
    ("{method: full, loss: fused, loss_chunks: 8}",): ["7 needs training.loss_chunks"],
    ("{method: full, loss: liger, loss_shift_copy: true}",): ["7 needs training.loss_shift_copy"],
    ("{method: full, use_liger_kernel: true, loss_type: chunked_nll}", "engine: {name: trl, version: 1.8.0}"): [
        "7 liger-chunks training.loss_type"
    ],
    ("{method: full, padding_free: true, padding_mask: true}",): ["7 mask-without-padding training.padding_mask"],
    ("{method: full, packing_strategy: bfd}",): ["7 needs training.packing_strategy"],
    ("{method: full, export: adapter}",): ["7 no-adapter training.export"],
    ("{method: full, export: merge}",): ["7 no-adapter training.export"],
    ("{method: full, eval: none, eval_generates: 5}",): ["7 no-evaluation training.eval_generates"],
    ("{method: full, eval_microbatch: 0, eval_keeps_logits: true}",): ["7 no-evaluation training.eval_keeps_logits"],
    # preference and reinforcement
    ("{method: full, objective: dpo, packing: true}",): ["7 needs training.packing"],
    ("{method: full, objective: dpo, reference: adapter_off}",): ["7 no-adapter-to-switch-off training.reference"],
    ("{method: full, reference: model}",): ["7 needs training.reference"],
    ("{method: full, beta: 0.1}",): ["7 needs training.beta"],
    ("{method: full, num_generations: 8}",): ["7 needs training.num_generations"],
    ("{method: full, objective: dpo, rollout: transformers}",): ["7 needs training.rollout"],
    ("{method: full, reward_model: a/b}",): ["7 needs training.reward_model"],
    ("{method: full, objective: grpo, group: 1}",): ["7 group-too-small training.group"],
    ("{method: full, objective: grpo}",): ["7 group-too-small training.objective"],
    ("{method: full, objective: grpo, group: 3}",): ["7 group-uneven training.group"],
    ("{method: full, objective: grpo, group: 2, rollout_share: 0.4}",): ["7 needs training.rollout_share"],
    ("{method: full, objective: grpo, group: 2, rollout: vllm_server, rollout_sleeps: true}",): [
        "7 needs training.rollout_sleeps"
    ],
    ("{method: full, objective: grpo, group: 2, rollout: transformers, use_vllm: true}",): [
        "7 rollout-twice training.rollout"
    ],
    # names
    ("{method: dpo}",): ["7 not-a-method training.method"],
    ("{method: lorra}",): ["7 not-a-method training.method"],
    ("{method: full, optimizer: shampoo}",): ["7 not-an-optimizer training.optimizer"],
    # one option in two spellings
    ("{method: full, bf16: true, fp16: true}",): ["7 two-values training.fp16"],
    ("{method: lora, alpha: 8, lora_alpha: 16}",): ["7 two-values training.lora_alpha"],
    ("{method: full, attention: sdpa}", "engine: {name: trl, options: {attn_implementation: eager}}"): [
        "8 two-values engine.options.attn_implementation"
    ],
}


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: " ".join(case))
def test_a_contradiction_is_refused_where_it_stands(case: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "card.yaml"
    training, *more = case
    path.write_text("".join([HEAD, f"training: {training}\n", *(f"{line}\n" for line in more)]))
    with pytest.raises(InputError) as caught:
        recipe_of(load_card(path), "bf16", "llama")
    problems = caught.value.problems if isinstance(caught.value, InputErrors) else (caught.value,)
    found = [
        f"{one.place.line or '-'} {one.message.code.removeprefix('recipe.')} {one.place.key or '-'}" for one in problems
    ]
    assert found == REFUSED[case]
    assert all(one.place.file == str(path) and one.message.hint for one in problems)


SOUND: tuple[tuple[str, ...], ...] = (
    ("{method: qlora}", "weights: {format: nf4}"),
    ("{method: lora}", "weights: {format: gptq-int4-g128}"),
    ("{method: full, fp16: true}", "weights: {format: fp32}"),
    ("{method: lora, fp16: true}", "weights: {format: gptq-int4-g128}"),
    ("{method: lora, fp16: true, bf16: false}",),
    ("{method: full, attention: flash_attention_2, bf16: true}", "weights: {format: fp32}"),
    ("{method: full, optimizer: adamw, optimizer_library: bitsandbytes, optimizer_states: 8bit}",),
    ("{method: full, optimizer: adamw, optimizer_library: bitsandbytes, optimizer_states: 8bit, paged: true}",),
    ("{method: full, optimizer: bitsandbytes.optim.PagedAdamW8bit}",),
    ("{method: full, optimizer: sgd, momentum: 0.9}",),
    ("{method: full, optimizer_in_backward: true, max_grad_norm: none}",),
    ("{method: full, optimizer_in_backward: true, sharding: fsdp2}", RANKS),
    ("{method: full, sharding: fsdp2, shard_ranks: 2}", RANKS),
    ("{method: full, deepspeed: zero3, offload_param: cpu, offload_optimizer: cpu}", RANKS),
    ("{method: full, gradient_checkpointing: true, activation_offloading: true, reentrant: false}",),
    ("{method: full, loss: chunked, loss_chunks: 8}",),
    ("{method: full, objective: dpo, reference: precomputed}",),
    ("{method: lora, objective: dpo}",),
    ("{method: full, objective: grpo, group: 2, rollout: vllm_colocate, rollout_share: 0.4, rollout_sleeps: true}",),
    ("{method: full, dropout: 0, packing: false, offload: none}",),
    ("{method: lora, alpha: 16, lora_alpha: 16}",),
    ("{method: full, attention: eager}", "engine: {name: trl, options: {attn_implementation: eager}}"),
)


@pytest.mark.parametrize("case", SOUND, ids=" ".join)
def test_its_sound_neighbour_is_a_recipe(case: tuple[str, ...]) -> None:
    assert made(*case).origins


AT_LOADING = {
    "{method: lora, dropout: 1}": "not-below training.dropout",
    "{method: lora, dropout: -0.1}": "not-below training.dropout",
    "{method: lora, lora_dropout: 1.0}": "not-below training.lora_dropout",
    "{method: lora, rank: 0}": "not-a-whole-number training.rank",
    "{method: full, rank: 8}": "contradiction training.rank",
    "{method: full, gradient_checkpointing: partial}": "not-a-word training.gradient_checkpointing",
    "{method: full, attention: flash2}": "not-a-word training.attention",
    "{method: full, loss: ligr}": "not-a-word training.loss",
    "{method: full, mixed_precision: bf8}": "not-a-word training.mixed_precision",
    "{method: full, bf16: yess}": "not-a-word training.bf16",
    "{method: full, packing: maybe}": "not-a-flag training.packing",
    "{method: full, sharding: zero4}": "not-a-word training.sharding",
    "{method: lora, targets: []}": "not-names training.targets",
    "{method: lora, targets: {a: b}}": "not-names training.targets",
    "{method: full, eval_microbatch: -1}": "not-a-whole-number training.eval_microbatch",
    "{method: full, max_grad_norm: -1}": "not-a-number training.max_grad_norm",
    "{method: full, gradient_checkpoint: true}": "unknown-key training.gradient_checkpoint",
    "{method: full, export: gguf}": "not-an-export training.export",
}


@pytest.mark.parametrize("training", AT_LOADING)
def test_a_value_that_nothing_takes_is_refused_as_the_card_is_read(training: str) -> None:
    with pytest.raises(InputErrors) as caught:
        card_of(training)
    (problem,) = caught.value.problems
    assert f"{problem.message.code.removeprefix('card.')} {problem.place.key}" == AT_LOADING[training]


def test_a_microbatch_of_nothing_is_refused() -> None:
    from capienza.card.load import parse_card

    with pytest.raises(InputErrors) as caught:
        parse_card(HEAD.replace("microbatch: 2", "microbatch: 0"))
    assert caught.value.problems[0].place.key == "microbatch"


def test_open_fields_are_named_together() -> None:
    from capienza.card.load import parse_card

    card = parse_card("capienza: 1\nname: x\nmodel: {id: a/b}\ntask: fine-tuning\n")
    assert missing_fields(card) == ("training.method", "tokens.required", "microbatch")
    with pytest.raises(UsageError) as caught:
        recipe_of(card)
    assert "training.method, tokens.required, microbatch" in str(caught.value)


@pytest.mark.parametrize(
    ("training", "stored", "model_type", "field"),
    [
        ("{method: full}", None, "llama", "weights.format"),
        ("{method: lora}", "bf16", "no-such-model", "training.targets"),
        ("{method: lora}", "bf16", None, "training.targets"),
    ],
)
def test_what_no_habit_fills_is_asked_for(training: str, stored: str | None, model_type: str | None, field: str):
    with pytest.raises(UsageError) as caught:
        made(training, stored=stored, model_type=model_type)
    assert field in str(caught.value)
