"""Will a start, or a run at full load, overflow the card? One word for any engine's answer.

Legend: t what is compared with, the card's total; all figures of one rank.
    overflow     weights and context > t            the load fails
                 pool <= 0, or smaller than one sequence of the longest length    the start is refused
                 everything live in one phase, with the pool > t
    fit          everything + margin <= t, and nothing about the need is left open
    borderline   the rest
The margin, 5 % of the card, is chosen and not measured: what allocators leave between blocks and a load beyond the
warm-up are in no figure. It moves words between fit and borderline alone.
"""

from __future__ import annotations

from typing import Literal

from capienza.predict.inference.serving import REQUIRED_LOAD, RankFigures, Served

Word = Literal["overflow", "borderline", "fit"]
MARGIN_SHARE = 0.05
LOADED = ("weights", "context")


def fit_word(served: Served, total_bytes: int, *, is_open: bool = False) -> Word:
    """The word for the tightest rank; `is_open` when a part of the need is not known."""
    words = [_rank_word(rank, total_bytes, is_open=is_open) for rank in served.ranks]
    return next(word for word in ("overflow", "borderline", "fit") if word in words)


def peak_bytes(rank: RankFigures) -> int:
    """The most that is live in one phase: the pool in place of the required load where the engine has one."""
    phases = dict.fromkeys(phase for figure in rank.figures for phase in figure.phases)
    pool = rank.offer.pool_bytes
    peaks = [
        sum(
            figure.amount.expected
            for figure in rank.figures
            if phase in figure.phases and not (pool is not None and figure.name == REQUIRED_LOAD)
        )
        for phase in phases
    ]
    return max(peaks, default=0) + max(0, pool or 0)


def _rank_word(rank: RankFigures, total_bytes: int, *, is_open: bool) -> Word:
    offer = rank.offer
    loaded = sum(figure.amount.expected for figure in rank.figures if figure.name in LOADED)
    too_small = offer.pool_bytes is not None and offer.pool_bytes <= 0
    holds_none = offer.max_concurrency is not None and offer.max_concurrency < 1
    if loaded > total_bytes or too_small or holds_none or peak_bytes(rank) > total_bytes:
        return "overflow"
    if is_open or peak_bytes(rank) + MARGIN_SHARE * total_bytes > total_bytes:
        return "borderline"
    return "fit"
