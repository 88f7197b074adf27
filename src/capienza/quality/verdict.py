"""What the figures of one metric say: satisfied, violated, or unknown, and why.

Legend: d is the mean of candidate minus reference; margin is `max_regression`; each end of an interval is wrong with
rate alpha.
  right or wrong     Tango's interval of d (tango), items of one document counted as fewer (clusters)
  shares, log-probs  the bootstrap over documents (bootstrap); shares with too little that differs: see `_of_few`
  satisfied          the lower end of d lies above -margin, and that of the candidate's own mean at `min` or above
  violated           the upper end lies below
  KL, same top       violated where they are beyond the threshold for sure; else they only fail to raise an alarm
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Literal

import msgspec

from capienza.errors import Message, template
from capienza.quality import bootstrap
from capienza.quality.answers import Answers
from capienza.quality.clusters import FEWEST_CLUSTERS, design_effect
from capienza.quality.corpus import Corpus
from capienza.quality.pairs import Counts, Figures, Pairs, figures, paired
from capienza.quality.plan import ALARMS, BINARY, PlannedMetric
from capienza.quality.tango import Interval, interval, quantile

State = Literal["satisfied", "violated", "unknown", "no_alarm"]
MOST_LEFT_OUT = 0.1
"""Share of items without a reference answer above which nothing is concluded."""

NOTHING_LEFT = template("quality.nothing-to-compare", "no item has an answer of the reference that can be judged")
LEFT_OUT = template(
    "quality.reference-answers-too-few",
    "{count} of {items} items have no reference answer that can be judged; more than one in ten is too many",
    "find out why the reference fails on them, and freeze a new plan",
)
NO_INTERVAL = template(
    "quality.no-interval",
    "fewer than {fewest} source documents hold an item that differs, so no interval is trusted",
    "take items from more documents",
)
NO_WORST = template(
    "quality.figures-missing",
    "{count} items have no {metric} of the candidate, and the metric has no worst value to count instead",
    "collect the missing figures",
)
ACROSS = template(
    "quality.interval-holds-margin",
    "the interval from {lower} to {upper} holds the margin {margin}",
    "more items: capienza quality lint says how many",
)


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One metric of one comparison; shares and differences are plain numbers, not per cent.

    `differing`: items with two different figures. `gain` and `loss`: items that only the candidate, or only the
    reference, has right. `mcnemar`: the exact two-sided p-value, for description. `own`: the interval of the
    candidate's own mean.
    """

    metric: str
    kind: str
    state: State
    items: int
    documents: int
    of_reference: Counts
    of_candidate: Counts
    reference: float | None = None
    candidate: float | None = None
    difference: float | None = None
    interval: Interval | None = None
    own: Interval | None = None
    design_effect: float = 1.0
    differing: int | None = None
    gain: int | None = None
    loss: int | None = None
    mcnemar: float | None = None
    reasons: tuple[Message, ...] = ()


def repeats(result: Result) -> bool:
    """Did the reference repeat itself? Where not one item differs it did, though no interval can be drawn of that."""
    is_without_interval = all(reason.code == NO_INTERVAL.code for reason in result.reasons)
    return result.state == "satisfied" or (result.state == "unknown" and result.differing == 0 and is_without_interval)


def judge(
    metric: PlannedMetric,
    corpus: Corpus,
    reference: Answers | Figures,
    candidate: Answers,
    alpha: float,
    seed: int,
) -> Result:
    """Judge one metric of one candidate against the reference.

    Args:
        metric: With its thresholds.
        corpus: The frozen corpus.
        reference: The answers of the reference, or their figures where they were taken already.
        candidate: The answers of the candidate.
        alpha: One-sided error rate of each end.
        seed: Of the bootstrap's draws.
    """
    ours = reference if isinstance(reference, Figures) else figures(metric, corpus, reference)
    pairs = paired(metric, corpus, ours, figures(metric, corpus, candidate))
    count, left_out = len(pairs.candidate), pairs.of_reference.total
    result = Result(
        metric=metric.name,
        kind=metric.kind,
        state="unknown",
        items=count,
        documents=len(set(pairs.clusters)),
        of_reference=pairs.of_reference,
        of_candidate=pairs.of_candidate,
    )
    if not count:
        return msgspec.structs.replace(result, reasons=(NOTHING_LEFT(),))
    result = _measured(result, metric, pairs, alpha, seed)
    reasons = list(result.reasons)
    if pairs.open_items:
        reasons.append(NO_WORST(count=pairs.open_items, metric=metric.kind))
    if left_out > MOST_LEFT_OUT * len(corpus.items):
        reasons.append(LEFT_OUT(count=left_out, items=len(corpus.items)))
    state = _state(result, metric)
    if reasons and state in ("satisfied", "no_alarm"):
        state = "unknown"
    return msgspec.structs.replace(result, state=state, reasons=(*reasons, *_why(result, metric, state)))


