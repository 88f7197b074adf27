"""`generate`: the published tables of first-generation Qwen, the caches by version, and what must hold for any load."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from models_at_hand import GEMMA_2_2B, LLAMA_8B, QWEN3_NEXT, QWEN_7B, serving

from capienza.formats.scheme import scheme_named
from capienza.predict.inference.fit import peak_bytes
from capienza.predict.inference.serving import RankFigures
from capienza.predict.inference.transformers_cache import cache_bytes, cache_kind
from capienza.predict.inference.transformers_generate import read_version, serve
from capienza.units import GIB


def allocated_gib(rank: RankFigures) -> float:
    return (peak_bytes(rank) - rank.amount("context").expected) / GIB  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("batch", "generated", "measured"),
    [(1, 512, 15.2), (1, 8192, 23.2), (16, 1024, 31.7), (32, 1024, 48.7)],
)
def test_published_peaks_of_qwen(batch: int, generated: int, measured: float) -> None:
    asked = serving(QWEN_7B, required_tokens=generated + 1, concurrency=batch, options={"prompt_tokens": 1})
    assert allocated_gib(serve(asked).ranks[0]) == pytest.approx(measured, rel=0.05)


@pytest.mark.parametrize(("batch", "measured"), [(1, 15.5), (16, 22.3), (64, 48.2)])
def test_published_peaks_of_qwen_with_an_eight_bit_cache(batch: int, measured: float) -> None:
    options = {"prompt_tokens": 1, "kv_cache_dtype": "int8"}
    asked = serving(QWEN_7B, required_tokens=1025, concurrency=batch, options=options)
    assert allocated_gib(serve(asked).ranks[0]) == pytest.approx(measured, rel=0.05)


@pytest.mark.parametrize(
    ("config", "version", "options", "expected"),
    [
        (LLAMA_8B, (4, 35), {}, "tuple"),
        (LLAMA_8B, (4, 36), {}, "dynamic"),
        (QWEN_7B, (5, 24), {}, "tuple"),
        (LLAMA_8B, (5, 24), {"cache_implementation": "static"}, "static"),
        (LLAMA_8B, (5, 24), {"cache_implementation": "quantized"}, "quantized"),
    ],
)
def test_cache_by_version(config: dict, version: tuple[int, int], options: dict, expected: str) -> None:
    assert cache_kind(serving(config, options=options), version) == expected


def test_what_lives_beside_the_cache() -> None:
    """A tuple is held twice, a dynamic cache one layer twice, a static one once."""
    asked, per_token = serving(LLAMA_8B), 131072
    old, new = cache_bytes(asked, (4, 30), 1000, 3), cache_bytes(asked, (4, 50), 1000, 3)
    assert old.kept_bytes == new.kept_bytes == 3 * 1000 * per_token
    assert old.copies_bytes == old.kept_bytes
    assert new.copies_bytes == new.kept_bytes // 32
    static = cache_bytes(serving(LLAMA_8B, options={"cache_implementation": "static"}), (5, 24), 1000, 3)
    assert static.copies_bytes == 0


def test_windows_shorten_a_dynamic_cache_from_4_56() -> None:
    asked = serving(GEMMA_2_2B)
    before, after = cache_bytes(asked, (4, 55), 8192, 1), cache_bytes(asked, (4, 56), 8192, 1)
    one = 2 * 4 * 256 * 2
    assert before.kept_bytes == 26 * 8192 * one
    assert after.kept_bytes == 13 * (8192 + 4095) * one


def test_a_quantized_cache_keeps_a_plain_rest() -> None:
    options = {"cache_implementation": "quantized"}
    short = cache_bytes(serving(LLAMA_8B, options=options), (5, 24), 100, 1)
    long = cache_bytes(serving(LLAMA_8B, options=options), (5, 24), 10_128, 1)
    assert short.kept_bytes == 100 * 131072
    assert long.kept_bytes == pytest.approx(128 * 131072 + 10_000 * 65536 * (0.5 + 4 / 64), rel=1e-6)


def test_logits_of_the_whole_prompt_before_4_45() -> None:
    options = {"prompt_tokens": 1000}
    old, new = (
        serve(serving(LLAMA_8B, version=version, required_tokens=1100, concurrency=2, options=options)).ranks[0]
        for version in ("4.44.0", "4.45.0")
    )
    assert old.amount("prefill_logits").expected == 2000 * 128256 * 6  # type: ignore[union-attr]
    assert new.amount("prefill_logits").expected == 2 * 128256 * 6  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("4.44.2", ((4, 44), True)), ("transformers 5.1", ((5, 1), True)), ("PyTorch 2.0.1, CUDA 11.8", ((5, 24), False))],
)
def test_the_version_is_that_of_transformers(text: str, expected: tuple) -> None:
    assert read_version(text) == expected


def test_four_bit_weights_are_unpacked_for_a_prompt() -> None:
    rank = serve(serving(LLAMA_8B, scheme=scheme_named("nf4"), required_tokens=100, concurrency=1)).ranks[0]
    assert rank.amount("dequantized").expected == 4096 * 14336 * 2  # type: ignore[union-attr]


@given(st.integers(2, 4000), st.integers(1, 16), st.sampled_from([LLAMA_8B, QWEN_7B, GEMMA_2_2B, QWEN3_NEXT]))
def test_more_tokens_or_sequences_never_need_less(tokens: int, batch: int, config: dict) -> None:
    def need(count: int, sequences: int) -> int:
        return peak_bytes(serve(serving(config, required_tokens=count, concurrency=sequences)).ranks[0])

    assert need(tokens, batch) <= need(tokens + 1, batch)
    assert need(tokens, batch) <= need(tokens, batch + 1)


@pytest.mark.oracle
@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_kept_bytes_equal_those_of_the_real_cache(cache: str) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    config = {
        "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 3, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 100, "max_position_embeddings": 64,
    }  # fmt: skip
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**config)).eval()
    tokens = torch.ones((2, 9), dtype=torch.long)
    kept = (
        transformers.StaticCache(config=model.config, max_cache_len=24)
        if cache == "static"
        else transformers.DynamicCache(config=model.config)
    )
    with torch.no_grad():
        model(tokens, cache=kept, use_cache=True)
    theirs = sum(layer.keys.nbytes + layer.values.nbytes for layer in kept.layers)
    asked = serving(
        {"model_type": "llama", **config}, dtype="fp32",
        options={"cache_implementation": "static"} if cache == "static" else {},
    )  # fmt: skip
    assert cache_bytes(asked, (5, 24), 24 if cache == "static" else 9, 2).kept_bytes == theirs
