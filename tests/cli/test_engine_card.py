"""Cards that name an engine: what its options do to the ledger, and what is refused at its key."""

from __future__ import annotations

import json

import pytest

ENGINES = ("vllm", "sglang", "tgi", "tensorrt-llm", "transformers")
CARD = """capienza: 1
name: serving
model: {{path: {path}}}
task: inference
engine: {{name: {engine}{version}, options: {{{options}}}}}
tokens: {{required: {{prompt: 8000, output: 192}}}}
concurrency: 4
{more}"""


@pytest.fixture
def card(examples, tmp_path):
    def write(engine="vllm", options="", more="", model="meta-llama--Llama-3.1-8B", version=""):
        path = tmp_path / "card.yaml"
        version = f", version: {version}" if version else ""
        model = examples / "configs" / model
        path.write_text(CARD.format(path=model, engine=engine, options=options, more=more, version=version))
        return path

    return write


def sized(capienza, card, *arguments):
    shown = capienza("size", card, "--json", *arguments)
    assert (shown.code, shown.err) == (0, ""), shown.err
    return json.loads(shown.out)


def amount(data, name, gpu="gpu:0"):
    return next((e["amount"] for e in data["entries"] if e["name"] == name and e["gpu"] == gpu), None)


def notes(data):
    return {note["code"] for note in data["model"]["notes"]}


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engines_ledger_is_complete_and_exact_where_it_can_be(capienza, card, engine):
    data = sized(capienza, card(engine), "--gpu", "A100 80GB SXM")
    assert amount(data, "weights")["floor_bytes"] == amount(data, "weights")["ceiling_bytes"] == 16_060_522_496
    assert amount(data, "kv_cache")["floor_bytes"] == 4 * 8192 * 131072
    assert data["predicted_peak"][0]["missing"] == []
    assert all(entry["amount"]["ceiling_bytes"] for entry in data["entries"])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("model", ["google--gemma-3-27b-it", "openai--gpt-oss-20b"])
def test_windows_bound_what_is_proved_whatever_the_engine_keeps(capienza, card, engine, model):
    data = sized(capienza, card(engine, model=model))
    windowed = {"google--gemma-3-27b-it": 10 * 8192 + 52 * 1024, "openai--gpt-oss-20b": 12 * 8192 + 12 * 128}[model]
    token = {"google--gemma-3-27b-it": 16 * 128 * 4, "openai--gpt-oss-20b": 8 * 64 * 4}[model]
    assert amount(data, "kv_cache")["floor_bytes"] <= 4 * windowed * token
    assert amount(data, "kv_cache")["expected_bytes"] >= 4 * (windowed - 52) * token


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_speaks_of_its_pool_only_where_it_has_one(capienza, card, engine):
    shown = capienza("size", card(engine), "--gpu", "L40S")
    assert ("will offer" in shown.out) is (engine != "transformers")
    assert "_" not in "".join(
        line.split("  ")[0] for line in shown.out.split("Ledger, per GPU")[1].split("\n\n")[0].splitlines()[2:]
    )


