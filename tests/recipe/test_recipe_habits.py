"""What each framework does at each version when the card says nothing: a table against the sources."""

from __future__ import annotations

import re

import pytest
from recipe_cards import HEAD, flat, made

from capienza.card.training_options import KNOWN
from capienza.recipe.habits.lookup import framework_named, frameworks, layers, rows
from capienza.recipe.optimizers import NAMES
from capienza.recipe.settle import ORDER
from capienza.recipe.versions import numbers

FULL, LORA, QLORA = "{method: full}", "{method: lora}", "{method: qlora}"
TABLE = {
    # the Trainer: optimizer, clipping, the shift of the logits, checkpointing's form
    ("transformers", "5.24.0", "{torch: '2.13'}", FULL): {
        "optimizer.family": "adamw", "optimizer.run": "fused", "optimizer.state_bits": 0, "max_grad_norm": 1.0,
        "precision.base": "bf16", "precision.trained": "bf16", "precision.autocast": None, "loss.kind": "full",
        "loss.widens": True, "loss.shifts": False, "evaluation.microbatch": 8, "checkpointing.kind": "none",
        "export": "full_state", "parallel.sharding": "none", "attention": "sdpa", "has_padding_mask": True,
    },
    ("transformers", "5.24.0", "{torch: '2.7.1'}", FULL): {"optimizer.run": "foreach"},
    ("transformers", "4.53.3", "{torch: '2.9'}", FULL): {"optimizer.run": "foreach"},
    ("transformers", "4.54.1", "{torch: '2.9'}", FULL): {"optimizer.run": "fused"},
    ("transformers", "4.48.1", "{}", FULL): {"loss.shifts": True, "optimizer.run": "foreach"},
    ("transformers", "4.49.0", "{}", FULL): {"loss.shifts": False},
    ("transformers", "4.57.1", "{}", "{method: full, gradient_checkpointing: true}"): {
        "checkpointing.kind": "full", "checkpointing.is_reentrant": True
    },
    ("transformers", "5.0.0", "{}", "{method: full, gradient_checkpointing: true}"): {
        "checkpointing.is_reentrant": False
    },
    ("transformers", "5.24.0", "{}", "{method: full, bf16: true}"): {
        "precision.autocast": "bf16", "precision.has_scaler": False, "precision.widens_outputs": True,
    },
    # PEFT: rank 8, adapters in fp32 since 0.12
    ("transformers", "5.24.0", "{peft: '0.21.2'}", LORA): {
        "adapters.rank": 8, "adapters.dropout": 0.0, "adapters.targets": ("q_proj", "v_proj"),
        "adapters.dtype": "fp32", "precision.trained": "fp32", "precision.base": "bf16", "export": "adapter",
    },
    ("transformers", "5.24.0", "{peft: '0.11.1'}", LORA): {"adapters.dtype": "bf16"},
    ("transformers", "5.24.0", "{peft: '0.11.1'}", QLORA): {"adapters.dtype": "fp32", "precision.widens_rest": True},
    # TRL
    ("trl", "0.18.2", "{}", LORA): {"precision.autocast": None, "checkpointing.kind": "none"},
    ("trl", "0.19.1", "{}", LORA): {"precision.autocast": "bf16", "checkpointing.kind": "none"},
    ("trl", "0.21.0", "{}", LORA): {"checkpointing.kind": "none"},
    ("trl", "0.22.2", "{}", LORA): {"checkpointing.kind": "full", "checkpointing.is_reentrant": True},
    ("trl", "0.29.1", "{}", LORA): {"checkpointing.is_reentrant": False},
    ("trl", "0.24.0", "{}", QLORA): {
        "precision.quantised": "nf4", "precision.widens_norms": True, "precision.widens_rest": False,
        "adapters.dtype": "fp32", "precision.autocast": "bf16",
    },
    ("trl", "0.13.0", "{}", QLORA): {"precision.widens_rest": True, "precision.widens_norms": False},
    ("trl", "0.26.2", "{}", QLORA): {"precision.widens_norms": False, "adapters.dtype": "bf16"},
    ("trl", "0.27.2", "{}", "{method: qlora, objective: dpo}"): {
        "precision.widens_norms": True, "adapters.dtype": "fp32", "preference.reference": "adapter_off",
    },
    ("trl", "0.29.1", "{}", "{method: qlora, objective: dpo}"): {
        "precision.widens_norms": False, "adapters.dtype": "bf16",
    },
    ("trl", "1.5.1", "{}", FULL): {"loss.kind": "full"},
    ("trl", "1.6.0", "{}", FULL): {"loss.kind": "chunked", "loss.chunk_tokens": 256},
    ("trl", "1.8.0", "{}", "{method: full, loss_type: nll}"): {"loss.kind": "full"},
    ("trl", "1.8.0", "{}", "{method: full, use_liger_kernel: true}"): {"loss.kind": "fused_linear", "kernels": "liger"},
    ("trl", "1.14.2", "{}", FULL): {"loss.kind": "chunked"},
    ("trl", "1.16.0", "{}", FULL): {"loss.kind": "fused_linear"},
    ("trl", "1.14.2", "{}", "{method: full, objective: dpo}"): {
        "loss.kind": "full", "loss.widens": False, "preference.reference": "model",
    },
    ("trl", "1.16.0", "{}", "{method: full, objective: dpo}"): {"loss.kind": "fused_linear"},
    ("trl", "0.20.0", "{}", "{method: full, packing: true}"): {"is_packed": True, "has_padding_mask": False},
    ("trl", "0.18.2", "{}", "{method: full, packing: true}"): {"is_packed": True, "has_padding_mask": True},
    ("trl", "0.18.2", "{}", "{method: full, objective: grpo, group: 2}"): {
        "preference.reference": "model", "preference.rollout": "transformers", "preference.prompt_tokens": 512,
        "preference.completion_tokens": 256, "preference.group": 2,
    },
    ("trl", "1.16.0", "{}", "{method: full, objective: grpo, use_vllm: true, num_generations: 2}"): {
        "preference.reference": "none", "preference.rollout": "vllm_colocate", "preference.rollout_share": 0.3,
        "preference.prompt_tokens": None, "preference.completion_tokens": 512,
    },
    ("trl", "0.24.0", "{}", "{method: full, objective: grpo, use_vllm: true, num_generations: 2}"): {
        "preference.rollout": "vllm_server", "preference.rollout_share": None,
    },
    # torchtune
    ("torchtune", "0.6.1", "{}", FULL): {
        "optimizer.family": "adamw", "optimizer.state_bits": 8, "optimizer.is_paged": True,
        "optimizer.in_backward": True, "max_grad_norm": None, "loss.kind": "chunked", "loss.chunk_tokens": 512,
        "checkpointing.kind": "full", "precision.autocast": None, "precision.trained": "bf16",
        "evaluation.microbatch": 0, "kernels": "torchtune", "has_padding_mask": False,
    },
    ("torchtune", "0.6.1", "{}", QLORA): {
        "precision.quantised": "nf4_double", "adapters.dtype": "bf16", "optimizer.run": "fused", "adapters.rank": 8,
        "adapters.targets": ("q_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"),
        "precision.widens_rest": False,
    },
    # LitGPT
    ("litgpt", "0.5.7", "{}", QLORA): {
        "optimizer.is_paged": True, "optimizer.state_bits": 32, "optimizer.library": "bitsandbytes",
        "precision.autocast": None, "adapters.dtype": "bf16", "loss.kind": "chunked", "loss.chunk_tokens": 128,
        "loss.widens": False, "adapters.dropout": 0.05, "max_grad_norm": None, "evaluation.generates": 100,
        "evaluation.microbatch": 2,
    },
    ("litgpt", "0.5.7", "{}", FULL): {"precision.autocast": "bf16", "loss.shifts": True, "optimizer.run": "foreach"},
    # Unsloth
    ("unsloth", "2025.12.8", "{}", QLORA): {
        "optimizer.state_bits": 8, "optimizer.is_paged": False, "checkpointing.kind": "offload",
        "precision.quantised": "nf4_double", "adapters.dtype": "fp32", "adapters.rank": 16, "kernels": "unsloth",
        "loss.kind": "fused_linear", "precision.widens_rest": False, "precision.autocast": "bf16",
        "evaluation.microbatch": 4,
    },
    # axolotl, LLaMA-Factory, ms-swift
    ("axolotl", "0.12.2", "{}", "{method: qlora, lora_r: 32, bf16: true, lora_target_linear: true}"): {
        "optimizer.run": "fused", "precision.quantised": "nf4_double", "adapters.rank": 32,
        "adapters.targets": ("all-linear",), "precision.widens_rest": False, "evaluation.microbatch": 2,
        "precision.autocast": "bf16",
    },
    ("llama-factory", "0.9.3", "{}", FULL): {
        "precision.trained": "fp32", "checkpointing.kind": "full", "checkpointing.is_reentrant": True,
    },
    ("llama-factory", "0.9.3", "{}", LORA): {"adapters.targets": ("all-linear",), "adapters.dtype": "fp32"},
    ("ms-swift", "3.12.0", "{}", LORA): {
        "adapters.targets": ("all-linear",), "adapters.dropout": 0.05, "precision.autocast": "bf16",
        "evaluation.microbatch": 1, "checkpointing.kind": "full",
    },
    # torchtitan: fp32 weights, bf16 while it computes
    ("torchtitan", "0.2.0", "{}", FULL): {
        "precision.trained": "fp32", "precision.autocast": "bf16", "optimizer.run": "fused",
        "checkpointing.kind": "selective", "parallel.sharding": "none", "export": "none", "evaluation.microbatch": 0,
    },
    # loops of one's own
    ("peft", "0.21.2", "{}", LORA): {"optimizer.run": "foreach", "checkpointing.kind": "none", "loss.kind": "full"},
    ("accelerate", "1.15.0", "{}", "{method: full, mixed_precision: bf16}"): {"precision.widens_outputs": True},
}  # fmt: skip


