"""What the engines' options do, of every kind: switches, limits, caps, versions, and names of other engines."""

from __future__ import annotations

import pytest
from models_at_hand import LLAMA_8B, QWEN3_14B, serving

from capienza.predict.inference import sglang
from capienza.predict.inference.engines import serve
from capienza.predict.inference.release import release
from capienza.predict.inference.serving import Served
from capienza.predict.inference.vllm.defaults import settings
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
