"""DPO and GRPO: the closed form beside a trace of the same steps, written out in `preference_program`."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("peft")

from capienza.allocator.settings import Settings
from capienza.architecture.registry import describe
from capienza.predict.training.passes import passes
from capienza.recipe.recipe import (
    Adapters,
    Checkpointing,
    Evaluation,
    Loss,
    Optimizer,
    Precision,
    Preference,
    Recipe,
)
from capienza.trace.cards.recipe import Recipe as Program
from capienza.trace.peak import predict_peak
from preference_program import Compared
from test_training_passes_trace import LLAMA, highest_of

pytestmark = pytest.mark.oracle
TOKENS, PAIRS, COMPLETION = 512, 2, 384
MOST, MORE_ROWS = 0.005, 0.02
WITH_ROWS = ("0.22.2", "0.24.0")
CONFIG = LLAMA | {"vocab_size": 16384}
RELEASES = ["0.13.0", "0.16.1", "0.22.2", "0.24.0", "0.29.1", "1.4.0", "1.8.0", "1.12.0", "1.16.0"]


def release(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def traced(asked: dict[str, Any]) -> tuple[int, int]:
    """Forward and backward of the second update above where its forward pass begins."""
    is_full, are_pairs = asked["method"] == "full", asked["objective"] not in ("grpo", "sft")
    program = Program(
        task="training", config=dict(CONFIG), dtype="bfloat16", tokens=TOKENS,
        sequences=PAIRS * (1 + are_pairs), method=asked["method"], rank=16, alpha=16,
        targets=None if is_full else "all-linear", autocast=asked["autocast"], widens_outputs=bool(asked["autocast"]),
        gradient_checkpointing=asked["checkpointed"], eval_sequences=0, adapter_dtype="float32",
    )  # fmt: skip
    asked = asked | {"release": release(asked["release"])}
    with warnings.catch_warnings():
        # What the libraries say of their own future.
        warnings.simplefilter("ignore")
        found = predict_peak(
            lambda: Compared(program, "cuda", 2, asked), Compared.update, steps=2, device="A100", settings=Settings()
        )
    return highest_of(found.traced.recording)


def walked(asked: dict[str, Any]) -> tuple[int, int]:
    is_full = asked["method"] == "full"
    recipe = Recipe(
        framework="trl", framework_version=asked["release"], libraries=(("trl", asked["release"]),),
        objective=asked["objective"], method=asked["method"], tokens=TOKENS, microbatch=PAIRS, accumulation=1,
        is_packed=False, has_padding_mask=True, attention="sdpa", kernels="transformers", is_compiled=False,
        precision=Precision(
            base="bf16", trained="bf16" if is_full else "fp32", autocast="bf16" if asked["autocast"] else None,
            widens_outputs=bool(asked["autocast"]),
        ),
        optimizer=Optimizer(family="adamw", run="fused"),
        checkpointing=Checkpointing(kind="full" if asked["checkpointed"] else "none"),
        loss=Loss(kind="fused_linear" if release(asked["release"]) >= (1, 15) else "full", widens=False),
        evaluation=Evaluation(microbatch=0),
        adapters=None if is_full else Adapters(rank=16, alpha=16, dropout=0.0, targets=("all-linear",), dtype="fp32"),
        preference=Preference(reference=asked["reference"], completion_tokens=COMPLETION),
    )  # fmt: skip
    found = passes(describe(CONFIG), recipe, CONFIG)
    return found.forward.total_bytes, found.backward.total_bytes


def compare(**asked: Any) -> None:
    asked = {"method": "lora", "autocast": "bfloat16", "checkpointed": False, "reference": "adapter_off",
             "completion": COMPLETION} | asked  # fmt: skip
    # Where the rows of every layer are asked for, one more or one less of them is there than is walked.
    most = MORE_ROWS if asked["release"] in WITH_ROWS else MOST
    for found, expected in zip(walked(asked), traced(asked), strict=True):
        assert found == pytest.approx(expected, rel=most)


@pytest.mark.parametrize("objective, version", [("dpo", "1.4.0"), ("grpo", "1.16.0"), ("sft", "1.16.0")])
def test_a_step_is_walked_as_it_is_traced(objective: str, version: str) -> None:
    compare(objective=objective, release=version)


@pytest.mark.slow
@pytest.mark.parametrize("checkpointed", [False, True])
@pytest.mark.parametrize("autocast", ["bfloat16", None])
@pytest.mark.parametrize("version", RELEASES)
@pytest.mark.parametrize("objective", ["dpo", "grpo"])
def test_every_release_with_adapters(objective: str, version: str, autocast: str | None, checkpointed: bool) -> None:
    if objective == "grpo" and version == "0.13.0":
        pytest.skip("GRPO came with 0.14")
    compare(objective=objective, release=version, autocast=autocast, checkpointed=checkpointed)


@pytest.mark.slow
@pytest.mark.parametrize("version", ["0.13.0", "0.22.2", "1.12.0"])
@pytest.mark.parametrize("objective, autocast", [("orpo", "bfloat16"), ("simpo", "bfloat16"), ("simpo", None)])
def test_pairs_without_a_reference(objective: str, version: str, autocast: str | None) -> None:
    compare(objective=objective, release=version, autocast=autocast, reference="none")


@pytest.mark.slow
@pytest.mark.parametrize("version", RELEASES)
@pytest.mark.parametrize("reference", ["model", "none"])
@pytest.mark.parametrize("objective", ["dpo", "grpo"])
def test_every_release_of_a_full_training(objective: str, version: str, reference: str) -> None:
    compare(objective=objective, release=version, autocast=None, method="full", reference=reference)
