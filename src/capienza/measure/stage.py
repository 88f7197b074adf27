"""A stage of a card beside what was executed: what falls short, and what a record may therefore say it covered.

Legend: a stage asks for tokens of one sequence (prompt and output, or their sum), sequences at once or a microbatch. A
record of a run that completed states what was executed, never more; one that ran out of memory states what was tried.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from capienza.card.model import Card, TokenCount
from capienza.errors import Message, phrase, template
from capienza.measure.usage import Executed

Name = Literal["short", "usual", "required"]
NAMES: tuple[Name, ...] = ("short", "usual", "required")

NOT_STATED = template(
    "measure.stage-not-stated",
    "the card does not state tokens.{stage}",
    "write it in the card: a stage is a length that the card asks for",
)
SHORTER = template(
    "measure.shorter",
    "{what}: {executed} were executed, stage {stage} asks for {wanted}: the stage does not cover the load",
    "repeat the run at the length that is asked for",
)
FEWER = template(
    "measure.fewer-at-once",
    "{executed} at once were executed, the card asks for {wanted}: the stage does not cover the load",
    "repeat the run with as many at once",
)
CUT = template(
    "measure.load-cut",
    "{truncated} inputs truncated, {dropped} samples dropped: the stage does not cover the load",
    "find out why; a cut load is another load",
)
NOT_TOLD = template(
    "measure.dimension-not-told",
    "nothing tells of the run: {what}; what is not told covers nothing",
    "let the engine print its usage, or write usage.jsonl into the run's folder: how-to, measure",
)
WORDS = {
    "tokens": phrase("the tokens of a sequence"),
    "prompt": phrase("the prompt"),
    "output": phrase("the answer"),
    "concurrency": phrase("how many sequences at once"),
    "microbatch": phrase("the microbatch"),
    "truncated": phrase("whether inputs were truncated"),
    "dropped": phrase("whether samples were dropped"),
}


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """What a stage asks for."""

    name: Name
    tokens: TokenCount
    concurrency: int | None = None
    microbatch: int | None = None


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """What a record may state: tokens and sequences; `is_covered` None when something was not told."""

    tokens: int | None
    concurrency: int | None
    microbatch: int | None
    is_covered: bool | None
    findings: tuple[Message, ...] = ()


def stage_of(card: Card, name: Name) -> Stage | Message:
    """The stage of that name, or that the card does not state it."""
    tokens = getattr(card.tokens, name)
    if tokens is None:
        return NOT_STATED(stage=name)
    is_training = card.task == "fine-tuning"
    return Stage(
        name=name,
        tokens=tokens,
        concurrency=None if is_training else card.concurrency,
        microbatch=card.microbatch if is_training else None,
    )


def coverage(stage: Stage, executed: Executed) -> Coverage:
    """What of the stage was executed."""
    findings: list[Message] = []
    unknown: list[str] = []
    tokens = executed.tokens
    if tokens is None:
        unknown.append("tokens")
    else:
        short = _short(stage, executed, findings)
        tokens = tokens if not short else min(tokens, stage.tokens.total - short)
    for name, wanted in (("concurrency", stage.concurrency), ("microbatch", stage.microbatch)):
        found = getattr(executed, name)
        if wanted is not None and found is None:
            unknown.append(name)
        elif wanted is not None and found < wanted:
            findings.append(FEWER(executed=found, wanted=wanted))
    if executed.truncated or executed.dropped:
        findings.append(CUT(truncated=executed.truncated or 0, dropped=executed.dropped or 0))
    unknown += [name for name in ("truncated", "dropped") if getattr(executed, name) is None]
    not_told = [NOT_TOLD(what=[WORDS[name] for name in unknown])] if unknown else []
    return Coverage(
        tokens=tokens if tokens is None or tokens > 0 else None,
        concurrency=executed.concurrency,
        microbatch=executed.microbatch,
        is_covered=False if findings else None if unknown else True,
        findings=(*findings, *not_told),
    )


def tried(stage: Stage, executed: Executed) -> Coverage:
    """What a run that ended early was about: the stage's load, or what is known to be more."""
    return Coverage(
        tokens=max(stage.tokens.total, executed.tokens or 0),
        concurrency=_most(stage.concurrency, executed.concurrency),
        microbatch=_most(stage.microbatch, executed.microbatch),
        is_covered=False,
    )


def _short(stage: Stage, executed: Executed, findings: list[Message]) -> int:
    """Tokens that are missing, each part by itself: a longer prompt does not make up for a shorter answer.

    A sample of a training is one piece; where a part is not told, the whole is compared.
    """
    wanted = stage.tokens
    parts = (("prompt", wanted.prompt, executed.prompt), ("output", wanted.output, executed.output))
    is_whole = stage.microbatch is not None or any(None in part for part in parts)
    missing = 0
    for what, asked, found in (("tokens", wanted.total, executed.tokens),) if is_whole else parts:
        if asked is not None and found is not None and found < asked:
            missing += asked - found
            findings.append(SHORTER(what=WORDS[what], executed=found, wanted=asked, stage=stage.name))
    return missing


def _most(one: int | None, other: int | None) -> int | None:
    return max((figure for figure in (one, other) if figure is not None), default=None)
