"""Engine options on a card, end to end: limits that refuse the load, and caps and queues that leave it uncovered."""

from __future__ import annotations

import json

import pytest

CARD = """capienza: 1
name: serving
model: {{path: {path}}}
task: inference
engine: {{name: {engine}, options: {{{options}}}}}
tokens: {{required: {{prompt: 8000, output: 192}}}}
concurrency: 4
"""


@pytest.fixture
def card(examples, tmp_path):
    def write(engine, options=""):
        path = tmp_path / "card.yaml"
        model = examples / "configs" / "meta-llama--Llama-3.1-8B"
        path.write_text(CARD.format(path=model, engine=engine, options=options))
        return path

    return write


@pytest.mark.parametrize(
    ("engine", "option", "words"),
    [
        ("vllm", "max_model_len: 200000", "max_position_embeddings"),
        ("vllm", "max_model_len: 8191", "below the 8192"),
        ("sglang", "context_length: 8191", "below the 8192"),
        ("sglang", "tp: 2", "placement.tensor_parallel is 1"),
        ("tgi", "max_total_tokens: 8191", "below the 8192"),
        ("tgi", "max_input_tokens: 7999", "below the 8000"),
        ("tgi", "num_shard: 2", "placement.tensor_parallel is 1"),
        ("tensorrt-llm", "max_seq_len: 8191", "below the 8192"),
        ("tensorrt-llm", "free_gpu_memory_fraction: 7", "a share above 0"),
    ],
)
@pytest.mark.parametrize("command", ["size", "decide"])
def test_what_the_engine_refuses_is_refused_at_its_key(capienza, card, command, engine, option, words):
    shown = capienza(command, card(engine, option))
    assert (shown.code, shown.out) == (3, "")
    assert f"engine.options.{option.partition(':')[0]}" in shown.err
    assert words in shown.err


CAPPED = [
    ("vllm", "num_gpu_blocks_override: 2000"),
    ("sglang", "max_total_tokens: 32000"),
    ("tgi", "max_batch_total_tokens: 32000"),
    ("tensorrt-llm", "max_tokens: 32000"),
]
QUEUED = [
    ("vllm", "max_num_seqs: 3"),
    ("sglang", "max_running_requests: 3"),
    ("tgi", "max_batch_size: 3"),
    ("tgi", "max_concurrent_requests: 3"),
    ("tensorrt-llm", "max_batch_size: 3"),
]


@pytest.mark.parametrize(("engine", "option"), CAPPED + QUEUED)
def test_a_load_beyond_a_cap_or_a_limit_is_not_covered(capienza, card, engine, option):
    for options, covered, word in (("", True, "fit"), (option, False, "borderline")):
        data = json.loads(capienza("size", card(engine, options), "--gpu", "H200", "--json").out)
        assert (data["engine"]["is_load_covered"], data["fit"]["word"]) == (covered, word)
    assert "it would queue" in capienza("decide", card(engine, option), "--why", "h200_sxm", "workload").out


def test_options_of_another_engine_are_named_beside_the_figures(capienza, card):
    data = json.loads(capienza("size", card("transformers", "gpu_memory_utilization: 0.5"), "--json").out)
    (note,) = [note for note in data["model"]["notes"] if note["code"] == "predict.other-engines-option"]
    assert "gpu_memory_utilization (vLLM)" in note["message"]
