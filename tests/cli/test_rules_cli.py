"""`rules`, and what rules say in `size --gpu`, `limits` and `decide`."""

import json

import pytest

CARD = """capienza: 1
name: rules
model: {{path: {model}}}
task: inference
weights: {{format: {weights}}}
engine: {{name: {engine}, version: "{version}"}}
tokens: {{required: 4096}}
concurrency: 1
"""


@pytest.fixture
def card(tmp_path, examples):
    def write(weights="fp8", engine="transformers", version="5.24.0", model="Qwen--Qwen3-8B"):
        path = tmp_path / "card.yaml"
        text = CARD.format(model=examples / "configs" / model, weights=weights, engine=engine, version=version)
        path.write_text(text)
        return path

    return write


def test_every_rule_is_listed_with_its_source(capienza):
    document = json.loads(capienza("rules", "--json").out)
    assert document["schema"] == "capienza.rules/1"
    assert len(document["rules"]) > 150
    assert all(rule["source"] and rule["sha256"] for rule in document["rules"])
    assert "vllm.awq" in capienza("rules", "--engine", "vllm").out


def test_a_gpu_is_judged_with_the_reasons(capienza):
    shown = capienza("rules", "--engine", "vllm", "--version", "0.33.0", "--gpu", "V100", "--weights", "awq-int4-g128")
    assert shown.code == 0
    for text in ("v100_16, v100_32", "vllm.awq", "refused", "no code for it", "torch.2.14.pypi"):
        assert text in shown.out
    document = json.loads(
        capienza("rules", "--engine", "vllm", "--version", "0.33.0", "--gpu", "A100", "--weights", "fp8", "--json").out
    )
    by_rule = {one["rule"]: one for one in document["gpus"][0]["outcomes"]}
    assert by_rule["vllm.fp8"]["met"] is True
    assert (by_rule["vllm.fp8.w8a8"]["met"], by_rule["vllm.fp8.w8a8"]["excludes"]) == (False, False)


def test_the_texts_are_italian(capienza):
    shown = capienza(
        "rules", "--engine", "vllm", "--version", "0.33.0", "--gpu", "T4", "--cache", "fp8", "--lang", "it"
    )
    assert "rifiut" in shown.out


@pytest.mark.parametrize(
    "arguments, code, text",
    [
        (["--engine", "vlm"], 2, "Did you mean vllm?"),
        (["--engine", "vllm", "--weights", "q4"], 2, "q4"),
        (["--engine", "vllm", "--cache", "fp7"], 2, "fp8"),
        (["--gpu", "L4"], 2, "--engine"),
        (["--version", "1"], 2, "--engine"),
        (["--engine", "vllm", "--version", ""], 2, "--version"),
        (["--engine", "vllm", "--gpu", "RTX 9999"], 3, "RTX 9999"),
        (["--engine", "v" * 500], 2, "no rule speaks"),
    ],
)
def test_what_cannot_be_asked_is_said(capienza, arguments, code, text):
    shown = capienza("rules", *arguments)
    assert (shown.code, shown.out) == (code, "")
    assert text in shown.err
    assert "Traceback" not in shown.err


@pytest.mark.parametrize("version", ["99999999999999999999.1", "0.33.0; rm", "è", "0.33.0rc1"])
def test_any_version_is_taken(capienza, version):
    shown = capienza("rules", "--engine", "vllm", "--version", version, "--gpu", "T4", "--weights", "awq-int4-g128")
    assert shown.code == 0


def test_size_shows_weights_as_they_are_held_there_and_the_rule(capienza, card):
    path = card()
    with_gpu = capienza("size", path, "--gpu", "RTX 3090").out
    assert "hf.fp8" in with_gpu
    assert "quantizer_finegrained_fp8.py" in with_gpu
    weights = {}
    for gpu in ("RTX 3090", "L4"):
        document = json.loads(capienza("size", path, "--gpu", gpu, "--json").out)
        (entry,) = (one for one in document["entries"] if one["name"] == "weights")
        weights[gpu] = entry["floor_bytes"] if "floor_bytes" in entry else entry["amount"]["floor_bytes"]
    assert weights["RTX 3090"] > 1.7 * weights["L4"]
    explained = capienza("size", path, "--gpu", "RTX 3090", "--explain", "weights").out
    assert "hf.fp8" in explained
    assert "hf.fp8" not in capienza("size", path).out


def test_limits_go_by_what_is_held(capienza, card):
    path = card()
    large = json.loads(capienza("limits", path, "--gpu", "RTX 3090", "--json").out)
    assert "hf.fp8" in json.dumps(large)


def test_decide_excludes_by_the_rule_and_shows_where_it_is_from(capienza, card):
    path = card("awq-int4-g128", "vllm", "0.33.0")
    shown = capienza("decide", path, "--why", "v100_32", "compatibility")
    assert "exclude" in shown.out
    assert "rule vllm.awq" in shown.out
    assert "auto_awq.py" in shown.out
    assert "to confirm" in capienza("decide", path, "--why", "l4", "compatibility").out


def test_memory_excluded_by_a_larger_format_names_the_rule(capienza, card):
    path = card("fp8", model="meta-llama--Llama-3.3-70B-Instruct")
    shown = capienza("decide", path, "--why", "a100_sxm_80", "memory")
    assert "exclude" in shown.out
    assert "hf.fp8" in shown.out
    assert "to confirm" in capienza("decide", path, "--why", "h100_sxm", "memory").out
