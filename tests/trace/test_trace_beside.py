"""Small trainings through the closed form and the trace: they agree, or the remark names the entry and the reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("peft")
pytestmark = pytest.mark.oracle

GPU = "A100 80GB SXM"
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "dtype": "bfloat16", "vocab_size": 8000,
    "hidden_size": 512, "intermediate_size": 1408, "num_hidden_layers": 2, "num_attention_heads": 8,
    "num_key_value_heads": 2, "max_position_embeddings": 4096, "tie_word_embeddings": False,
}  # fmt: skip
PASSES = ("forward", "backward")
AGREE = {
    "full": "method: full",
    "full, activations recomputed": "method: full, gradient_checkpointing: full",
    "full, states in 8 bits": "method: full, optimizer: adamw_8bit",
    "full, optimizer in a loop": "method: full, optimizer: sgd",
    "lora": "method: lora, rank: 8",
    "lora with dropout on all": "method: lora, rank: 8, targets: all-linear, dropout: 0.1",
    "lora, scores kept": "method: lora, rank: 8, attention: eager",
}
APART = {
    "an older loss": (
        "method: lora, rank: 8, gradient_checkpointing: full",
        'engine: {name: transformers, version: "4.45.2"}',
        {"forward": ["logits_and_loss"]},
        ["training.beside-release", "trace.left-out"],
    ),
    "a loss that makes no logits": (
        "method: lora, rank: 8, loss: fused_linear",
        "",
        {"forward": ["logits_and_loss"], "backward": ["logits_and_loss"]},
        ["trace.other-loss"],
    ),
    "another framework": (
        "method: lora, rank: 8",
        'engine: {name: litgpt, version: "0.4.13"}',
        {"forward": ["logits_and_loss"], "backward": ["logits_and_loss"]},
        ["training.beside-program", "trace.left-out"],
    ),
}
TEXT = """capienza: 1
name: small
model: {{path: model}}
task: fine-tuning
weights: {{format: bf16}}
{engine}
tokens: {{required: 1024}}
microbatch: 4
placement: {{gpus: 1}}
training: {{{training}}}
"""


@pytest.fixture
def beside(capienza, tmp_path: Path):
    """What `trace CARD --json` says of the closed form, by phase."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps(CONFIG))

    def run(training: str, engine: str = "", *options: str):
        path = tmp_path / "card.yaml"
        path.write_text(TEXT.format(training=training, engine=engine))
        outcome = capienza("trace", path, "--gpu", GPU, *options)
        assert outcome.code == 0, outcome.err
        return outcome.out

    return run


@pytest.mark.parametrize("name", AGREE)
def test_both_agree(beside, name: str) -> None:
    found = json.loads(beside(AGREE[name], "", "--json"))["closed_form"]
    phases = {one["phase"]: one for one in found["phases"]}
    # Reading the files of a model is not traced; a run without evaluation has none in the closed form.
    compared = [one for phase, one in phases.items() if phase not in ("load", "eval")]
    assert {*PASSES, "optimizer_step_first", "optimizer_step_steady"} <= set(phases)
    assert [one["phase"] for one in compared if abs(one["difference"]["allocated"]) > found["most_apart"]] == []


@pytest.mark.parametrize("name", APART)
def test_what_differs_is_named_with_its_reason(beside, name: str) -> None:
    training, engine, named, causes = APART[name]
    found = json.loads(beside(training, engine, "--json"))["closed_form"]
    phases = {one["phase"]: one for one in found["phases"]}
    assert {phase: phases[phase]["named"] for phase in PASSES if phases[phase]["named"]} == named
    for phase, names in named.items():
        whole = phases[phase]["computed"]["allocated_bytes"] - phases[phase]["traced"]["allocated_bytes"]
        entries = {one["name"]: one["computed_bytes"] - one["traced_bytes"] for one in phases[phase]["entries"]}
        assert sum(entries[one] for one in names) == pytest.approx(whole, rel=0.2)
    assert set(causes) <= {one["code"] for one in found["causes"]}


def test_the_remark_says_how_much_of_what(beside) -> None:
    training, engine, _, _ = APART["an older loss"]
    told = " ".join(beside(training, engine).split())
    # A token's logits in fp32, once: what the older release copies.
    assert "forward: computed against traced +" in told
    assert "logits and loss: 312.5 MiB traced, 375.0 MiB computed" in told
    assert "the traced program is that of transformers" in told


def test_it_is_told_in_italian(beside) -> None:
    training, engine, _, _ = APART["an older loss"]
    told = " ".join(beside(training, engine, "--lang", "it").split())
    assert "logit e loss: 312,5 MiB nella traccia, 375,0 MiB calcolati" in told


def test_a_run_in_main_memory_has_no_closed_form(capienza, beside, tmp_path: Path) -> None:
    beside("method: full")
    outcome = capienza("trace", tmp_path / "card.yaml", "--gpu", "cpu", "--json")
    assert json.loads(outcome.out)["closed_form"] is None
