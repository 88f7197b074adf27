"""vLLM's pool: figures of the reference page, and what may never change the other way."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capienza.architecture.registry import describe
from capienza.predict.inference.serving import Serving
from capienza.predict.inference.vllm.defaults import settings
from capienza.predict.inference.vllm.memory import captured_sizes, sampler_peak_bytes
from capienza.predict.inference.vllm.run import rank_pool, serve
from capienza.predict.inference.vllm.version import read_version
from capienza.predict.placement import Split
from capienza.units import GIB

EXAMPLES = Path(__file__).parents[2] / "examples" / "configs"


def serving(name, **changes):
    architecture = describe(json.loads((EXAMPLES / name / "config.json").read_text()))
    return Serving(architecture=architecture, dtype="bf16", **changes)


def pool_of(served):
    return rank_pool(served, settings(served), range(len(served.architecture.layers)))


@pytest.mark.parametrize(
    "text, number, is_v1",
    [
        ("0.11.2", (0, 11, 2), True),
        ("v0.8.5.post1", (0, 8, 5), True),
        ("0.8.x (V0)", (0, 8, 0), True),
        ("0.6.3.post1", (0, 6, 3), False),
        ("~0.14 (V1)", (0, 14, 0), True),
    ],
)
def test_versions_are_read(text, number, is_v1):
    found = read_version(text)
    assert (found.number, found.is_v1, found.is_stated) == (number, is_v1, True)


def test_an_unknown_version_takes_the_newest_rules_and_says_so():
    answer = serve(serving("meta-llama--Llama-3.1-8B", version="nightly"))
    assert "predict.engine-version" in {note.code for note in answer.notes}


@pytest.mark.parametrize(
    "name, version, options, tensor_parallel, groups, block_size, block_bytes",
    [
        # Groups and pages of the reference page: inference-mechanics.md section 2.
        ("openai--gpt-oss-20b", "0.11.2", {}, 1, 2, 16, 12 * 16 * 8 * 64 * 2 * 2),
        ("google--gemma-3-27b-it", "0.11.2", {}, 1, 7, 16, 10 * 16 * 16 * 128 * 2 * 2),
        ("Qwen--Qwen3-Next-80B-A3B-Instruct", "0.11.2", {}, 2, 4, 544, 12 * 544 * 256 * 2 * 2),
        ("google--gemma-3-27b-it", "0.8.5", {}, 1, 1, 16, 62 * 16 * 16 * 128 * 2 * 2),
        (
            "google--gemma-3-27b-it", "0.11.2", {"disable_hybrid_kv_cache_manager": True}, 1, 1, 16,
            62 * 16 * 16 * 128 * 2 * 2,
        ),
        ("deepseek-ai--DeepSeek-V3", "0.11.2", {"block_size": 64}, 8, 1, 64, 61 * 64 * 576 * 2),
        ("meta-llama--Llama-3.1-8B", "0.11.2", {"kv_cache_dtype": "fp8_e4m3"}, 4, 1, 16, 32 * 16 * 2 * 128 * 2),
    ],
)  # fmt: skip
def test_blocks_are_those_of_the_engine(name, version, options, tensor_parallel, groups, block_size, block_bytes):
    split = Split(tensor_parallel=tensor_parallel)
    pool = pool_of(serving(name, version=version, options=options, split=split))
    assert (pool.groups, pool.block_size, pool.block_bytes) == (groups, block_size, block_bytes)


def test_windowed_layers_need_their_window_and_a_chunk():
    """gemma 3 27B: 10 full layers, 52 sliding in 6 groups; 4096 tokens, chunks of 8192: every layer needs all."""
    pool = pool_of(serving("google--gemma-3-27b-it", version="0.11.2"))
    assert pool.blocks_for(4096, 8192) == 256 + 6 * (256 + 1)
    assert pool.blocks_for(131072, 2048) == 8192 + 6 * (-(-(1023 + 2048) // 16) + 1)


def test_the_sampler_of_pytorch_takes_its_copies():
    """Qwen3-Next, 1024 sequences: 5.58 GiB in the log; ours with the hidden states of 8192 tokens."""
    served = serving(
        "Qwen--Qwen3-Next-80B-A3B-Instruct",
        version="0.10.2",
        options={"max_num_seqs": 1024, "max_num_batched_tokens": 8192},
    )
    assert sampler_peak_bytes(served.architecture, settings(served)) / GIB == pytest.approx(5.58, rel=0.02)


@pytest.mark.parametrize(
    "version, options, sizes",
    [
        ("0.8.5", {"max_num_seqs": 256, "use_v1": False}, 35),
        ("0.8.5", {"max_num_seqs": 128, "use_v1": False}, 19),
        ("0.8.5", {"max_num_batched_tokens": 8192}, 67),
        ("0.11.0", {"max_num_seqs": 1024, "max_num_batched_tokens": 8192}, 51),
        ("0.19.1", {"enforce_eager": True}, 0),
    ],
)
def test_captured_sizes_are_those_of_the_version(version, options, sizes):
    assert captured_sizes(settings(serving("meta-llama--Llama-3.1-8B", version=version, options=options))) == sizes


def test_the_budget_divides_as_the_log_says():
    """Llama 3 8B on an H100 of 79.22 GiB, 0.6.5: 71.29 - 14.96 - 1.79 - 1.26 leaves 53.28 GiB; within 1 %."""
    served = serving(
        "meta-llama--Llama-3.1-8B",
        version="0.6.5",
        options={"gpu_memory_utilization": 0.9, "max_model_len": 8192},
        total_bytes=int(79.22 * GIB),
    )
    offer = serve(served).tightest.offer
    assert offer.budget_bytes / GIB == pytest.approx(71.30, abs=0.01)
    assert offer.pool_bytes / GIB == pytest.approx(53.28, rel=0.01)
    assert offer.gpu_blocks == offer.pool_bytes // (16 * 131072)


@given(tokens=st.integers(1, 200_000), more=st.integers(0, 50_000), batched=st.sampled_from([512, 2048, 8192]))
@pytest.mark.parametrize("name", ["meta-llama--Llama-3.1-8B", "google--gemma-3-27b-it", "openai--gpt-oss-20b"])
def test_more_tokens_never_need_fewer_blocks(name, tokens, more, batched):
    pool = POOLS[name]
    assert pool.blocks_for(tokens + more, batched) >= pool.blocks_for(tokens, batched)
    assert pool.bytes_for(tokens, 2, batched) == 2 * pool.bytes_for(tokens, 1, batched)


POOLS = {
    name: pool_of(serving(name, version="0.11.2"))
    for name in ("meta-llama--Llama-3.1-8B", "google--gemma-3-27b-it", "openai--gpt-oss-20b")
}


@pytest.mark.parametrize("name", ["meta-llama--Llama-3.1-8B", "Qwen--Qwen3-30B-A3B", "deepseek-ai--DeepSeek-V3"])
def test_more_ranks_never_hold_more(name):
    amounts = [
        serve(serving(name, version="0.11.2", split=Split(tensor_parallel=ranks))).ranks[0].amount("weights").expected
        for ranks in (1, 2, 4, 8)
    ]
    assert amounts == sorted(amounts, reverse=True)


def test_the_required_load_is_whole_blocks():
    served = serving("meta-llama--Llama-3.1-8B", version="0.11.2", required_tokens=33, concurrency=5)
    assert serve(served).ranks[0].amount("kv_cache").expected == 5 * 3 * 16 * 131072
    more = msgspec.structs.replace(served, concurrency=6)
    assert serve(more).ranks[0].amount("kv_cache").expected == 6 * 3 * 16 * 131072
