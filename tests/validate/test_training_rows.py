"""Training cases: how they are read, what is compared, what is set apart and why."""

from __future__ import annotations

import contextlib
import copy
import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from training_at_hand import LLAMA_3_8B, case, reading, training_cases

from capienza.errors import InputError
from capienza.predict.calibration import Calibration, Kind, Ratio
from capienza.recipe.recipe import Checkpointing, Lengths
from capienza.validate import training_rows
from capienza.validate.run import calibration_of
from capienza.validate.training_figures import Figures
from capienza.validate.training_model import training_model
from capienza.validate.training_names import family_named
from capienza.validate.training_recipe import training_recipe
from capienza.validate.training_rows import read_case, training_row


def recipe(**changes: Any):
    return training_recipe(case(**changes), "llama")


def test_a_case_that_states_everything_assumes_nothing() -> None:
    found = recipe()
    assert found.origins == ()
    assert (found.method, found.tokens, found.microbatch, found.attention) == ("lora", 1024, 2, "sdpa")
    assert (found.precision.base, found.precision.trained, found.precision.autocast) == ("bf16", "fp32", None)
    assert dict(found.libraries) == {"torch": "2.4.1", "transformers": "4.48.1", "peft": "0.13.2"}
    assert found.adapters is not None
    assert found.adapters.targets == ("q_proj", "v_proj")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"gradient_checkpointing": None}, "checkpointing.kind"),
        ({"attention": None}, "attention"),
        ({"optimizer": None}, "optimizer.family"),
        ({"weight_dtype": None, "mixed_precision": None}, "precision.base"),
        ({"lora": {"r": 8}}, "adapters.targets"),
        ({"grad_accum": "$(expr 16 / 2)"}, "accumulation"),
        ({"seq_len": "max_seq_length 2048; real lengths vary"}, "tokens"),
        ({"gradient_checkpointing": "full"}, "checkpointing.is_reentrant"),
    ],
)
def test_what_is_not_stated_is_taken_from_the_framework_and_marked(changes: dict, field: str) -> None:
    assert field in {origin.field for origin in recipe(**changes).origins}


MS_SWIFT = {
    "framework": "ms-swift 1.x", "framework_version": "torch 2.1.1, transformers ~4.36", "mixed_precision": None,
    "packed": False,
    "source": "modelscope/ms-swift docs/source_en/LLM/Benchmark.md@b40f31df7^",
}  # fmt: skip
SCRIPT = {"framework": "PyTorch scripts 00_orig.py / 01_opt_single_gpu.py", "method": "full", "lora": None}


@pytest.mark.parametrize(
    ("changes", "family", "field", "expected"),
    [
        (MS_SWIFT, "llama", "lengths", Lengths(mean_tokens=3234, drops_longer=True)),
        (MS_SWIFT | {"packed": True}, "llama", "lengths", None),
        (
            MS_SWIFT | {"source": "", "notes": "mean 812 tokens"},
            "llama",
            "lengths",
            Lengths(mean_tokens=812, drops_longer=True),
        ),
        ({"notes": "mean 812 tokens", "packed": False}, "llama", "lengths", Lengths(mean_tokens=812)),
        (MS_SWIFT | {"attention": "flash2"}, "mistral", "attention", "eager"),
        (MS_SWIFT | {"attention": "flash2"}, "qwen", "attention", "flash_attention_2"),
        (
            MS_SWIFT | {"attention": "flash2", "framework_version": "transformers 4.35"},
            "mistral",
            "attention",
            "flash_attention_2",
        ),
        (SCRIPT | {"notes": "custom LN/GELU."}, "gpt2", "kernels", "written"),
        (SCRIPT | {"notes": "native LN/GELU."}, "gpt2", "kernels", "pytorch"),
    ],
)
def test_habits_that_are_not_of_the_recipes_own_words(changes: dict, family: str, field: str, expected: Any) -> None:
    assert getattr(training_recipe(case(**changes), family), field) == expected


@pytest.mark.parametrize(
    ("dtype", "method", "base", "autocast"),
    [
        ("bf16", "lora", "bf16", "bf16"),
        ("gptq-int4", "lora on gptq-int4", "fp16", "fp16"),
        ("fp32", "full", "fp32", None),
    ],
)
def test_ms_swift_trains_under_autocast(dtype: str, method: str, base: str, autocast: str | None) -> None:
    precision = training_recipe(case(**MS_SWIFT | {"weight_dtype": dtype, "method": method}), "llama").precision
    assert (precision.base, precision.autocast) == (base, autocast)


