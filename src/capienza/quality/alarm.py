"""An alarm metric judged by the print of llama-perplexity in place of the answers' own figures."""

from __future__ import annotations

import msgspec

from capienza.errors import Message, template
from capienza.quality.clusters import FEWEST_CLUSTERS
from capienza.quality.kl_log import KlLog
from capienza.quality.pairs import Counts
from capienza.quality.plan import ALARMS, PlannedMetric, QualityPlan
from capienza.quality.verdict import Result, alarm

FEW_CHUNKS = template(
    "quality.kl-log-few-chunks",
    "the print has {count} lines of chunks; below {fewest} no interval is trusted",
    "give a longer text, and keep all that llama-perplexity prints",
)
KL_OF_A_TEXT = template(
    "quality.kl-log-read",
    "llama-perplexity, over a text that the plan does not fix: KL {kl} +- {error}, at most {maximum}, {tail}; same top "
    "token {same_top} %; ratio of perplexities {ratio}. It may raise an alarm, and admits nothing",
)
NO_ALARM_PLANNED = template(
    "quality.kl-log-without-metric",
    "the plan has no metric of the kind kl or same_top, so the print of llama-perplexity raises no alarm",
    "add one to the card, with its threshold, under a new plan",
)


def judged_by_log(metric: PlannedMetric, log: KlLog, alpha: float) -> Result:
    """An alarm metric by the print; items and documents are its chunks."""
    spread = log.kl if metric.kind == "kl" else log.same_top
    count = len(spread.chunks)
    result = Result(
        metric=metric.name,
        kind=metric.kind,
        state="unknown",
        items=count,
        documents=count,
        of_reference=Counts(),
        of_candidate=Counts(),
        candidate=spread.mean,
        own=spread.interval(alpha),
        reasons=() if count >= FEWEST_CLUSTERS else (FEW_CHUNKS(count=count, fewest=FEWEST_CLUSTERS),),
    )
    return msgspec.structs.replace(result, state=alarm(result, metric))


def said_of(log: KlLog, plan: QualityPlan) -> tuple[Message, ...]:
    """What a person should know of the print, its tail above all."""
    tail = ", ".join(f"{name} {log.tail[name]:.4f}" for name in ("99.9%", "99.0%") if name in log.tail)
    said = KL_OF_A_TEXT(
        kl=f"{log.kl.mean:.6f}",
        error=f"{log.kl.error:.6f}",
        maximum=f"{log.tail['Maximum']:.4f}" if "Maximum" in log.tail else "?",
        tail=tail or "?",
        same_top=f"{log.same_top.mean * 100:.3f}",
        ratio=f"{log.perplexity_ratio[0]:.6f}" if log.perplexity_ratio else "?",
    )
    has_alarm = any(metric.kind in ALARMS for metric in plan.metrics)
    return (said,) if has_alarm else (said, NO_ALARM_PLANNED())
