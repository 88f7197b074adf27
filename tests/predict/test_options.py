"""What the engines' options do, of every kind: switches, limits, caps, versions, and names of other engines."""

from __future__ import annotations

import msgspec
import pytest
from models_at_hand import LLAMA_8B, QWEN3_14B, serving

from capienza.errors import InputError, Place
from capienza.predict.inference import sglang
from capienza.predict.inference.checks import WELL_KNOWN, other_engines_options
from capienza.predict.inference.engines import check_options, serve
from capienza.predict.inference.release import release
from capienza.predict.inference.serving import Served
from capienza.predict.inference.vllm.defaults import settings
from capienza.predict.inference.vllm.flags import known_flags
from capienza.predict.inference.vllm.memory import GRAPH_BYTES_PER_LAYER
from capienza.predict.placement import Split
from capienza.units import GIB


@pytest.mark.parametrize("written", [True, "true", "True", "1", 1, 1.0])
def test_a_switch_is_read_however_it_is_written(written: object) -> None:
    assert serving(LLAMA_8B, options={"enforce_eager": written}).flag("enforce_eager") is True
    assert serving(LLAMA_8B, options={"no_enforce_eager": written}).flag("enforce_eager") is False


@pytest.mark.parametrize("written", [False, "false", "FALSE", "0", 0])
def test_a_switch_is_off_however_it_is_written(written: object) -> None:
    assert serving(LLAMA_8B, options={"enable_prefix_caching": written}).flag("enable_prefix_caching") is False


@pytest.mark.parametrize("written", [None, "perhaps", 2, "", -1])
def test_what_is_no_switch_states_nothing(written: object) -> None:
    assert serving(LLAMA_8B, options={"enforce_eager": written}).flag("enforce_eager") is None


@pytest.mark.parametrize("written", [True, "true", 1])
def test_engines_follow_a_switch_however_it_is_written(written: object) -> None:
    asked = serving(LLAMA_8B, version="0.11.2", options={
        "enforce_eager": written, "no_enable_prefix_caching": written, "disable_hybrid_kv_cache_manager": written,
    })  # fmt: skip
    chosen = settings(asked)
    assert (chosen.enforce_eager, chosen.caches_prefixes, chosen.keeps_windows) == (True, False, False)
    graphs = sglang.serve(serving(QWEN3_14B, options={"disable_cuda_graph": written})).tightest.amount("cuda_graph")
    assert graphs is not None
    assert graphs.expected == 0


NEWEST = {"vllm": "0.33.0", "sglang": "0.5.5", "tgi": "3.3.0", "tensorrt-llm": "1.2.0"}
OLDEST = {"vllm": "0.2.0", "sglang": "0.4.3", "tgi": "1.4.0", "tensorrt-llm": "0.5.0"}


@pytest.mark.parametrize(
    ("text", "engine", "number"),
    [
        ("0.11.2", "vllm", (0, 11, 2)),
        ("v0.8.5.post1", "vllm", (0, 8, 5)),
        (" ~0.14 (V1)", "vllm", (0, 14, 0)),
        ("0.8.x (V0)", "vllm", (0, 8, 0)),
        ("0.8.2-0.8.4 (V0)", "vllm", (0, 8, 2)),
        ("commit 3de6e6a3 (0.5.0+)", "vllm", (0, 5, 0)),
        ("python 3.12 vllm 0.6.3", "vllm", (0, 6, 3)),
        ("vLLM==0.6.3, CUDA 12.1", "vllm", (0, 6, 3)),
        ("0.8.0rc (V0), VLLM_MLA_CUDA_MEM_ALIGN_KV_CACHE=1", "vllm", (0, 8, 0)),
        ("TensorRT-LLM v1.1.0 on 2.0", "tensorrt-llm", (1, 1, 0)),
        ("tensorrt_llm 0.18", "tensorrt-llm", (0, 18, 0)),
        ("1.2 (PyTorch backend)", "tensorrt-llm", (1, 2, 0)),
        ("vllm/vllm-openai:v0.11.2", "vllm", (0, 11, 2)),
        ("vLLM API server version 0.6.3.post1", "vllm", (0, 6, 3)),
        ("Version 0.11.2", "vllm", (0, 11, 2)),
        ("lmsysorg/sglang:v0.5.5-cu129", "sglang", (0, 5, 5)),
        ("text-generation-launcher 2.4.0", "tgi", (2, 4, 0)),
        ("ghcr.io/huggingface/text-generation-inference:3.3", "tgi", (3, 3, 0)),
        ("nvcr.io/nvidia/tensorrt-llm/release:1.0.0", "tensorrt-llm", (1, 0, 0)),
        ("2026.1", "vllm", (2026, 1, 0)),
        *((text, "vllm", None) for text in ("0.x", "1.x", "nightly", "python 3.12", "main 2026-07", "7", "", None)),
    ],
)  # fmt: skip
def test_a_release_is_read_behind_the_engines_name_or_at_the_start(
    text: str | None, engine: str, number: tuple[int, int, int] | None
) -> None:
    assert release(text, engine) == number


