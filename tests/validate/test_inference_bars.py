"""How near the predictions are to the measured serving cases; the errors of the day are in the pull request."""

from __future__ import annotations

import statistics

import pytest
from cases_at_hand import all_scored, rows

from capienza.validate.inference_oom import case_word
from capienza.validate.row_capacity import row_capacity
from capienza.validate.row_case import read_case
from capienza.validate.scored import Scored

QUANTITIES = {
    "weights", "activation_peak", "non_torch", "cuda_graph", "total", "kv_tokens", "gpu_blocks", "max_concurrency",
    "kv_tokens_from_pool", "gpu_blocks_from_pool", "max_concurrency_from_pool", "oom", "none",
}  # fmt: skip


def errors(*quantities: str, engine: str | None = None, plain: bool | None = None) -> list[float]:
    found = sorted(
        abs(scored.error)
        for scored in all_scored()
        if scored.status == "scored"
        and scored.error is not None
        and scored.quantity in quantities
        and engine in (None, scored.engine)
        and plain in (None, is_plain(scored))
    )
    assert found
    return found


def is_plain(scored: Scored) -> bool:
    return scored.weight_format.lower().startswith(("bf16", "fp16", "fp32"))


def below(found: list[float], share: float) -> float:
    return found[min(len(found) - 1, int(share * len(found) - 1e-9))]


def test_weights_in_16_bit() -> None:
    found = errors("weights", plain=True)
    assert statistics.median(found) <= 0.004
    assert below(found, 0.95) <= 0.03


def test_quantised_weights() -> None:
    found = errors("weights", plain=False)
    assert statistics.median(found) <= 0.01
    assert below(found, 0.95) <= 0.04


def test_blocks_and_tokens_from_a_logged_pool() -> None:
    found = errors("kv_tokens_from_pool", "gpu_blocks_from_pool")
    assert sum(error <= 0.002 for error in found) >= 0.95 * len(found)


def test_end_to_end_tokens_of_vllm() -> None:
    """The median; one case states no `max_num_seqs` and took a profile eight times as large as the default's."""
    found = errors("kv_tokens", "gpu_blocks", engine="vllm")
    assert statistics.median(found) <= 0.02
    assert sum(error <= 0.08 for error in found) >= len(found) - 1


def test_total_of_generate() -> None:
    assert statistics.median(errors("total", engine="transformers")) <= 0.05


def test_cases_that_ran_out_of_memory() -> None:
    words = [scored.word for scored in all_scored() if scored.quantity == "oom" and scored.status == "scored"]
    assert "fit" not in words
    assert words.count("overflow") >= 0.75 * len(words)


def test_cases_that_ran_are_seldom_said_to_overflow() -> None:
    """The other side of the word: a rule that always says overflow would pass the test above."""
    words = []
    for row in rows():
        case, capacity = read_case(row), row_capacity(row)
        sure = case.serving is not None and case.odd is None and case.uncertain_weights is None
        if sure and capacity is not None and not row.get("oom"):
            words.append(case_word(case, case.serving, capacity))
    assert len(words) >= 40
    assert words.count("overflow") <= 0.05 * len(words)
    assert words.count("fit") >= 0.6 * len(words)


def test_no_floor_is_above_what_was_measured() -> None:
    """Floors are proved; logs round to two or four decimals."""
    for scored in all_scored():
        if scored.status == "scored" and scored.floor and isinstance(scored.measured, float | int):
            assert scored.floor <= 1.002 * scored.measured, scored


def test_nothing_is_dropped() -> None:
    assert {scored.id for scored in all_scored()} == {row["id"] for row in rows()}
    for scored in all_scored():
        assert scored.quantity in QUANTITIES
        assert bool(scored.reason) == (scored.status != "scored"), scored
        assert scored.status != "scored" or scored.expected is not None or scored.word is not None


@pytest.mark.parametrize("row", range(0, 130, 13))
def test_only_the_total_and_a_pool_are_read_before_predicting(row: int) -> None:
    """Other measured figures changed: the predictions stay."""
    from capienza.validate.inference_rows import inference_row

    original = rows()[row]
    allowed = {"total_gpu_memory", "kv_cache", "kv_size", "k_size", "v_size"}
    changed = {
        name: figure if name in allowed or not isinstance(figure, dict) else {**figure, "value": 3 * figure["value"]}
        for name, figure in original["measured"].items()
    }
    before = [(s.quantity, s.expected, s.word, s.status, s.reason) for s in inference_row(original)]
    after = [
        (s.quantity, s.expected, s.word, s.status, s.reason) for s in inference_row({**original, "measured": changed})
    ]
    assert before == after
