"""The print of llama-perplexity --kl-divergence: figures as printed, chunks taken apart, an alarm and never more."""

from __future__ import annotations

import math
import statistics
from decimal import Decimal
from pathlib import Path

import pytest
from gate import NUMERIC, answers, plan_for, written_corpus
from hypothesis import given, settings
from hypothesis import strategies as st

from capienza.errors import InputError
from capienza.quality.compare import compare
from capienza.quality.kl_log import read_kl_log
from capienza.quality.plan import PlannedMetric

pytest.importorskip("numpy")

KL = PlannedMetric(name="kl", kind="kl", max_regression=Decimal("0.05"))
TOP = PlannedMetric(name="same_top", kind="same_top", min=Decimal("0.9"))


def printed(kl: list[float], top: list[float], error: str = "0.000238") -> str:
    """A print in the tool's own form, from the means of its chunks; `top` in per cent."""
    lines = [
        f"kl_divergence: computing over {len(kl)} chunks, n_ctx=512, batch_size=2048, n_seq=4",
        "kl_divergence: 0.61 seconds per pass - ETA 0.12 minutes",
        "",
        "chunk             PPL               ln(PPL(Q)/PPL(base))          KL Divergence              Δp RMS"
        "            Same top p",
    ]
    for k in range(1, len(kl) + 1):
        mean, share = statistics.fmean(kl[:k]), statistics.fmean(top[:k])
        lines.append(
            f"{k:4d}     {6.4071:10.4f} ± {0.0391:9.4f}     {-0.00002:10.5f} ±       -nan    {mean:10.5f} ± "
            f"{0.0003:10.5f}    {5.519:6.3f} ± {0.05:6.3f} %    {share:6.3f} ± {0.072:6.3f} %"
        )
    lines += [
        "",
        "====== Perplexity statistics ======",
        "Mean PPL(Q)                   :   6.407115 ±   0.039119",
        "Mean PPL(base)                :   6.231633 ±   0.037716",
        "Cor(ln(PPL(Q)), ln(PPL(base))):  99.34%",
        "Mean ln(PPL(Q)/PPL(base))     :   0.027772 ±   0.000723",
        "Mean PPL(Q)/PPL(base)         :   1.028160 ±   0.000723",
        "Mean PPL(Q)-PPL(base)         :   0.175482 ±   0.004620",
        "",
        "====== KL divergence statistics ======",
        f"Mean    KLD: {statistics.fmean(kl):10.6f} ± {error:>10}",
        "Maximum KLD:   5.911021",
        "99.9%   KLD:   1.834118",
        "99.0%   KLD:   0.412901",
        "Median  KLD:   0.010211",
        " 1.0%   KLD:   0.000005",
        "Minimum KLD:  -0.000012",
        "",
        "====== Token probability statistics ======",
        "Mean    Δp: -0.596 ± 0.014 %",
        "Maximum Δp: 95.054%",
        "RMS Δp    :  5.519 ± 0.050 %",
        f"Same top p: {statistics.fmean(top):6.3f} ± 0.072 %",
    ]
    return "\n".join(lines) + "\n"


def _file(folder: Path, text: str) -> str:
    path = folder / "kl.txt"
    path.write_text(text)
    return str(path)


def test_figures_are_those_that_were_printed(tmp_path: Path) -> None:
    log = read_kl_log(_file(tmp_path, printed([0.02, 0.04] * 20, [91.0, 93.0] * 20)))
    assert (log.kl.mean, log.kl.error) == (0.03, 0.000238)
    assert (log.same_top.mean, log.same_top.error) == pytest.approx((0.92, 0.00072))
    assert log.tail == {
        "Maximum": 5.911021, "99.9%": 1.834118, "99.0%": 0.412901, "Median": 0.010211, "1.0%": 0.000005,
        "Minimum": -0.000012,
    }  # fmt: skip
    assert log.perplexity_ratio == (1.02816, 0.000723)
    assert log.rms_probability_change == pytest.approx((0.05519, 0.0005))
    assert len(log.kl.chunks) == 40


@given(st.lists(st.floats(0, 1), min_size=20, max_size=60))
@settings(max_examples=30, deadline=None)
def test_chunks_taken_apart_are_those_that_went_in(tmp_path_factory: pytest.TempPathFactory, kl: list[float]) -> None:
    log = read_kl_log(_file(tmp_path_factory.mktemp("kl"), printed(kl, [95.0] * len(kl))))
    assert log.kl.chunks == pytest.approx(kl, abs=2 * len(kl) * 1e-5)
    found = log.kl.interval(0.025)
    assert found is not None
    # Never narrower than the printed error alone, nor than that of the chunks.
    between = statistics.stdev(log.kl.chunks) / math.sqrt(len(kl))
    assert found.upper - found.lower == pytest.approx(2 * 1.959964 * max(0.000238, between), rel=1e-6)


@pytest.mark.parametrize(
    "kl, top, words",
    [
        ([0.01, 0.02] * 20, [95.0, 97.0] * 20, ("no_alarm", "no_alarm")),
        ([0.10, 0.12] * 20, [80.0, 81.0] * 20, ("violated", "violated")),
        ([0.01, 0.10] * 20, [95.0, 97.0] * 20, ("unknown", "no_alarm")),
        ([0.10, 0.12] * 5, [80.0, 81.0] * 5, ("unknown", "unknown")),
    ],
)
def test_it_alarms_and_never_admits(tmp_path: Path, kl: list[float], top: list[float], words: tuple[str, str]) -> None:
    corpus = written_corpus(tmp_path)
    plan = plan_for(corpus, NUMERIC, KL, TOP)
    arms = {
        arm: answers(plan, arm, 100 * (arm == "harmed"))
        for arm in ("reference", "reference_again", "candidate", "harmed")
    }  # type: ignore[arg-type]
    log = read_kl_log(_file(tmp_path, printed(kl, top)))
    found = compare(plan, corpus, arms, kl_log=log)
    assert not found.doubts
    assert (found.words["kl"], found.words["same_top"]) == words
    assert found.words["numeric"] == "satisfied"
    assert "quality.kl-log-read" in {finding.code for finding in found.findings}


PLAIN = "[1]4.9797,[2]5.8801,[3]6.2345,\nFinal estimate: PPL = 6.2345 +/- 0.03456\n"
WHOLE = printed([0.02] * 20, [95.0] * 20)


@pytest.mark.parametrize(
    "text, code",
    [
        ("", "quality.not-a-kl-log"),
        ("hello\n", "quality.not-a-kl-log"),
        (PLAIN, "quality.only-perplexity"),
        (WHOLE + WHOLE, "quality.kl-log-of-two-runs"),
        (WHOLE.replace("Mean    KLD:   0.020000", "Mean    KLD:        nan"), "quality.kl-log-broken"),
        (WHOLE.replace("Mean    KLD:   0.020000", "Mean    KLD:  -3.000000"), "quality.kl-log-broken"),
        (WHOLE.replace("Same top p: 95.000", "Same top p: 195.00"), "quality.kl-log-broken"),
        ("x" * (2**20 + 2), "quality.kl-log-too-long"),
    ],
)
def test_what_is_no_such_print_is_said(tmp_path: Path, text: str, code: str) -> None:
    with pytest.raises(InputError) as caught:
        read_kl_log(_file(tmp_path, text))
    assert caught.value.message.code == code


def test_a_print_without_its_chunks_carries_no_interval(tmp_path: Path) -> None:
    summary = WHOLE[WHOLE.index("====== Perplexity") :]
    log = read_kl_log(_file(tmp_path, summary))
    assert log.kl.chunks == ()
    assert log.kl.interval(0.025) is None
