"""What the engines' options do, of every kind: switches, limits, caps, versions, and names of other engines."""

from __future__ import annotations

import pytest
from models_at_hand import LLAMA_8B, QWEN3_14B, serving

from capienza.predict.inference import sglang
from capienza.predict.inference.vllm.defaults import settings


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
