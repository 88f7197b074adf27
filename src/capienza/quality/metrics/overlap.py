"""How much of the words of an accepted answer an output has: chrF and ROUGE-L, from 0 to 1."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from capienza.errors import MissingPartError, template
from capienza.quality.corpus import Item

NOT_INSTALLED = template(
    "quality.metric-not-installed",
    "the metric {metric} needs {package}",
    "install it with: pip install 'capienza[quality]'",
)


def chrf(item: Item, output: str) -> float:
    """chrF2 of M. Popović (2015), as sacrebleu computes it with its defaults, over 100."""
    return float(_chrf().sentence_score(output, list(item.expected)).score) / 100


def rouge_l(item: Item, output: str) -> float:
    """ROUGE-L F1 of C.-Y. Lin (2004), as rouge-score computes it with stemming, best of the accepted answers."""
    score = _rouge()
    return max(float(score(accepted, output)["rougeL"].fmeasure) for accepted in item.expected)


@cache
def _chrf() -> Any:
    try:
        from sacrebleu.metrics.chrf import CHRF
    except ImportError as error:
        raise MissingPartError(NOT_INSTALLED(metric="chrf", package="sacrebleu")) from error
    return CHRF()


@cache
def _rouge() -> Callable[[str, str], Any]:
    try:
        from rouge_score.rouge_scorer import RougeScorer
    except ImportError as error:
        raise MissingPartError(NOT_INSTALLED(metric="rouge_l", package="rouge-score")) from error
    scorer: Callable[[str, str], Any] = RougeScorer(["rougeL"], use_stemmer=True).score
    return scorer
