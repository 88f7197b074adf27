"""SGLang: the worked figures of its start-up logs, and what must hold for any model."""

from __future__ import annotations

import msgspec
import pytest
from models_at_hand import LATENT, LLAMA_8B, QWEN3_14B, QWEN3_NEXT, QWQ_32B, serving

from capienza.predict.inference.serving import Serving
from capienza.predict.inference.sglang import default_fraction, default_sizes, serve
from capienza.predict.placement import Split
from capienza.units import GIB, MIB

L4_BYTES = int(22.16 * GIB)


def test_pool_of_qwq_on_four_l4() -> None:
    """0.4.3: 0.85 of what was free, less the weights: 2.84 GiB of K and V, 46,611 tokens."""
    asked = serving(
        QWQ_32B, split=Split(tensor_parallel=4), version="0.4.3.post4", total_bytes=L4_BYTES, gpu="NVIDIA L4",
        options={"mem_fraction_static": 0.85},
    )  # fmt: skip
    offer = serve(asked).tightest.offer
    assert offer.pool_bytes is not None
    assert offer.kv_tokens is not None
    assert offer.pool_bytes / GIB == pytest.approx(2.84, rel=0.03)
    assert offer.kv_tokens == pytest.approx(46_611, rel=0.03)


def test_rotary_tables_are_in_fp32_on_cuda_cards() -> None:
    """15.02 GiB of Llama 3.1 8B, where vLLM's 16-bit table gives 14.99."""
    weights = serve(serving(LLAMA_8B, gpu="H100 80GB")).ranks[0].amount("weights")
    on_amd = serve(serving(LLAMA_8B, gpu="AMD MI300X")).ranks[0].amount("weights")
    assert weights is not None
    assert on_amd is not None
    assert weights.expected / GIB == pytest.approx(15.02, abs=0.005)
    assert weights.expected - on_amd.expected == 131072 * 128 * 2


@pytest.mark.parametrize(
    ("version", "ranks", "mebibytes", "expected"),
    [
        ("0.4.2", 1, 24000, 0.88),
        ("0.4.2", 8, 80000, 0.81),
        ("0.5.5", 1, 24564, round((24564 - 512 - 3072 - 48 - 128) / 24564, 3)),
        ("0.5.5", 1, 81559, round((81559 - 512 - 12288 - 512 - 128) / 81559, 3)),
        ("0.5.5", 8, 81559, round((81559 - 512 - 12288 - 1024 - 1024) / 81559, 3)),
    ],
)
def test_default_share(version: str, ranks: int, mebibytes: int, expected: float) -> None:
    number = tuple(int(part) for part in version.split("."))
    asked = serving(LLAMA_8B, split=Split(tensor_parallel=ranks), total_bytes=mebibytes * MIB)
    chunk, batch = default_sizes(asked, number)
    assert default_fraction(asked, number, chunk, batch) == expected


def test_unknown_total_leaves_the_offer_open() -> None:
    offer = serve(serving(LLAMA_8B, version="0.5.5")).tightest.offer
    assert offer.pool_bytes is None
    assert offer.kv_tokens is None


def test_latent_cache_is_whole_on_every_rank() -> None:
    """Kimi K2 on eight GPUs: 70,272 B a token on each; 2,454,421 tokens from 160.63 GiB."""
    pool = {"kv_cache_memory_bytes": int(160.63 * GIB)}
    offer = serve(serving(LATENT, split=Split(tensor_parallel=8), options=pool)).tightest.offer
    assert offer.kv_tokens == pytest.approx(2_454_421, rel=1e-4)


def test_states_come_before_tokens() -> None:
    total = {"total_bytes": 140 * GIB, "options": {"mem_fraction_static": 0.9}}
    asked = serving(QWEN3_NEXT, split=Split(tensor_parallel=2), **total)
    plain = serve(asked).tightest.offer
    few = with_option(with_option(asked, "disable_radix_cache", True), "max_running_requests", 16)
    assert plain.pool_bytes is not None
    assert serve(few).tightest.offer.pool_bytes > plain.pool_bytes  # type: ignore[operator]
    budget = plain.budget_bytes - serve(asked).tightest.amount("weights").expected  # type: ignore[operator,union-attr]
    assert plain.pool_bytes == pytest.approx(budget / 1.9, rel=0.01)


def test_a_page_holds_whole_tokens() -> None:
    asked = serving(QWEN3_14B, total_bytes=80 * GIB, options={"mem_fraction_static": 0.8, "page_size": 64})
    offer = serve(asked).tightest.offer
    assert offer.kv_tokens % 64 == 0  # type: ignore[operator]
    assert offer.gpu_blocks * 64 == offer.kv_tokens  # type: ignore[operator]


def test_a_larger_share_or_card_never_offers_less() -> None:
    tokens = [
        serve(
            serving(QWEN3_14B, total_bytes=total * GIB, options={"mem_fraction_static": share})
        ).tightest.offer.kv_tokens
        for total in (40, 80)
        for share in (0.8, 0.85, 0.9)
    ]
    assert tokens == sorted(tokens)  # type: ignore[type-var]


def test_an_unknown_version_takes_the_nearest_and_says_so() -> None:
    notes = serve(serving(LLAMA_8B, version="main")).notes
    assert any(note.code == "predict.engine-version" for note in notes)
    assert not any(note.code == "predict.engine-version" for note in serve(serving(LLAMA_8B, version="0.5.8")).notes)


def with_option(asked: Serving, name: str, value: object) -> Serving:
    return msgspec.structs.replace(asked, options={**asked.options, name: value})