@pytest.mark.parametrize("tensor_parallel", [2, 4, 8])
def test_ranks_hold_their_part_of_weights_and_cache(capienza, card, tensor_parallel):
    more = f"placement: {{gpus: {tensor_parallel}, tensor_parallel: {tensor_parallel}}}\n"
    data = sized(capienza, card(more=more))
    for index in range(tensor_parallel):
        assert amount(data, "weights", f"gpu:{index}")["floor_bytes"] == -(-16_060_522_496 // tensor_parallel)
        assert amount(data, "kv_cache", f"gpu:{index}")["expected_bytes"] == 4 * 8192 * 131072 // tensor_parallel


def test_stages_hold_their_own_layers(capienza, card):
    data = sized(capienza, card(more="placement: {gpus: 2, pipeline_parallel: 2}\n"))
    assert amount(data, "kv_cache", "gpu:0")["expected_bytes"] == 4 * 8192 * 131072 // 2
    assert data["engine"]["stages"][1]["stage"] == 1


def test_adapter_slots_are_counted(capienza, card):
    """Rank 16, two slots: 2 x 16 x (in + out) x 2 B of every linear module; per layer 4096 and 1024 and 14336 wide."""
    without = amount(sized(capienza, card()), "loaded_extra")["expected_bytes"]
    data = sized(capienza, card(options="enable_lora: true, max_loras: 2, max_lora_rank: 16"))
    widths = 2 * (4096 + 4096) + 2 * (4096 + 1024) + 3 * (4096 + 14336)
    assert amount(data, "loaded_extra")["expected_bytes"] - without == 32 * 2 * 16 * widths * 2


@pytest.mark.parametrize("length, tokens", [("16384", 16384), ("16k", 16000), ("16K", 16384), ("'9000'", 9000)])
def test_a_length_is_read_as_vllm_reads_it(capienza, card, length, tokens):
    data = sized(capienza, card(options=f"max_model_len: {length}"), "--gpu", "L40S")
    assert data["engine"]["stages"][0]["max_model_len"] == tokens


@pytest.mark.parametrize(
    "engine, options, more, key, words",
    [
        ("vllm", "max_nun_seqs: 4", "", "engine.options.max_nun_seqs", "Did you mean max_num_seqs?"),
        ("vllm", "max_model_len: 4096", "", "engine.options.max_model_len", "below the 8192"),
        ("vllm", "max_model_len: 4k", "", "engine.options.max_model_len", "below the 8192"),
        ("vllm", "tensor_parallel_size: 2", "", "engine.options.tensor_parallel_size", "tensor_parallel is 1"),
        ("vllm", "", "placement: {gpus: 3, tensor_parallel: 3}", "placement.tensor_parallel", "32 attention heads"),
        ("sglang", "tp_size: 4", "placement: {gpus: 2, tensor_parallel: 2}", "engine.options.tp_size", "is 2"),
        ("tgi", "", "placement: {gpus: 64, pipeline_parallel: 64}", "placement.pipeline_parallel", "32 layers"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("command", ["size", "decide"])
def test_what_cannot_be_is_refused_at_its_key(capienza, card, command, engine, options, more, key, words):
    path = card(engine, options, more)
    shown = capienza(command, path)
    assert (shown.code, shown.out) == (3, "")
    assert f"{path}: {key}" in shown.err
    assert words in shown.err


def test_a_newer_release_may_know_more_flags(capienza, card):
    data = sized(capienza, card(options="brand_new_flag: 1", version='"0.99.0"'))
    assert "predict.vllm-newer-flag" in notes(data)


def test_fewer_sequences_than_required_are_a_queue(capienza, card):
    path = card(options="max_num_seqs: 2")
    assert "fewer sequences at once than are required" in capienza("size", path, "--gpu", "H200").out
    assert "it would queue" in capienza("decide", path, "--why", "h200_sxm", "workload").out


def test_a_pool_that_is_too_small_is_named_and_excludes_nothing(capienza, card):
    path = card(options="gpu_memory_utilization: 0.27, max_model_len: 8192")
    data = sized(capienza, path, "--gpu", "H100 SXM")
    assert data["engine"]["is_load_covered"] is False
    shown = capienza("decide", path, "--why", "h100_sxm", "workload")
    assert "so it would queue" in shown.out
    assert "to confirm" in shown.out


@pytest.mark.parametrize(
    "options", ["gpu_memory_utilization: 0.25", "gpu_memory_utilization: 0.1, max_model_len: 8192"]
)
def test_an_engine_that_would_not_start_is_no_fit(capienza, card, options):
    """Less than one sequence of the longest length, or no pool at all."""
    path = card(options=options)
    data = sized(capienza, path, "--gpu", "H100 SXM")
    assert (data["engine"]["is_load_covered"], data["fit"]["word"]) == (False, "overflow")
    assert "would refuse to start" in capienza("size", path, "--gpu", "H100 SXM").out
    assert "would not start" in capienza("decide", path, "--why", "h100_sxm", "workload").out
    assert json.loads(capienza("limits", path, "--gpu", "H100 SXM", "--json").out)["concurrency"]["expected"] == 0


def test_padded_experts_are_in_the_ledger(capienza, card):
    """gpt-oss-20b on an A100: 13.72 GiB were logged where the tensors alone are 12.8."""
    data = sized(capienza, card(model="openai--gpt-oss-20b"), "--gpu", "A100 80GB SXM")
    loaded = amount(data, "weights")["expected_bytes"] + amount(data, "loaded_extra")["expected_bytes"]
    assert loaded / 2**30 == pytest.approx(13.72, abs=0.03)


def test_the_sheet_says_what_the_report_says(capienza, card):
    path = card(options="max_num_seqs: 2")
    sheet = capienza("size", path, "--gpu", "H100 SXM", "--format", "md").out
    assert "will offer" in sheet
    assert "fewer sequences at once" in sheet
    assert "defaults are taken" in sheet


def test_a_block_is_shown_in_bytes(capienza, card):
    assert "4 x 512 blocks x 2097152 B" in capienza("size", card(), "--explain", "kv_cache").out


def test_thin_ceilings_are_said(capienza, card):
    assert "predict.no-measured-case" in notes(sized(capienza, card("tensorrt-llm")))
    assert "predict.few-measured-cases" in notes(sized(capienza, card()))


def test_an_engine_that_is_not_known_is_named_with_the_near_one(capienza, card):
    data = sized(capienza, card("vlm"))
    assert "predict.unknown-engine" in notes(data)
    assert data["engine"] is None


@pytest.mark.parametrize("gpu", ["L40S", "A100 80GB SXM"])
def test_a_card_total_that_was_not_collected_is_said(capienza, card, gpu):
    data = sized(capienza, card(), "--gpu", gpu)
    assert ("predict.estimated-cuda-total" in notes(data)) is (data["fit"]["capacity"]["cuda_total_bytes"] is None)


@pytest.fixture
def fp32(tmp_path, examples):
    folder = tmp_path / "fp32"
    folder.mkdir()
    config = json.loads((examples / "configs" / "meta-llama--Llama-3.1-8B" / "config.json").read_text())
    config.pop("dtype", None)
    (folder / "config.json").write_text(json.dumps({**config, "torch_dtype": "float32"}))
    return folder


@pytest.mark.parametrize(
    "engine, version, options, elements",
    [
        ("vllm", "", "", 2),
        ("sglang", "", "", 2),
        ("vllm", "", "dtype: float32", 4),
        ("vllm", "", "dtype: auto", 2),
        ("transformers", "5.2.0", "", 4),
        ("transformers", "4.57.0", "torch_dtype: bfloat16", 2),
    ],
)
def test_an_fp32_checkpoint_is_held_as_the_engine_loads_it(capienza, card, fp32, engine, version, options, elements):
    data = sized(capienza, card(engine, options, model=fp32, version=version))
    assert amount(data, "weights")["expected_bytes"] == 8_030_261_248 * elements
    assert amount(data, "weights")["floor_bytes"] <= 8_030_261_248 * elements
    assert amount(data, "kv_cache")["expected_bytes"] == 4 * 8192 * 131072 * elements // 2


def test_old_transformers_load_any_checkpoint_in_fp32(capienza, card):
    data = sized(capienza, card("transformers", version="4.57.0"))
    assert amount(data, "weights")["expected_bytes"] == 2 * 16_060_522_496
    assert "predict.engine-converts" in notes(data)


def test_a_format_that_is_not_one_is_refused(capienza, card):
    shown = capienza("size", card(options="dtype: banana"))
    assert shown.code == 3
    assert "engine.options.dtype" in shown.err


def test_a_model_of_windows_alone_is_capped_on_the_old_engine(capienza, card, tmp_path, examples):
    folder = tmp_path / "windows"
    folder.mkdir()
    config = json.loads((examples / "configs" / "mistralai--Mistral-7B-v0.3" / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "sliding_window": 4096}))
    data = sized(capienza, card(model=folder, version='"0.6.3"'))
    assert amount(data, "kv_cache")["expected_bytes"] == amount(data, "kv_cache")["floor_bytes"] == 4 * 4096 * 131072


@pytest.mark.parametrize(
    "engine, options", [("transformers", "num_beams: 8"), ("transformers", "cache_implementation: offloaded")]
)
def test_options_that_are_not_understood_leave_the_need_open(capienza, card, engine, options):
    data = sized(capienza, card(engine, options), "--gpu", "H200")
    assert data["predicted_peak"][0]["missing"] == ["open_options"]
    assert data["predicted_peak"][0]["floor_bytes"] == 0
    assert data["fit"]["word"] == "borderline"


@pytest.mark.parametrize(
    "options, more",
    [
        ("gpu_memory_utilization: 0.9", "host: {others_use: 8 GiB}\n"),
        ("gpu_memory_utilization: 1.0", ""),
        ("kv_cache_memory_bytes: 60000000000", ""),
    ],
)
def test_an_engine_that_claims_more_than_is_free_would_not_start(capienza, card, options, more):
    path = card(options=options, more=more)
    data = sized(capienza, path, "--gpu", "L40S")
    assert (data["engine"]["is_load_covered"], data["fit"]["word"]) == (False, "overflow")
    assert "more of the card than is free" in capienza("size", path, "--gpu", "L40S").out


def test_a_pipeline_stage_is_not_given_the_average(capienza, card):
    """Every stage's floor is what it holds itself: 31 of 32 layers between embedding and head."""
    data = sized(capienza, card(more="placement: {gpus: 4, pipeline_parallel: 4}\n"))
    layer = 2 * (4096 * 4096 * 2 + 4096 * 1024 * 2 + 3 * 4096 * 14336 + 2 * 4096)
    table = 2 * 128256 * 4096
    held = [amount(data, "weights", f"gpu:{index}")["expected_bytes"] for index in range(4)]
    assert held[0] == 8 * layer + table
    assert held[1] == held[2] == 8 * layer
    assert held[3] == 8 * layer + table + 2 * 4096
    assert all(amount(data, "weights", f"gpu:{index}")["floor_bytes"] <= held[index] for index in range(4))


def test_more_expert_ranks_than_gpus_are_refused(capienza, card):
    more = "placement: {gpus: 2, tensor_parallel: 2, expert_parallel: 8}\n"
    shown = capienza("size", card(model="Qwen--Qwen3-30B-A3B", more=more))
    assert shown.code == 3
    assert "placement.expert_parallel" in shown.err