@pytest.mark.parametrize(("torch", "is_reentrant"), [("2.0.1", True), ("2.1.1", False)])
def test_ms_swift_frees_checkpoints_of_reentrance_and_prepares_no_bits(torch: str, is_reentrant: bool) -> None:
    asked = MS_SWIFT | {"framework_version": f"torch {torch}, transformers ~4.36", "gradient_checkpointing": "full"}
    found = training_recipe(case(**asked | {"weight_dtype": "bnb-nf4", "method": "lora on bnb-nf4"}), "qwen")
    assert found.checkpointing == Checkpointing(kind="full", is_reentrant=is_reentrant)
    assert found.precision.quantised == "nf4"
    assert not found.precision.widens_rest


@pytest.mark.parametrize(("name", "is_normalised"), [("Baichuan2-7B-Chat", True), ("Baichuan-7B", False)])
def test_the_head_of_baichuan2_is_normalised(name: str, is_normalised: bool) -> None:
    assert training_recipe(case(**MS_SWIFT | {"model": name}), "llama").loss.is_normalised is is_normalised


@pytest.mark.parametrize(("loss", "widens"), [("cut cross entropy", False), ("HF full logits fp32", True)])
def test_axolotl_narrows_its_norms_for_cut_cross_entropy(loss: str, widens: bool) -> None:
    asked = {
        "framework": "axolotl",
        "method": "qlora",
        "weight_dtype": "bnb nf4",
        "loss_impl": loss,
        "attention": "sdpa",
    }
    assert recipe(**asked).precision.widens_norms is widens


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("torch AdamW (HF adamw_torch, foreach default)", ("adamw", "foreach", 0, "torch", False)),
        ("AdamW fused", ("adamw", "fused", 0, "torch", False)),
        ("bnb PagedAdamW (states in managed memory)", ("adamw", "loop", 32, "bitsandbytes", True)),
        ("paged_adamw_8bit", ("adamw", "loop", 8, "bitsandbytes", True)),
        ("torchao AdamW4bit (block 128)", ("adamw", "loop", 4, "torchao", False)),
        ("Adafactor", ("adafactor", "foreach", 0, "transformers", False)),
        ("SGD", ("sgd", "foreach", 0, "torch", False)),
    ],
)
def test_optimizers(said: str, expected: tuple) -> None:
    found = recipe(optimizer=said).optimizer
    run = "foreach" if found.library == "transformers" else found.run
    assert (found.family, run, found.state_bits, found.library, found.is_paged) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"weight_dtype": "bnb nf4", "method": "qlora"}, ("nf4", "rest")),
        ({"weight_dtype": "nf4 (block 64, double quant) + bf16 rest", "method": "qlora"}, ("nf4_double", "rest")),
        ({"weight_dtype": "bf16", "method": "qlora"}, ("nf4_double", "rest")),
        ({"weight_dtype": "int4 GPTQ + fp16 rest", "method": "lora on GPTQ int4 g128"}, ("gptq-int4-g128", "")),
        ({"weight_dtype": "bnb nf4", "method": "qlora", "framework": "LitGPT finetune/lora.py"}, ("nf4", "")),
        ({"weight_dtype": "bnb nf4", "method": "qlora", "framework": "TRL SFTTrainer"}, ("nf4", "norms")),
    ],
)
def test_quantised_bases(changes: dict, expected: tuple) -> None:
    found = recipe(**changes).precision
    prepared = "rest" if found.widens_rest else "norms" if found.widens_norms else ""
    assert (found.quantised, prepared) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"parallelism": "FSDP1 FULL_SHARD x2", "num_gpus": 2}, ("fsdp1", 2, 1)),
        ({"parallelism": "FSDP2 4 x TP 2", "num_gpus": 8}, ("fsdp2", 4, 2)),
        ({"parallelism": "4 GPU; deepspeed=zero3; tp=None", "num_gpus": 4}, ("zero3", 4, 1)),
        ({"parallelism": "DDP x4", "num_gpus": 4}, ("ddp", 4, 1)),
        ({"parallelism": "1 GPU"}, ("none", 1, 1)),
    ],
)
def test_how_ranks_share(changes: dict, expected: tuple) -> None:
    found = recipe(**changes).parallel
    assert (found.sharding, found.data_ranks, found.tensor_ranks) == expected


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("meta-llama/Llama-3.2-3B", "llama"), ("unsloth/tinyllama-bnb-4bit", "llama"), ("zephyr-7b", "mistral"),
        ("mistralai/Mixtral-8x7B-v0.1", "mixtral"), ("Qwen-7b-Chat", "qwen"), ("Qwen/Qwen2.5-3B", "qwen2"),
        ("unsloth/Qwen3-32B", "qwen3"), ("stablelm-base-alpha-3b", "gpt_neox"), ("EleutherAI/pythia-1b", "gpt_neox"),
        ("google/gemma-2-9b", "gemma2"), ("gemma-2b", "gemma"), ("gemma-7b", "gemma"), ("gemma-3-270m", "gemma3_text"),
        ("microsoft/phi-2", "phi"), ("unsloth/Phi-4", "phi3"), ("ibm/PowerLM-3b", "granite"), ("GPT-2 124M", "gpt2"),
        ("bigcode/starcoder2-3b", "starcoder2"), ("falcon-7b", "falcon"), ("something-else", None),
    ],
)  # fmt: skip
def test_families_by_name(name: str, family: str | None) -> None:
    assert family_named(name) == family


