"""`capienza trace CARD`: what it runs, what it says, and what it refuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytestmark = pytest.mark.oracle

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "dtype": "bfloat16", "vocab_size": 512,
    "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 4096, "tie_word_embeddings": False,
}  # fmt: skip
PARAMETERS = 2 * 512 * 64 + 64 + 2 * (64 * 64 * 2 + 64 * 32 * 2 + 3 * 64 * 128 + 2 * 64)
GPU = "A100 80GB SXM"


@pytest.fixture
def card(tmp_path: Path):
    """A card of that model; the text is what it adds."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps(CONFIG))

    def write(text: str) -> Path:
        path = tmp_path / "card.yaml"
        head = "capienza: 1\nname: small\nmodel: {path: model}\nplacement: {gpus: 1}\n"
        path.write_text(head + textwrap.dedent(text))
        return path

    return write


TRAINING = """\
    task: fine-tuning
    weights: {{format: {format}}}
    tokens: {{required: 128}}
    microbatch: 2
    training: {{method: {method}, optimizer: {optimizer}{more}}}
    """


def training(method: str = "full", optimizer: str = "adamw_torch", form: str = "bf16", more: str = "") -> str:
    return TRAINING.format(method=method, optimizer=optimizer, format=form, more=more)


@pytest.fixture
def traced(capienza, card):
    def run(text: str, *options: str) -> dict:
        outcome = capienza("trace", card(text), "--gpu", GPU, "--json", *options)
        assert outcome.code == 0, outcome.err
        return json.loads(outcome.out)

    return run


def amount(found: dict, phase: str, name: str) -> int:
    return next(one["bytes"] for one in found["entries"] if one["phase"] == phase and one["name"] == name)


def test_a_full_training_holds_weights_gradients_and_two_moments(traced) -> None:
    found = traced(training())
    names = [one["phase"] for one in found["gpus"][0]["phases"]]
    assert names == [
        "load", "forward", "backward", "optimizer_step_first", "optimizer_step_steady", "eval", "checkpoint", "export",
    ]  # fmt: skip
    assert amount(found, "optimizer_step_steady", "weights") == 2 * PARAMETERS
    assert amount(found, "optimizer_step_steady", "gradients") == 2 * PARAMETERS
    assert amount(found, "optimizer_step_steady", "optimizer_states") == 2 * 2 * PARAMETERS
    assert found["guesses"] == []
    assert set(found["attention_kernels"]) == {"flash"}
    assert found["gpus"][0]["device_bytes"] is None


def test_adapters_alone_have_gradients_and_states(traced) -> None:
    found = traced(training("lora", more=", rank: 4, targets: all-linear"))
    adapters = 2 * 4 * (2 * (64 + 64) + 2 * (64 + 32) + 3 * (64 + 128))
    assert amount(found, "optimizer_step_steady", "gradients") == 4 * adapters
    assert amount(found, "optimizer_step_steady", "optimizer_states") == 2 * 4 * adapters
    assert amount(found, "forward", "weights") == 2 * PARAMETERS + 4 * adapters


def test_checkpointing_holds_less(traced) -> None:
    plain, spared = (traced(training(more=more))["gpus"][0] for more in ("", ", gradient_checkpointing: true"))
    assert spared["allocated_bytes"] < plain["allocated_bytes"]


@pytest.mark.parametrize("optimizer", ["adamw_torch", "adamw_torch_fused", "sgd", "adafactor", "rmsprop", "adagrad"])
def test_every_optimizer_runs(traced, optimizer: str) -> None:
    assert traced(training(optimizer=optimizer))["gpus"][0]["allocated_bytes"] > 4 * PARAMETERS


@pytest.mark.parametrize(("mixed", "form"), [("bf16", "fp32"), ("fp16", "fp32")])
def test_mixed_precision_keeps_wide_weights(traced, mixed: str, form: str) -> None:
    found = traced(training(form=form, more=f", {mixed}: true"))
    assert amount(found, "optimizer_step_steady", "weights") == 4 * PARAMETERS