@pytest.mark.parametrize("case", TABLE, ids=lambda case: " ".join(case))
def test_a_framework_takes_its_own_defaults(case: tuple[str, str, str, str]) -> None:
    name, version, options, training = case
    engine = f"engine: {{name: {name}, version: '{version}', options: {options}}}"
    found = flat(made(training, engine))
    assert {field: found[field] for field in TABLE[case]} == TABLE[case]


SHARDED = {
    ("transformers", "{}", "{method: full, sharding: fsdp1, bf16: true}"): {
        "parallel.shard_ranks": 4, "precision.trained": "fp32", "parallel.parameter_dtype": "bf16",
        "parallel.reduce_dtype": "bf16", "parallel.unsharded": False, "precision.autocast": "bf16",
    },
    ("transformers", "{}", "{method: full, sharding: fsdp1}"): {
        "precision.trained": "bf16", "parallel.parameter_dtype": None
    },
    ("transformers", "{accelerate: '1.12.0'}", "{method: lora, sharding: fsdp2, bf16: true}"): {
        "precision.base": "fp32", "adapters.dtype": "fp32"
    },
    ("transformers", "{accelerate: '1.14.0'}", "{method: lora, sharding: fsdp2, bf16: true}"): {
        "precision.base": "bf16"
    },
    ("transformers", "{}", "{method: full}"): {
        "parallel.sharding": "ddp", "parallel.shard_ranks": 1, "parallel.data_ranks": 4,
        "parallel.gradient_as_bucket_view": False,
    },
    ("transformers", "{}", "{method: full, deepspeed: zero3, bf16: true}"): {
        "precision.master": "fp32", "precision.trained": "bf16", "precision.autocast": None,
        "precision.widens_outputs": False, "parallel.bucket_elements": 500_000_000, "parallel.shard_ranks": 4,
    },
    ("transformers", "{}", "{method: full, zero_stage: 2, bf16: true, offload_optimizer: cpu}"): {
        "parallel.sharding": "zero2", "parallel.offload": "optimizer"
    },
    ("transformers", "{}", "{method: full, zero_stage: 3, bf16: true, offload_optimizer: cpu, offload_param: cpu}"): {
        "parallel.offload": "parameters"
    },
    ("torchtitan", "{}", "{method: full}"): {
        "parallel.sharding": "fsdp2", "parallel.parameter_dtype": "bf16", "parallel.reduce_dtype": "fp32",
        "precision.trained": "fp32", "precision.autocast": None, "optimizer.run": "fused",
    },
    ("torchtitan", "{}", "{method: full, reshard_after_forward: false}"): {"parallel.unsharded": True},
    ("litgpt", "{}", "{method: lora}"): {"parallel.sharding": "fsdp1", "checkpointing.kind": "full"},
    ("torchtune", "{}", "{method: full}"): {
        "parallel.sharding": "fsdp2", "optimizer.is_paged": False, "optimizer.in_backward": False
    },
}  # fmt: skip