def test_an_unknown_name_is_told_by_its_parameters() -> None:
    found = training_model(case(model="my-own-finetune"))
    assert (found.family, found.is_named) == ("llama", False)
    assert found.architecture.num_parameters == LLAMA_3_8B["params"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"arch": None}, "does not state the model's dimensions"),
        ({"arch": {**LLAMA_3_8B, "params": 7_000_000_000}}, "give 8030261248 parameters as llama"),
        ({"arch": {**LLAMA_3_8B, "layers": "19 double + 38 single"}}, "arch.layers is"),
        ({"arch": {key: LLAMA_3_8B[key] for key in ("hidden", "vocab", "params")}}, "does not state layers, heads"),
        ({"model": "my-own", "arch": {**LLAMA_3_8B, "params": None}}, "names no family"),
        ({"model": "black-forest-labs/FLUX.1-dev"}, "no language model"),
        ({"method": "peft:ia3"}, "the method peft:ia3"),
        ({"method": "op fwd+bwd"}, "one operation"),
        ({"loss_impl": "classification (2 labels)"}, "another head"),
        ({"optimizer": "BAdam"}, "the optimizer badam"),
        ({"lora": None}, "the rank of the adapters"),
        ({"lora": {"r": "many"}}, "lora.r is"),
        ({"microbatch": -1}, "microbatch is -1"),
        ({"num_gpus": 8, "parallelism": "FSDP1 4 x TP 2"}, "divides each copy"),
        (
            {"compile": True, "num_gpus": 8, "parallelism": "FSDP2 x8", "framework": "torchtitan"},
            "compiled",
        ),
    ],
)
def test_a_case_that_is_not_predicted_says_why(changes: dict, said: str) -> None:
    (entry,) = training_row(case(**changes))
    assert entry.status == "skipped"
    assert said in entry.reason