def test_an_evaluation_that_is_not_asked_for_takes_nothing(traced) -> None:
    asked, none = (traced(training(more=f", eval_microbatch: {count}")) for count in (8, 0))
    peaks = [{one["phase"]: one["allocated_bytes"] for one in found["gpus"][0]["phases"]} for found in (asked, none)]
    assert peaks[0]["eval"] > peaks[1]["eval"]
    assert peaks[0]["forward"] == peaks[1]["forward"]


@pytest.mark.parametrize(
    ("more", "kept"), [("", 4), (", adapter_dtype: bf16", 2)], ids=["as PEFT does", "as the card says"]
)
def test_adapters_are_in_the_format_of_the_recipe(traced, more: str, kept: int) -> None:
    found = traced(training("lora", more=f", rank: 4, targets: all-linear{more}"))
    adapters = 2 * 4 * (2 * (64 + 64) + 2 * (64 + 32) + 3 * (64 + 128))
    assert amount(found, "optimizer_step_steady", "gradients") == kept * adapters


def test_defaults_are_told_with_where_they_come_from(traced) -> None:
    told = {one["parameters"]["field"]: one["message"] for one in traced(training("lora"))["assumed"]}
    assert "LoraConfig.r" in told["adapters.rank"]
    assert "TrainingArguments.max_grad_norm" in told["max_grad_norm"]


def test_what_the_program_does_not_follow_is_told(traced) -> None:
    found = traced(training(more=", loss: chunked, use_liger_kernel: true"))
    told = {one["code"]: one["parameters"] for one in found["left_out"]}
    assert told["trace.left-out"]["field"] == "training.use_liger_kernel"
    assert "trace.other-loss" in told


def test_a_generation_keeps_its_cache(traced) -> None:
    text = """\
        task: inference
        weights: {format: bf16}
        engine: {name: transformers}
        tokens: {required: {prompt: 100, output: %d}}
        concurrency: 3
        """
    short, long = traced(text % 4), traced(text % 400)
    assert [one["phase"] for one in short["gpus"][0]["phases"]] == ["load", "prefill", "decode"]
    token = 3 * 2 * 2 * 2 * 16 * 2
    assert amount(short, "prefill", "kv_cache") <= 100 * token
    # At the end every layer holds 500 tokens; the last token's own cache is made while the one before is there.
    assert amount(long, "decode", "kv_cache") >= 499 * token
    assert "trace.shortened" in {one["code"] for one in long["left_out"]}


def test_a_trace_can_be_opened_in_the_memory_viewer(capienza, card, tmp_path: Path) -> None:
    import pickle

    from torch.cuda import _memory_viz

    path = tmp_path / "trace.pickle"
    outcome = capienza("trace", card(training()), "--gpu", GPU, "--snapshot", path)
    assert outcome.code == 0, outcome.err
    snapshot = pickle.loads(path.read_bytes())
    assert "backward" in str(snapshot["device_traces"][0][-1]["frames"]) or snapshot["device_traces"][0]
    assert "alloc" in _memory_viz.trace(snapshot)
    again = capienza("trace", "replay", path, "--json")
    assert again.code == 0, again.err