def version_notes_of(engine: str, version: str) -> list[tuple[object, object]]:
    notes = serve(engine, serving(LLAMA_8B, version=version)).notes
    return [(n.parameters["found"], n.parameters["rules"]) for n in notes if n.code == "predict.engine-version"]


@pytest.mark.parametrize("engine", NEWEST)
@pytest.mark.parametrize("version", ["9.0.0", "2026.1", "0.x", "main", "python 3.12"])
def test_a_version_that_was_not_read_takes_the_newest_rules_and_says_so(engine: str, version: str) -> None:
    assert version_notes_of(engine, version) == [(version, NEWEST[engine])]
    newest = serve(engine, serving(LLAMA_8B, version=NEWEST[engine], total_bytes=80 * GIB))
    assert serve(engine, serving(LLAMA_8B, version=version, total_bytes=80 * GIB)).ranks == newest.ranks


@pytest.mark.parametrize("engine", OLDEST)
def test_a_version_before_what_was_read_takes_the_oldest_rules_and_says_so(engine: str) -> None:
    assert version_notes_of(engine, "0.1.7") == [("0.1.7", OLDEST[engine])]
    for version in (OLDEST[engine], NEWEST[engine], f"{engine} {NEWEST[engine]}"):
        assert not version_notes_of(engine, version)


CAPS = {
    "vllm": "num_gpu_blocks_override",
    "sglang": "max_total_tokens",
    "tgi": "max_batch_total_tokens",
    "tensorrt-llm": "max_tokens",
}


def capped(engine: str, cap: int | None, concurrency: int = 8) -> Served:
    options: dict[str, object] = {"block_size": 16, "page_size": 16, "max_batch_size": 64, "max_num_tokens": 8192}
    if cap is not None:
        options[CAPS[engine]] = cap // 16 if engine == "vllm" else cap
    asked = serving(QWEN3_14B, total_bytes=140 * GIB, options=options, required_tokens=4096, concurrency=concurrency)
    return serve(engine, asked)


@pytest.mark.parametrize("engine", CAPS)
@pytest.mark.parametrize("concurrency", [1, 8])
def test_a_cap_on_the_pool_holds_exactly_what_it_says(engine: str, concurrency: int) -> None:
    needed = 4096 * concurrency
    assert capped(engine, None, concurrency).tightest.is_held is True
    enough, short = capped(engine, needed, concurrency), capped(engine, needed - 16, concurrency)
    assert (enough.tightest.is_held, short.tightest.is_held) == (True, False)
    assert (enough.tightest.is_refused, short.tightest.is_refused) == (False, False)
    assert short.tightest.offer.kv_tokens == needed - 16
    told = [note.parameters["option"] for note in short.notes if note.code == "predict.pool-cap"]
    assert told == [CAPS[engine]]
    assert not [note for note in enough.notes if note.code == "predict.pool-cap"]


@pytest.mark.parametrize("engine", CAPS)
def test_a_cap_above_the_pool_changes_nothing(engine: str) -> None:
    assert capped(engine, 10**9).tightest.offer == capped(engine, None).tightest.offer


def test_v0_refuses_a_cap_below_one_sequence_and_v1_does_not() -> None:
    options = {"num_gpu_blocks_override": 100, "max_model_len": 4096}
    for version, refuses in (("0.6.3", True), ("0.11.2", False)):
        rank = serve("vllm", serving(QWEN3_14B, version=version, total_bytes=140 * GIB, options=options)).tightest
        assert rank.is_refused is refuses


@pytest.mark.parametrize(
    ("engine", "option"),
    [
        ("vllm", "max_num_seqs"),
        ("sglang", "max_running_requests"),
        ("tgi", "max_batch_size"),
        ("tgi", "max_concurrent_requests"),
        ("tensorrt-llm", "max_batch_size"),
    ],
)
@pytest.mark.parametrize(("limit", "waits"), [(1, True), (7, True), (8, False), ("7", True), (64, False)])
def test_a_limit_on_sequences_below_the_load_is_a_queue(
    engine: str, option: str, limit: int | str, *, waits: bool
) -> None:
    asked = serving(LLAMA_8B, total_bytes=80 * GIB, options={option: limit}, required_tokens=512, concurrency=8)
    rank = serve(engine, asked).tightest
    assert (rank.queues, rank.is_held) == (waits, True)
    assert rank.is_covered is not waits


def test_the_default_limit_of_tgi_is_named_where_it_bounds() -> None:
    for concurrency, waits in ((128, False), (129, True)):
        served = serve("tgi", serving(LLAMA_8B, required_tokens=16, concurrency=concurrency))
        assert served.tightest.queues is waits
        assert ("max_concurrent_requests" in str(served.notes)) is waits


LENGTHS = [
    ("vllm", "max_model_len"),
    ("sglang", "context_length"),
    ("sglang", "max_model_len"),
    ("tgi", "max_total_tokens"),
    ("tensorrt-llm", "max_seq_len"),
]
PROMPTS = [("tgi", "max_input_tokens"), ("tgi", "max_input_length"), ("tensorrt-llm", "max_input_len")]