@pytest.fixture
def predicted(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """A predictor of one's own: what is scored does not depend on how good the figures are."""
    figures = {"allocated_peak": 30e9, "allocated_after": 20e9, "reserved_peak": 33e9, "device_peak": 34e9}
    figures |= {"allocated_loaded": 16e9, "reserved_loaded": 17e9, "device_context": 5e8}
    monkeypatch.setattr(training_rows, "figures", lambda *_: Figures(figures, {}))
    return figures


@pytest.mark.parametrize(
    ("counter", "phase", "kind"),
    [
        ("torch_allocated_peak", "training", "allocated_peak"),
        ("torch_allocated", "after train() returns", "allocated_after"),
        ("torch_allocated", "after model init", "allocated_loaded"),
        ("torch_reserved_peak", "before trainer.train() (load + adapter init)", "reserved_loaded"),
        ("torch_reserved", "after 15 epochs", "reserved_peak"),
        ("device_used_peak", "whole run", "device_peak"),
        ("device_used_peak", "CUDA context baseline on T4", "device_context"),
    ],
)
def test_each_counter_is_compared_with_its_own_kind(predicted: dict, counter: str, phase: str, kind: str) -> None:
    (entry,) = training_row(case(measured=[reading(counter, 10e9, phase)]))
    assert (entry.status, entry.quantity) == ("scored", f"training.{kind}.gold")
    assert entry.expected == predicted[kind]


@pytest.mark.parametrize(
    ("changes", "status", "said"),
    [
        ({"measured": [reading("torch_reserved", 1e9, "mean over training steps")]}, "skipped", "many steps"),
        ({"measured": [reading("unknown", 1e9)]}, "skipped", "which counter"),
        ({"measured": [reading("torch_allocated_peak", None)]}, "skipped", "ambiguous"),
        ({"measured": ["30 GB"]}, "skipped", "a reading is an object"),
        ({"seq_len": "<= 2048"}, "skipped", "length of the sequences"),
        ({"measured": [reading("device_used_peak", 84e9)]}, "flagged", "% full"),
        ({"notes": "SUSPICIOUS: far below 8 B a parameter"}, "flagged", "odd"),
    ],
)
def test_what_is_set_apart(predicted: dict, changes: dict, status: str, said: str) -> None:
    (entry,) = training_row(case(**changes))
    assert entry.status == status
    assert said in entry.reason


def test_lengths_do_not_matter_before_training(predicted: dict) -> None:
    at_load = reading("torch_reserved_peak", 17e9, "before trainer.train()")
    (entry,) = training_row(case(seq_len="max_seq_length 2048", measured=[at_load]))
    assert entry.status == "scored"


@pytest.mark.parametrize(("peak", "word"), [(90e9, "overflow"), (10e9, "fit"), (80e9, "borderline")])
def test_a_run_that_died_is_held_against_the_card(monkeypatch: pytest.MonkeyPatch, peak: float, word: str) -> None:
    ratios = tuple(Ratio(f"m{number}", 1.2) for number in range(40))
    known = Calibration(kinds=(Kind(engine="any", quantity="training.allocated_peak.lora", ratios=ratios),))
    monkeypatch.setattr(training_rows, "shipped", lambda: known)
    figures = Figures({"allocated_peak": peak, "device_context": 5e8}, {})
    monkeypatch.setattr(training_rows, "figures", lambda *_: figures)
    (entry,) = training_row(case(outcome="oom"))
    assert (entry.quantity, entry.word) == ("training.oom", word)


def test_ceilings_are_of_a_counter_and_a_method(predicted: dict) -> None:
    rows = [*training_row(case()), *training_row(case(method="full", lora=None, model="Llama-3-8B other"))]
    kinds = {(kind.engine, kind.quantity) for kind in calibration_of(rows, {}).kinds}
    frameworks = {row.engine for row in rows}
    assert len(frameworks) == 1
    assert {engine for engine, _ in kinds} == frameworks
    assert {quantity for _, quantity in kinds} == {"training.allocated_peak.lora", "training.allocated_peak.full"}


PLAIN_KEYS = sorted(case().keys() - {"id", "arch", "lora", "measured"})
ODD = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**18), 10**18) | st.floats(allow_nan=False) | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=4,
)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.sampled_from(PLAIN_KEYS), ODD, max_size=4), ODD, ODD)
def test_whatever_a_case_says_there_is_no_traceback(changes: dict, dimension: Any, rank: Any) -> None:
    row = copy.deepcopy(case(**changes))
    row["arch"] = {**row["arch"], "kv_heads": dimension}
    row["lora"] = {**row["lora"], "r": rank, "targets": dimension}
    with contextlib.suppress(InputError):
        model = training_model(row)
        training_recipe(row, model.family)


def test_the_shared_cases_are_all_listed_and_their_models_agree() -> None:
    named: Counter[str] = Counter()
    for row in training_cases():
        try:
            model = training_model(row)
        except InputError as error:
            named[error.message.code] += 1
            continue
        stated = row["arch"]["params"]
        assert abs(model.architecture.num_parameters - stated) <= 0.001 * stated
        named["read"] += 1
    assert named["read"] >= 480
    assert named.total() == 678
    assert not {code for code in named if code.startswith("validate.training-stopped")}


def test_trained_parameters_are_those_that_cases_state(predicted: dict) -> None:
    others, compared = [], 0
    for row in training_cases():
        if (row["lora"] or {}).get("trainable_params"):
            problem = read_case(row).problem
            compared += problem is None
            if problem is not None and problem.code == "validate.training-other-adapters":
                others.append(row["id"])
    assert compared > 100
    # Variants of LoRA that train less, and say so in their names alone.
    assert others == ["peft-mm-lora-rank14-target-mlp-bdlora", "peft-mm-lora-rank32-mica"]


def test_a_row_with_no_reading_is_listed() -> None:
    (entry,) = training_row(json.loads(json.dumps(case(measured=[]))))
    assert (entry.quantity, entry.status) == ("training.none.gold", "skipped")