@pytest.mark.parametrize("case", SHARDED, ids=lambda case: " ".join(case))
def test_several_gpus_share_as_the_framework_does(case: tuple[str, str, str]) -> None:
    name, options, training = case
    found = flat(made(training, f"engine: {{name: {name}, options: {options}}}", "placement: {data_parallel: 4}"))
    assert {field: found[field] for field in SHARDED[case]} == SHARDED[case]


def test_lengths_of_reinforcement_learning_are_those_of_the_card() -> None:
    from capienza.card.load import parse_card
    from capienza.recipe.read import recipe_of

    text = HEAD.replace("{required: 2048}", "{required: {prompt: 1500, output: 548}}")
    trained = "training: {method: full, objective: grpo, group: 2, completion_tokens: 300}\n"
    preference = recipe_of(parse_card(text + trained), "bf16", "llama").preference
    assert preference is not None
    assert (preference.prompt_tokens, preference.completion_tokens) == (1500, 300)


@pytest.mark.parametrize(("written", "autocast"), [("true", "bf16"), ("auto", "bf16"), ("full", None), ("false", None)])
def test_axolotl_s_bf16_has_four_values(written: str, autocast: str | None) -> None:
    recipe = made(f"{{method: full, bf16: {written}}}", "engine: {name: axolotl, version: 0.12.2}")
    assert recipe.precision.autocast == autocast


