"""TGI and TensorRT-LLM: worked figures, block sizes by version, and what must hold for any model."""

from __future__ import annotations

import pytest
from models_at_hand import LATENT, LLAMA_2_7B, LLAMA_8B, serving

from capienza.predict.inference import tensorrt_llm, tgi
from capienza.predict.placement import Split
from capienza.units import GIB


@pytest.mark.parametrize(
    ("version", "options", "expected"),
    [("1.4.0", {}, 16), ("2.2.0", {}, 16), ("3.0.0", {}, 1), ("3.0.0", {"attention": "flashdecoding"}, 256),
     ("3.0.0", {"attention": "paged"}, 16), ("2.0.0", {"block_size": 32}, 32)],
)  # fmt: skip
def test_blocks_of_tgi(version: str, options: dict, expected: int) -> None:
    assert tgi.serve(serving(LLAMA_8B, version=version, options=options)).tightest.offer.block_size == expected


def test_pool_of_tgi_by_hand() -> None:
    """Before 3.0 a twentieth of what the warm-up leaves free stays free; from 3.0 a tenth of the card."""
    total = 80 * GIB
    options = {"max_batch_prefill_tokens": 4096}
    old = tgi.serve(serving(LLAMA_8B, version="2.0.4", total_bytes=total, options=options)).tightest
    new = tgi.serve(serving(LLAMA_8B, version="3.1.0", total_bytes=total, options=options)).tightest
    names = ("weights", "activations", "context")
    taken = sum(old.amount(name).expected for name in names)  # type: ignore[union-attr]
    blocks = 4096 * 131072
    left = total - taken - blocks
    assert old.offer.pool_bytes == pytest.approx(0.95 * left + blocks, abs=2)
    assert new.offer.pool_bytes == pytest.approx(left - 0.1 * total + blocks, abs=2)


def test_tgi_counts_what_its_log_calls_max_batch_total_tokens() -> None:
    """30,816 tokens of Llama 3.1 70B on two GPUs take 4.70 GiB on each: 163,840 B a token."""
    config = {**LLAMA_8B, "hidden_size": 8192, "num_hidden_layers": 80, "num_attention_heads": 64}
    pool = {"kv_cache_memory_bytes": 30_816 * 163_840}
    offer = tgi.serve(serving(config, split=Split(tensor_parallel=2), version="2.2.0", options=pool)).tightest.offer
    assert offer.kv_tokens == 30_816


def test_a_longer_warm_up_leaves_less() -> None:
    tokens = [
        tgi.serve(
            serving(LLAMA_8B, version="2.0", total_bytes=40 * GIB, options={"max_batch_prefill_tokens": prefill})
        ).tightest.offer.kv_tokens
        for prefill in (2048, 4096, 16384)
    ]
    assert tokens == sorted(tokens, reverse=True)  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("version", "options", "expected"),
    [("0.5.0", {}, 64), ("0.13.0", {}, 64), ("1.2.0", {}, 32), ("1.2.0", {"backend": "tensorrt"}, 64),
     ("0.13.0", {"tokens_per_block": 16}, 16)],
)  # fmt: skip
def test_blocks_of_tensorrt(version: str, options: dict, expected: int) -> None:
    found = tensorrt_llm.serve(serving(LLAMA_8B, version=version, options=options)).tightest.offer.block_size
    assert found == expected


def test_blocks_from_what_the_log_says_is_free() -> None:
    """631 blocks of 64 tokens of 512 KiB from 0.901 x 21.89 GiB; 35,136 B a token for a latent cache in fp8."""
    pool = {"kv_cache_memory_bytes": int(0.901 * 21.89 * GIB)}
    offer = tensorrt_llm.serve(serving(LLAMA_2_7B, dtype="fp16", version="0.13.0", options=pool)).tightest.offer
    assert offer.gpu_blocks == 631
    latent = {"kv_cache_memory_bytes": int(166.02 * GIB), "kv_cache_dtype": "fp8_e4m3"}
    found = tensorrt_llm.serve(serving(LATENT, version="1.1.0", options=latent)).tightest.offer
    assert found.gpu_blocks == pytest.approx(158_543, rel=1e-4)


def test_the_share_is_of_what_is_free() -> None:
    options = {"kv_cache_free_gpu_mem_fraction": 0.5, "max_num_tokens": 8192, "max_batch_size": 64}
    rank = tensorrt_llm.serve(serving(LLAMA_2_7B, version="0.13.0", total_bytes=40 * GIB, options=options)).tightest
    taken = sum(figure.amount.expected for figure in rank.figures)
    assert rank.offer.pool_bytes == pytest.approx((40 * GIB - taken) / 2, abs=2)


def test_engines_built_before_packing_hold_a_whole_batch_of_inputs() -> None:
    base = {"max_batch_size": 8, "max_model_len": 4096, "max_output_len": 1024}
    old = tensorrt_llm.shapes(serving(LLAMA_2_7B, options=base), (0, 5, 0))
    new = tensorrt_llm.shapes(serving(LLAMA_2_7B, options=base), (0, 13, 0))
    assert (old, new) == ((8 * 3072, 8), (8192, 8))


@pytest.mark.parametrize("engine", [tgi, tensorrt_llm])
def test_more_ranks_never_hold_more(engine) -> None:
    found = [
        engine.serve(serving(LLAMA_8B, split=Split(tensor_parallel=ranks), version="2.0")).ranks[0].amount("weights")
        for ranks in (1, 2, 4, 8)
    ]
    expected = [amount.expected for amount in found]
    assert expected == sorted(expected, reverse=True)
