"""The defaults in the data against the libraries that are installed: transformers, PEFT, torch, accelerate."""

from __future__ import annotations

import importlib.metadata
import inspect

import pytest
from recipe_cards import flat, made

from capienza.recipe.habits.lookup import layers
from capienza.recipe.habits.targets import default_targets
from capienza.recipe.optimizers import NAMES, optimizer_named
from capienza.recipe.versions import numbers

transformers = pytest.importorskip("transformers")
peft = pytest.importorskip("peft")
torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle

NOT_COMPUTED = {
    "adamw_torch_xla", "adamw_torch_npu_fused", "adamw_anyprecision", "ademamix", "ademamix_8bit",
    "paged_ademamix_32bit", "paged_ademamix_8bit", "galore_adamw_8bit", "galore_adafactor",
    "galore_adamw_8bit_layerwise", "galore_adafactor_layerwise", "lomo", "adalomo", "grokadamw",
    "schedule_free_radam", "schedule_free_adamw", "schedule_free_sgd", "stable_adamw",
}  # fmt: skip
"""Optimizers of transformers that are refused by name."""


@pytest.fixture(scope="module")
def arguments(tmp_path_factory):
    return transformers.TrainingArguments(output_dir=str(tmp_path_factory.mktemp("run")))


@pytest.fixture(scope="module")
def trainer():
    versions = {name: importlib.metadata.version(name).split("+")[0] for name in ("torch", "peft", "accelerate")}
    options = ", ".join(f"{name}: '{version}'" for name, version in versions.items())
    engine = f"engine: {{name: transformers, version: '{transformers.__version__}', options: {{{options}}}}}"
    return lambda training: flat(made(training, engine))


def test_the_trainer_of_the_installed_transformers(arguments, trainer) -> None:
    found = trainer("{method: full}")
    named = optimizer_named(str(arguments.optim.value))
    assert named is not None
    assert (found["optimizer.family"], found["optimizer.run"]) == (named.family, named.run)
    assert found["max_grad_norm"] == arguments.max_grad_norm
    assert found["evaluation.microbatch"] == arguments.per_device_eval_batch_size
    assert found["checkpointing.kind"] == ("full" if arguments.gradient_checkpointing else "none")
    assert found["precision.autocast"] == ("bf16" if arguments.bf16 else "fp16" if arguments.fp16 else None)
    assert found["is_compiled"] == bool(arguments.torch_compile)


def test_adapters_of_the_installed_peft(trainer) -> None:
    found, config = trainer("{method: lora}"), peft.LoraConfig()
    assert (found["adapters.rank"], found["adapters.alpha"], found["adapters.dropout"]) == (
        config.r, config.lora_alpha, config.lora_dropout,
    )  # fmt: skip
    casts = inspect.signature(peft.get_peft_model).parameters["autocast_adapter_dtype"].default
    assert found["adapters.dtype"] == ("fp32" if casts else "bf16")


def test_targets_are_those_of_the_installed_peft() -> None:
    table = peft.utils.constants.TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING
    for name, targets in table.items():
        found = default_targets(name)
        assert (found and found.value) == (" ".join(targets) if isinstance(targets, list) else None), name
    assert default_targets("no-such-model") is None


def test_torch_s_own_defaults() -> None:
    assert inspect.signature(torch.optim.SGD).parameters["momentum"].default == 0
    assert inspect.signature(torch.optim.RMSprop).parameters["momentum"].default == 0
    ddp = inspect.signature(torch.nn.parallel.DistributedDataParallel).parameters["gradient_as_bucket_view"]
    assert ddp.default is False


def test_every_optimizer_of_transformers_is_known_or_refused_by_name() -> None:
    names = {one.value for one in transformers.training_args.OptimizerNames}
    assert {name for name in names if name not in NAMES} == NOT_COMPUTED


@pytest.mark.parametrize("name", ["trainer", "models", "peft", "accelerate"])
def test_no_installed_release_is_newer_than_the_last_one_read(name: str) -> None:
    layer = layers()[name]
    assert numbers(importlib.metadata.version(layer.library)) <= numbers(layer.read[-1])