def test_without_an_engine_the_trainer_is_taken_and_it_is_said() -> None:
    recipe = made(FULL)
    assert recipe.framework == "transformers"
    assert recipe.framework_version is None
    assert "recipe.no-engine" in {one.source.code for one in recipe.origins}


def test_what_an_optimizer_s_name_says_is_stated_by_it() -> None:
    origins = {one.field: one for one in made("{method: full, optimizer: paged_adamw_8bit}").origins}
    for field in ("family", "run", "state_bits", "is_paged", "library"):
        assert origins[f"optimizer.{field}"].is_stated
        assert origins[f"optimizer.{field}"].source.parameters == {"field": "training.optimizer"}
    assert not origins["optimizer.in_backward"].is_stated


def test_a_framework_without_habits_is_named() -> None:
    recipe = made(FULL, "engine: {name: my-trainer}")
    told = next(one for one in recipe.origins if one.field == "framework")
    assert told.source.code == "recipe.no-habits"
    assert "my-trainer" in str(told.source)
    assert not told.is_stated


def test_other_libraries_are_taken_as_they_were_then() -> None:
    """TRL 0.13 is of December 2024: before transformers 4.49 and before torch 2.8."""
    recipe = made(FULL, "engine: {name: trl, version: 0.13.0}")
    assert recipe.loss.shifts
    assert recipe.optimizer.run == "foreach"
    told = next(one.source for one in recipe.origins if one.field == "loss.shifts")
    assert told.code == "recipe.habit-of-then"
    assert "trl 0.13.0" in str(told)


def test_a_version_beyond_the_last_one_read_is_said_to_be_so() -> None:
    recipe = made(FULL, "engine: {name: trl, version: 9.0.0}")
    assert "recipe.habit-elsewhere" in {one.source.code for one in recipe.origins}


@pytest.mark.parametrize("text", ["latest", "main", "x1"])
def test_what_is_no_version_is_refused_in_its_place(text: str) -> None:
    from capienza.errors import InputError

    with pytest.raises(InputError) as caught:
        made(FULL, f"engine: {{name: trl, version: {text}}}")
    assert caught.value.place.key == "engine.version"


def test_the_data_name_known_options_and_readable_ranges() -> None:
    facts = {"base_format", "base_dtype", "frozen_dtype", "loads", "quantised", "has_ranks", "accumulates",
             "fsdp_is_on", "method", "rank", "optimizer", "targets", "export"}  # fmt: skip
    allowed = set(KNOWN) | facts
    for file, _, option, row in rows():
        assert option in allowed, (file, option)
        assert set(row.when) <= allowed, (file, option)
        assert row.source.strip() == row.source != "", (file, option)
        for bound in (row.since, row.below, *(bound for pair in row.others.values() for bound in pair)):
            assert bound is None or numbers(bound), (file, option)
        assert row.since is None or row.below is None or numbers(row.since) < numbers(row.below), (file, option)
        kind = KNOWN[option].kind if option in KNOWN else None
        if kind is not None and kind.convert is not None and row.value not in ("base", "microbatch"):
            from decimal import Decimal

            value = Decimal(str(row.value)) if isinstance(row.value, float) else row.value
            kind.convert(value)
        if option == "optimizer":
            assert row.value in NAMES


def test_every_option_is_settled_once() -> None:
    own = {
        "save_only_model",
        "save_total_limit",
        "dora",
        "optimizer_library",
        "targets",
        "fsdp",
        "fsdp_config",
        "deepspeed",
    }
    assert len(set(ORDER)) == len(ORDER)
    assert set(KNOWN) - own <= set(ORDER)


def test_every_framework_has_its_files_and_one_name() -> None:
    for key, one in frameworks().items():
        assert [layers()[name].title for name in one.layers]
        assert all(framework_named(name) == key for name in (key, key.replace("_", "-").upper(), *one.names))
    assert framework_named("Llama Factory") == "llama_factory"
    assert framework_named("vllm") is None


def test_sources_name_code_and_not_machines() -> None:
    for _, _, _, row in rows():
        assert not re.search(r"/tmp|/work|https?://", row.source)