def _measured(result: Result, metric: PlannedMetric, pairs: Pairs, alpha: float, seed: int) -> Result:
    count = len(pairs.candidate)
    differences = [ours - theirs for ours, theirs in zip(pairs.candidate, pairs.reference, strict=True)]
    result = msgspec.structs.replace(
        result,
        reference=math.fsum(pairs.reference) / count,
        candidate=math.fsum(pairs.candidate) / count,
        difference=math.fsum(differences) / count,
        differing=sum(each != 0 for each in differences),
    )
    if metric.kind in BINARY:
        return _counted(result, pairs, differences, alpha)
    of_difference, of_candidate = bootstrap.intervals([differences, pairs.candidate], pairs.clusters, alpha, seed)
    if metric.kind in ("chrf", "rouge_l"):
        of_difference = of_difference or _of_few(differences, pairs.clusters, alpha, low=-1.0)
        of_candidate = of_candidate or _of_few(pairs.candidate, pairs.clusters, alpha, low=0.0)
    reasons = () if of_difference else (NO_INTERVAL(fewest=FEWEST_CLUSTERS),)
    return msgspec.structs.replace(result, interval=of_difference, own=of_candidate, reasons=reasons)


def _counted(result: Result, pairs: Pairs, differences: list[float], alpha: float) -> Result:
    """Gains and losses, their interval, and the candidate's own share with Wilson's."""
    count = len(differences)
    gain, loss = sum(each > 0 for each in differences), sum(each < 0 for each in differences)
    effect, own_effect = design_effect(differences, pairs.clusters), _own_effect(pairs)
    worth = count / effect
    return msgspec.structs.replace(
        result,
        gain=gain,
        loss=loss,
        design_effect=effect,
        mcnemar=_mcnemar(gain, loss),
        interval=interval(worth, gain / effect, loss / effect, alpha),
        own=_wilson(sum(pairs.candidate) / own_effect, count / own_effect, alpha),
    )


def _own_effect(pairs: Pairs) -> float:
    mean = math.fsum(pairs.candidate) / len(pairs.candidate)
    return design_effect([value - mean for value in pairs.candidate], pairs.clusters)


def _wilson(successes: float, count: float, alpha: float) -> Interval:
    """E. B. Wilson's score interval of one share (1927)."""
    z2 = quantile(alpha) ** 2
    middle = (successes + z2 / 2) / (count + z2)
    half = math.sqrt(z2 * (successes * (count - successes) / count + z2 / 4)) / (count + z2)
    return Interval(max(0.0, middle - half), min(1.0, middle + half))


def _mcnemar(gain: int, loss: int) -> float:
    """Exact two-sided p-value of equal chances for gain and loss."""
    discordant, few = gain + loss, min(gain, loss)
    log_half = discordant * math.log(0.5)
    tail = math.fsum(
        math.exp(math.lgamma(discordant + 1) - math.lgamma(k + 1) - math.lgamma(discordant - k + 1) + log_half)
        for k in range(few + 1)
    )
    return min(1.0, 2 * tail)


def _of_few(values: list[float], clusters: list[int], alpha: float, low: float) -> Interval:
    """Interval of a bounded mean where too few documents differ: each that differs counts with its whole range.

    Documents, not items, are counted; the share of those that lie below, and above, the commonest value is bounded by
    Wilson's interval, and each is given the farthest value there is. Wide, and valid whatever the values are.
    """
    commonest = Counter(values).most_common(1)[0][0]
    documents = max(clusters) + 1
    below = len({cluster for value, cluster in zip(values, clusters, strict=True) if value < commonest})
    above = len({cluster for value, cluster in zip(values, clusters, strict=True) if value > commonest})
    most_below = _wilson(below, documents, alpha).upper
    most_above = _wilson(above, documents, alpha).upper
    return Interval(commonest - most_below * (commonest - low), commonest + most_above * (1.0 - commonest))


def _state(result: Result, metric: PlannedMetric) -> State:
    """Three-valued: every threshold must be met, one that is missed decides."""
    if metric.kind in ALARMS:
        return alarm(result, metric)
    states = []
    if metric.max_regression is not None:
        states.append(against(result.interval, -float(metric.max_regression)))
    if metric.min is not None:
        states.append(against(result.own, float(metric.min), is_reached=True))
    if "violated" in states:
        return "violated"
    return "satisfied" if states and set(states) == {"satisfied"} else "unknown"


def against(found: Interval | None, threshold: float, *, is_reached: bool = False) -> State:
    """What an interval says of a threshold below which nothing is acceptable."""
    if found is None:
        return "unknown"
    if found.lower > threshold or (is_reached and found.lower == threshold):
        return "satisfied"
    return "violated" if found.upper < threshold else "unknown"


def alarm(result: Result, metric: PlannedMetric) -> State:
    """KL above, or the share of same top tokens below, its threshold."""
    found, mean = result.own, result.candidate
    if mean is None or (metric.min is None and metric.max_regression is None):
        return "unknown"
    least, most = metric.min, metric.max_regression
    if found and (
        (most is not None and found.lower > float(most)) or (least is not None and found.upper < float(least))
    ):
        return "violated"
    is_beyond = (most is not None and mean > float(most)) or (least is not None and mean < float(least))
    return "unknown" if is_beyond or found is None else "no_alarm"


def _why(result: Result, metric: PlannedMetric, state: State) -> tuple[Message, ...]:
    if state != "unknown" or result.interval is None or metric.max_regression is None:
        return ()
    found = result.interval
    if not found.lower <= -float(metric.max_regression) <= found.upper:
        return ()
    lower, upper = f"{found.lower:+.4f}", f"{found.upper:+.4f}"
    return (ACROSS(lower=lower, upper=upper, margin=f"{-metric.max_regression:+f}"),)