REFUSED = {
    "no method": (
        "task: fine-tuning\ntokens: {required: 8}\nmicrobatch: 1\nweights: {format: bf16}\n",
        "training.method",
    ),
    "no length": ("task: inference\nweights: {format: bf16}\n", "tokens.required"),
    "no microbatch": (
        "task: fine-tuning\ntokens: {required: 8}\nweights: {format: bf16}\ntraining: {method: full}\n",
        "microbatch",
    ),
    "another objective": (
        "task: fine-tuning\ntokens: {required: 8}\nmicrobatch: 1\nweights: {format: bf16}\n"
        "training: {method: full, objective: dpo}\n",
        "objective",
    ),
    "a format": (
        "task: inference\ntokens: {required: 8}\nweights: {format: awq}\n",
        "weights.format",
    ),
    "an optimizer": (
        "task: fine-tuning\ntokens: {required: 8}\nmicrobatch: 1\nweights: {format: bf16}\n"
        "training: {method: full, optimizer: shampoo}\n",
        "training.optimizer",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_card_leaves_open_is_named(capienza, card, name: str) -> None:
    text, field = REFUSED[name]
    outcome = capienza("trace", card(text), "--gpu", GPU)
    assert outcome.code in (2, 3)
    assert field in outcome.err
    assert "Traceback" not in outcome.err
    assert outcome.out == ""


def test_a_name_for_several_cards_is_refused_where_kernels_differ(capienza, card) -> None:
    outcome = capienza("trace", card(training()), "--gpu", "B300 or H100")
    assert outcome.code != 0
    assert "Traceback" not in outcome.err


def test_italian_is_complete(capienza, card) -> None:
    outcome = capienza("trace", card(training()), "--gpu", GPU, "--lang", "it")
    assert outcome.code == 0, outcome.err
    assert "storages" not in outcome.out
    assert "Assumed" not in outcome.out


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"auto_map": {"AutoModelForCausalLM": "modeling_own.Own"}}, "trace.own-code"),
        ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, "trace.unpacked"),
    ],
)
def test_what_the_program_does_not_follow_of_the_model_is_told(card, more: dict, code: str) -> None:
    from capienza.api.models import model_of
    from capienza.api.sizing import read_card
    from capienza.trace.cards.recipe import recipe_of

    path = card(training())
    read = read_card(path)
    config = model_of(read).artifact.config
    assert code not in [one.code for one in recipe_of(read, config, None).assumed]
    assert code in [one.code for one in recipe_of(read, config | more, None).assumed]


@pytest.mark.parametrize("place", [".", "no-folder/trace.pickle"])
def test_a_place_for_the_snapshot_that_cannot_be_is_told_before_the_trace(
    capienza, card, tmp_path: Path, place: str, monkeypatch
) -> None:
    from capienza.trace.cards import trace

    monkeypatch.setattr(trace, "trace_recipe", lambda *_args, **_named: pytest.fail("it ran"))
    outcome = capienza("trace", card(training()), "--gpu", GPU, "--snapshot", tmp_path / place)
    assert outcome.code == 4
    assert "Give the path of a file" in outcome.err or "cannot be written" in outcome.err


@pytest.mark.parametrize(
    ("fails", "says"),
    [
        ("raise ModuleNotFoundError('none', name='torch')", "torch is not installed"),
        ("raise OSError('libtorch.so: cannot open')", "cannot be loaded: libtorch.so"),
    ],
)
def test_without_a_torch_that_loads_a_part_is_missing(card, tmp_path: Path, fails: str, says: str) -> None:
    (tmp_path / "torch.py").write_text(fails)
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-c", "from capienza.cli.main import main; main()", "trace", card(training()), "--gpu", GPU],
        env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 5
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ("bf16: true, fp16: true", "training.fp16"),
        ("bf16: maybe", "training.bf16"),
        ("gradient_checkpointing: sometimes", "training.gradient_checkpointing"),
        ("eval_microbatch: 1.5", "training.eval_microbatch"),
        ("momentum: '0.9'", "training.momentum"),
        ("max_grad_norm: -1", "training.max_grad_norm"),
    ],
)
def test_an_option_that_says_nothing_is_refused(capienza, card, more: str, told: str) -> None:
    outcome = capienza("trace", card(training(more=f", {more}")), "--gpu", GPU)
    assert outcome.code == 3
    assert told in outcome.err


@pytest.mark.parametrize(("word", "dtype"), [("'true'", "float16"), ("'False'", None), ("true", "float16")])
def test_a_switch_may_be_a_word(card, word: str, dtype: str | None) -> None:
    from capienza.api.sizing import read_card
    from capienza.trace.cards.recipe import recipe_of

    assert recipe_of(read_card(card(training(more=f", fp16: {word}"))), CONFIG, "bf16").autocast == dtype


@pytest.mark.parametrize("optimizer", ["sgd", "rmsprop"])
def test_a_momentum_is_a_state(traced, optimizer: str) -> None:
    plain, moved = (
        sum(
            one["bytes"]
            for one in traced(training(optimizer=optimizer, more=more))["entries"]
            if one["name"] == "optimizer_states" and one["phase"] == "optimizer_step_steady"
        )
        for more in ("", ", momentum: 0.9")
    )
    assert moved - plain == 2 * PARAMETERS


