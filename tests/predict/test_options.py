"""What the engines' options do, of every kind: switches, limits, caps, versions, and names of other engines."""

from __future__ import annotations

import pytest
from models_at_hand import LLAMA_8B, QWEN3_14B, serving

from capienza.predict.inference import sglang
from capienza.predict.inference.engines import serve
from capienza.predict.inference.release import release
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
