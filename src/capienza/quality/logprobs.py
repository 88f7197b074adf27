"""Log-probabilities that a server gives with its answer, and what those of two arms say of each other.

Only the first token of an answer is taken: there both arms have read the same, and after it each its own words. A
server gives the k likeliest tokens and no more.

Legend, for the tokens S that both arms list, with probabilities p of the reference and q of the arm:
  r, s   what is left of each, 1 - sum of p over S, 1 - sum of q over S
  KL'    sum over S of p ln(p / q) + r ln(r / s), taking all other tokens together as one
Taking outcomes together never raises KL (T. Cover and J. Thomas, Elements of Information Theory, 2nd edition, section
2.7), so KL' is a lower bound of the true one: it may raise an alarm, and its silence proves less than that of KL.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from capienza.errors import Message, template
from capienza.quality.answers import Answer, Answers
from capienza.quality.plan import Arm, QualityPlan

NEEDING = ("logprob", "kl", "same_top")
CHAT_TOP, BARE_TOP = 20, 5
"""Tokens asked for: the most that the protocol allows for chats, and for bare prompts."""
_LEAST = 1e-12

NO_LOGPROBS = template(
    "quality.server-without-logprobs",
    "{count} of {items} answers came without log-probabilities, which {metrics} need",
    "use a server that gives them (vLLM, llama.cpp), or hand them over with a command; without them the metric stays "
    "unknown",
)
LOWER_BOUND = template(
    "quality.kl-is-a-lower-bound",
    "{arm}: KL is taken over the likeliest tokens of the first place of each answer, which bounds it from below: it "
    "may raise an alarm, and its silence proves little",
)


def asked_for(plan: QualityPlan, *, is_chat: bool) -> dict[str, Any]:
    """What a question adds so that the server gives log-probabilities; nothing where no metric needs them."""
    if not any(metric.kind in NEEDING for metric in plan.metrics):
        return {}
    return {"logprobs": True, "top_logprobs": CHAT_TOP} if is_chat else {"logprobs": BARE_TOP}


def first_token(choice: Mapping[str, Any]) -> dict[str, float] | None:
    """The likeliest tokens at the first place of an answer; None where the server gives none.

    Read are `logprobs.content[0].top_logprobs` of chats, and `logprobs.top_logprobs[0]` of bare prompts.
    """
    given = choice.get("logprobs") or {}
    if content := given.get("content"):
        return {each["token"]: each["logprob"] for each in content[0].get("top_logprobs") or [content[0]]}
    tops = given.get("top_logprobs")
    return dict(tops[0]) if tops and tops[0] else None


def of_expected(top: Mapping[str, float] | None, expected: tuple[str, ...]) -> float | None:
    """The log-probability of an accepted answer of one token; None where it is not among the likeliest."""
    accepted = {text.strip() for text in expected}
    found = [value for token, value in (top or {}).items() if token.strip() in accepted]
    return max(found) if found else None


def distances(reference: Mapping[str, float], other: Mapping[str, float]) -> tuple[float, float]:
    """KL' from the reference, and 1 where both have the same likeliest token, else 0."""
    shared = reference.keys() & other.keys()
    pairs = [(math.exp(reference[token]), math.exp(other[token])) for token in shared]
    left = max(1 - math.fsum(p for p, _ in pairs), 0.0), max(1 - math.fsum(q for _, q in pairs), _LEAST)
    found = math.fsum(p * math.log(p / max(q, _LEAST)) for p, q in (*pairs, left) if p > 0)
    same = max(reference, key=reference.__getitem__) == max(other, key=other.__getitem__)
    return max(found, 0.0), float(same)


def with_distances(arms: Mapping[Arm, Answers]) -> dict[Arm, Answers]:
    """The arms, each answer with its distances from the reference's, where both have likeliest tokens."""
    ours = {item: answer.top for item, answer in arms["reference"].by_item.items() if answer.top}
    return {
        arm: _placed(arm, answers, ours) if ours and arm != "reference" else answers for arm, answers in arms.items()
    }


def _placed(arm: Arm, answers: Answers, ours: Mapping[str, Mapping[str, float]]) -> Answers:
    placed = {
        item: _with(answer, ours[item])
        for item, answer in answers.by_item.items()
        if answer.top and answer.kl is None and item in ours
    }
    if not placed:
        return answers
    return msgspec.structs.replace(
        answers, by_item=answers.by_item | placed, findings=(*answers.findings, LOWER_BOUND(arm=arm))
    )


def _with(answer: Answer, reference: Mapping[str, float]) -> Answer:
    kl, same_top = distances(reference, answer.top or {})
    return msgspec.structs.replace(answer, kl=kl, same_top=same_top)


def missing(plan: QualityPlan, answers: Answers) -> Message | None:
    """What is said where a metric needs log-probabilities and answers have none."""
    metrics = tuple(metric.name for metric in plan.metrics if metric.kind in NEEDING)
    without = sum(
        answer.top is None and answer.logprob is None and answer.kl is None
        for answer in answers.by_item.values()
        if answer.output is not None
    )
    if not metrics or not without:
        return None
    return NO_LOGPROBS(count=without, items=len(answers.by_item), metrics=metrics)