GENERATION = """\
    task: inference
    weights: {{format: bf16}}
    tokens: {{required: {tokens}}}
    engine: {{name: {engine}}}
    """


@pytest.mark.parametrize("tokens", ["1", "{prompt: 5, output: 0}"])
def test_a_generation_needs_a_prompt_and_an_output(capienza, card, tokens: str) -> None:
    outcome = capienza("trace", card(GENERATION.format(tokens=tokens, engine="transformers")), "--gpu", GPU)
    assert outcome.code == 2
    assert "tokens.required" in outcome.err


def test_another_engine_is_told(traced) -> None:
    codes = {
        engine: [one["code"] for one in traced(GENERATION.format(tokens="8", engine=engine))["left_out"]]
        for engine in ("transformers", "vllm")
    }
    assert codes == {"transformers": [], "vllm": ["trace.other-engine"]}


def test_the_memory_of_the_card_stands_beside_the_need(capienza, card) -> None:
    path = card(training(more="").replace("microbatch: 2", "microbatch: 400000"))
    outcome = capienza("trace", path, "--gpu", GPU, "--settings", "per_process_memory_fraction:1.0")
    assert outcome.code == 0, outcome.err
    assert "memory of the card" in outcome.out
    assert "The program runs out of memory on this card" in outcome.out
    outcome = capienza("trace", card(training()), "--gpu", GPU)
    assert "The program runs out of memory on this card" not in outcome.out


ENCODER = {
    "model_type": "bert", "dtype": "bfloat16", "vocab_size": 512, "hidden_size": 64, "intermediate_size": 128,
    "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 512,
}  # fmt: skip
ENCODER_GENERATION = "task: inference\nweights: {format: bf16}\ntokens: {required: {prompt: 16, output: 4}}\n"


def codes(found: dict) -> set[str]:
    return {one["code"] for one in found["assumed"]}


@pytest.mark.parametrize("more", ["", ", rank: 4, targets: query value"])
@pytest.mark.parametrize(
    ("named", "head"),
    [
        ("BertForMaskedLM", 64 * 64 + 64 + 2 * 64 + 512),
        ("BertForSequenceClassification", 64 * 64 + 64 + 2 * 64 + 2),
        ("BertForTokenClassification", 2 * 64 + 2),
    ],
)
def test_an_encoder_is_trained_as_the_class_that_its_files_name(
    traced, tmp_path: Path, named: str, head: int, more: str
) -> None:
    """Embeddings of tokens, positions and two kinds, their norm; a layer's four projections, two for the MLP, norms."""
    layer = 4 * (64 * 64 + 64) + (64 * 128 + 128) + (128 * 64 + 64) + 2 * 2 * 64
    parameters = (512 + 512 + 2) * 64 + 2 * 64 + 2 * layer + head
    (tmp_path / "model" / "config.json").write_text(json.dumps(ENCODER | {"architectures": [named]}))
    found = traced(training("lora" if more else "full", more=more))
    assert not codes(found) & {"trace.other-class", "trace.no-class"}
    weights = amount(found, "forward", "weights")
    assert weights > 2 * parameters if more else weights == 2 * parameters


@pytest.mark.parametrize(
    ("named", "text", "code"),
    [
        ("BertForMaskedLM", ENCODER_GENERATION, "trace.other-class"),
        ("BertForNextSentencePrediction", training(), "trace.other-class"),
        (None, training(), "trace.no-class"),
        ("BertLMHeadModel", training(), None),
    ],
)
def test_another_class_than_the_models_own_is_told(
    traced, tmp_path: Path, named: str | None, text: str, code: str | None
) -> None:
    config = ENCODER | ({"architectures": [named]} if named else {})
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))
    assert codes(traced(text)) & {"trace.other-class", "trace.no-class"} == ({code} if code else set())


def test_a_decoder_that_classifies_rows(traced, tmp_path: Path) -> None:
    named = {"architectures": ["LlamaForSequenceClassification"]}
    (tmp_path / "model" / "config.json").write_text(json.dumps(CONFIG | named))
    found = traced(training())
    assert amount(found, "optimizer_step_steady", "weights") == 2 * (PARAMETERS - 512 * 64 + 2 * 64)
