"""Engines by the names that cards write, and the word for a card."""

from __future__ import annotations

import pytest
from models_at_hand import LLAMA_8B, serving

from capienza.errors import InputError
from capienza.predict.inference.engines import MODULES, engine_module, serve
from capienza.predict.inference.fit import fit_word, peak_bytes
from capienza.units import GIB


@pytest.mark.parametrize("name", MODULES)
def test_every_engine_answers(name: str) -> None:
    asked = serving(LLAMA_8B, total_bytes=80 * GIB, required_tokens=4096, concurrency=4)
    served = serve(name, asked)
    rank = served.tightest
    assert rank.amount("weights").floor == 8_030_261_248 * 2  # type: ignore[union-attr]
    assert rank.amount("kv_cache").expected == 4 * 4096 * 131072  # type: ignore[union-attr]
    for figure in rank.figures:
        assert str(figure.formula)
        assert "{" not in str(figure.formula)
    assert all("{" not in str(note) for note in served.notes)
    assert fit_word(served, 80 * GIB) in ("fit", "borderline")
    assert fit_word(serve(name, serving(LLAMA_8B, total_bytes=12 * GIB)), 12 * GIB) == "overflow"


@pytest.mark.parametrize("name", [name for name in MODULES if name != "transformers"])
def test_a_pool_does_not_depend_on_the_load(name: str) -> None:
    small = serving(LLAMA_8B, total_bytes=80 * GIB, required_tokens=10, concurrency=1)
    large = serving(LLAMA_8B, total_bytes=80 * GIB, required_tokens=4000, concurrency=64)
    assert serve(name, small).tightest.offer == serve(name, large).tightest.offer
    assert peak_bytes(serve(name, small).tightest) == peak_bytes(serve(name, large).tightest)


@pytest.mark.parametrize(("name", "near"), [("vlm", "vllm"), ("SGLang", "sglang"), ("tensorrt_llm", "tensorrt-llm")])
def test_an_unknown_engine_is_refused_with_the_near_name(name: str, near: str) -> None:
    with pytest.raises(InputError) as refused:
        engine_module(name)
    assert refused.value.as_dict()[0]["hint"] == f"Did you mean {near}?"
    assert "vllm, sglang, tgi" in str(refused.value)


def test_an_open_need_is_never_said_to_fit() -> None:
    served = serve("transformers", serving(LLAMA_8B, required_tokens=100, concurrency=1))
    assert fit_word(served, 80 * GIB) == "fit"
    assert fit_word(served, 80 * GIB, is_open=True) == "borderline"