@pytest.mark.parametrize(("engine", "option"), LENGTHS)
@pytest.mark.parametrize("length", [8191, "100", 1])
def test_a_length_below_the_load_is_refused_as_the_engine_refuses_it(
    engine: str, option: str, length: int | str
) -> None:
    asked = serving(LLAMA_8B, options={option: length}, required_tokens=8192, file="card.yaml")
    with pytest.raises(InputError) as refused:
        check_options(engine, asked)
    assert refused.value.place == Place("card.yaml", key=f"engine.options.{option}")
    assert f"{length} tokens are below the 8192" in str(refused.value)
    assert f"raise {option}" in str(refused.value.as_dict())


@pytest.mark.parametrize(("engine", "option"), LENGTHS)
def test_a_length_that_the_load_keeps_to_is_taken(engine: str, option: str) -> None:
    for required in (8192, None):
        assert check_options(engine, serving(LLAMA_8B, options={option: 8192}, required_tokens=required)) == ()


@pytest.mark.parametrize(("engine", "option"), PROMPTS)
def test_a_short_prompt_is_refused_or_noted_where_its_length_is_open(engine: str, option: str) -> None:
    stated = serving(LLAMA_8B, options={option: 6000}, required_tokens=8192, prompt_tokens=7000)
    with pytest.raises(InputError, match="below the 7000 of the prompt"):
        check_options(engine, stated)
    (note,) = check_options(engine, serving(LLAMA_8B, options={option: 6000}, required_tokens=8192))
    assert note.code == "predict.open-prompt"
    assert check_options(engine, msgspec.structs.replace(stated, prompt_tokens=6000)) == ()


@pytest.mark.parametrize(
    ("config", "options", "refuses"),
    [
        ({}, {"max_model_len": 100_000}, True),
        ({}, {"max_model_len": "100k"}, True),
        ({}, {"max_model_len": 40_960}, False),
        ({}, {"max_model_len": "auto"}, False),
        ({}, {"max_model_len": 100_000, "hf_overrides": "{}"}, False),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, {"max_model_len": 100_000}, False),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 2.0}}, {"max_model_len": 100_000}, True),
    ],
)
def test_vllm_refuses_a_length_beyond_the_models_positions(
    config: dict[str, object], options: dict[str, object], *, refuses: bool
) -> None:
    asked = serving({**QWEN3_14B, **config}, version="0.11.2", options=options, required_tokens=16_384)
    if not refuses:
        assert check_options("vllm", asked) == ()
        return
    with pytest.raises(InputError, match="max_position_embeddings"):
        check_options("vllm", asked)


@pytest.mark.parametrize(("engine", "option"), [("sglang", "tp"), ("tgi", "num_shard")])
def test_a_division_other_than_the_placement_is_refused(engine: str, option: str) -> None:
    for told in (2, "2"):
        asked = serving(LLAMA_8B, split=Split(tensor_parallel=2), options={option: told})
        assert check_options(engine, asked) == ()
        with pytest.raises(InputError, match=r"tensor_parallel is 1"):
            check_options(engine, msgspec.structs.replace(asked, split=Split()))


@pytest.mark.parametrize(
    ("engine", "options", "is_noted"),
    [
        ("sglang", ("gpu_memory_utilization", "max_num_seqs"), True),
        ("tgi", ("gpu_memory_utilization", "mem_fraction_static"), True),
        ("tensorrt-llm", ("gpu_memory_utilization", "max_total_tokens"), True),
        ("transformers", ("max_num_seqs", "max_batch_size"), True),
        ("sglang", ("mem_fraction_static", "max_model_len", "port", "bogus", "kv_cache_dtype"), False),
        ("tensorrt-llm", ("max_num_seqs", "max_batch_size", "free_gpu_memory_fraction"), False),
        ("tgi", ("max_total_tokens", "cuda_memory_fraction"), False),
        ("transformers", ("attn_implementation", "num_beams"), False),
    ],
)
def test_options_of_another_engine_are_named(engine: str, options: tuple[str, ...], *, is_noted: bool) -> None:
    notes = check_options(engine, serving(LLAMA_8B, options=dict.fromkeys(options, 9000)))
    found = [note for note in notes if note.code == "predict.other-engines-option"]
    assert len(found) == is_noted
    assert all(name in str(note) for note in found for name in options)


def test_what_an_engine_is_known_by_it_reads_itself() -> None:
    """No name of an engine's own set is noted on that engine; each is noted on some other, or several have it."""
    for engine, (_, own) in WELL_KNOWN.items():
        if engine != "vllm":
            assert other_engines_options(engine, own) == ()
    assert not WELL_KNOWN["vllm"][1] - known_flags()


@pytest.mark.parametrize(("written", "sizes"), [(0, 0), ("0", 0), ("1,2,4", 3), ([1, 2], 2), ([0], 0), (None, 6)])
def test_the_graphs_of_tgi_are_those_that_are_stated(written: object, sizes: int) -> None:
    graphs = serve("tgi", serving(LLAMA_8B, options={"cuda_graphs": written})).tightest.amount("cuda_graph")
    assert graphs is not None
    assert graphs.expected == sizes * 32 * GRAPH_BYTES_PER_LAYER
