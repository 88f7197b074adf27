"""Statements of a card that contradict each other, or that say nothing without another one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from capienza.card.model import TokenCount
from capienza.card.moments import Moment, end_of, start_of
from capienza.card.options import accepted_by, plain_name
from capienza.card.problems import shown
from capienza.card.quality_rules import quality_problems
from capienza.card.ranking import NOT_LAST, NOTHING_RANKED, PREFERENCES, TWICE, unit_problem
from capienza.card.training_spellings import refusal_of
from capienza.errors import Message, template
from capienza.yamlmarks import Node

MODEL_INCOMPLETE = template(
    "card.model-incomplete",
    "expected one of {accepted}",
    "Write id for a model on the Hub, path for local files, or parameters with bits.",
)
CONTRADICTION = template(
    "card.contradiction",
    "contradicts {other}, written on line {line}",
    "Keep one of the two.",
)
NEEDS = template("card.needs", "means nothing without {other}", "Add {other}, or delete this key.")
WRONG_TASK = template(
    "card.wrong-task",
    "belongs to task {accepted}, and the task is {found}",
    "Delete the key, or change the task.",
)
TOO_SHORT = template(
    "card.lengths-out-of-order",
    "{tokens} tokens, fewer than the {other_tokens} of {other}",
    "Lengths grow from short to usual to required.",
)
NO_ZONE = template(
    "card.date-without-time-zone",
    "the bare date {found} means nothing without calendar.timezone",
    "Add timezone: Europe/Rome, or yours, or write a date-time with its offset.",
)
DEADLINE_FIRST = template(
    "card.deadline-before-start",
    "the deadline {deadline} is not after the start {start}",
    "Correct the one that is wrong.",
)
TOO_FEW_GPUS = template(
    "card.too-few-gpus",
    "expected at least {product} GPUs for tensor_parallel x pipeline_parallel, got {gpus}",
    "Raise gpus, or divide the model less.",
)
OTHER_GPUS = template(
    "card.other-gpus",
    "one training run is divided over {product} GPUs (data_parallel x tensor_parallel x pipeline_parallel), and gpus "
    "is {gpus}",
    "Write the same number, or leave one of them out.",
)
UNEVEN_GPUS = template(
    "card.uneven-gpus",
    "expected a multiple of {product} GPUs for tensor_parallel x pipeline_parallel, got {gpus}",
    "Correct gpus, or divide the model otherwise.",
)
OPTION_VALUE = template(
    "card.option-value",
    "expected {accepted}, got {found}",
    "Correct it, or delete the option: no engine takes this value.",
)
NO_DURATION = template(
    "card.step-without-duration",
    "a step needs hours, work, or a record that states its hours",
    "Write hours: 30 with its basis; a guess is hypothetical.",
)
BELOW_BOUND = template(
    "card.step-below-its-bound",
    "{hours} hours, fewer than the {bound} of at_least",
    "Correct the one that is wrong: a lower bound holds whatever is tried.",
)
NEEDS_BASIS = template(
    "card.record-without-basis",
    "a record proves a measured or documented duration, and the basis is {found}",
    "Write basis: measured or basis: documented, or delete the record.",
)
METRIC_TWICE = template(
    "card.metric-twice", "the metric {found} is already listed on line {line}", "Keep one of the two."
)

MODEL_SOURCES = ("model.id", "model.path", "model.parameters")
"""Exactly one of these is written."""

STEP_SOURCES = ("calendar.steps.hours", "calendar.steps.work", "calendar.steps.record")
"""At least one of these is written in every step."""

NEEDED: dict[str, str] = {
    "model.bits": "model.parameters",
    "model.parameters": "model.bits",
}
"""A field, and the one without which it means nothing."""

ONLY_FOR: dict[str, str] = {
    "concurrency": "inference",
    "microbatch": "fine-tuning",
    "accumulation": "fine-tuning",
    "training": "fine-tuning",
}
"""A field, and the only task it belongs to."""

ENGINE_OPTIONS = "engine.options."
FREE_KEYS = (ENGINE_OPTIONS, "training.")
"""Where the keys are the program's own names, which may be spelt with dashes or underscores."""

_LENGTHS = ("tokens.short", "tokens.usual", "tokens.required")


class Found(msgspec.Struct, frozen=True):
    """What a card states: the node of every field that is written, and the value of every one that could be read."""

    nodes: dict[str, Node]
    values: dict[str, Any]


Problems = Iterator[tuple[str, Message]]
"""Paths and what is wrong there."""


def contradictions(found: Found) -> Problems:
    """Everything in a card that its other statements rule out."""
    yield from _one_model(found)
    yield from _needed(found)
    yield from _right_task(found)
    yield from _no_rank_of_nothing(found)
    yield from _growing_lengths(found)
    yield from _calendar(found)
    yield from _steps(found)
    yield from _enough_gpus(found)
    yield from _options(found)
    yield from _distinct_metrics(found)
    yield from quality_problems(found.values, _metric_names(found))
    yield from _ranking(found)


def _against(found: Found, path: str, other: str) -> tuple[str, Message]:
    return path, CONTRADICTION(other=other, line=found.nodes[other].key_line)


def _one_model(found: Found) -> Problems:
    written = [path for path in MODEL_SOURCES if path in found.nodes]
    if "model" in found.nodes and isinstance(found.nodes["model"].value, dict) and not written:
        yield "model", MODEL_INCOMPLETE(accepted=[path.removeprefix("model.") for path in MODEL_SOURCES])
    for path in written[1:]:
        yield _against(found, path, written[0])
    if "weights.format" in found.nodes and "model.bits" in found.nodes:
        yield _against(found, "weights.format", "model.bits")


def _needed(found: Found) -> Problems:
    for path, other in NEEDED.items():
        if path in found.nodes and other not in found.nodes:
            yield path, NEEDS(other=other)


def _right_task(found: Found) -> Problems:
    task = found.values.get("task")
    for path, accepted in ONLY_FOR.items():
        if path in found.nodes and task not in (None, accepted):
            yield path, WRONG_TASK(accepted=accepted, found=task)


def _no_rank_of_nothing(found: Found) -> Problems:
    if found.values.get("training.method") == "full" and "training.rank" in found.nodes:
        yield _against(found, "training.rank", "training.method")


def _tokens(found: Found, path: str) -> int | None:
    whole = found.values.get(path)
    if isinstance(whole, TokenCount):
        return whole.total
    prompt, output = (found.values.get(f"{path}.{part}") for part in ("prompt", "output"))
    return None if prompt is None or output is None else int(prompt + output)


def _growing_lengths(found: Found) -> Problems:
    stated = [(path, tokens) for path in _LENGTHS if (tokens := _tokens(found, path)) is not None]
    for (other, other_tokens), (path, tokens) in itertools.pairwise(stated):
        if tokens < other_tokens:
            yield path, TOO_SHORT(tokens=tokens, other=other, other_tokens=other_tokens)


def _calendar(found: Found) -> Problems:
    zone = found.values.get("calendar.timezone")
    moments: Mapping[str, Moment] = {
        path: found.values[path] for path in ("calendar.start", "calendar.deadline") if path in found.values
    }
    bare = [path for path, moment in moments.items() if not hasattr(moment, "hour")]
    if bare and zone is None:
        if "calendar.timezone" not in found.nodes:
            for path in bare:
                yield path, NO_ZONE(found=str(moments[path]))
    elif len(moments) == 2:
        start = start_of(moments["calendar.start"], zone)
        deadline = end_of(moments["calendar.deadline"], zone)
        if deadline <= start:
            yield "calendar.deadline", DEADLINE_FIRST(deadline=deadline.isoformat(), start=start.isoformat())


def _steps(found: Found) -> Problems:
    steps = found.nodes.get("calendar.steps")
    for index, step in enumerate(steps.value if steps and isinstance(steps.value, list) else ()):
        path = f"calendar.steps[{index}]"
        if not isinstance(step.value, dict):
            continue
        if not any(source.rpartition(".")[2] in step.value for source in STEP_SOURCES):
            name = f"{path}.name"
            yield (name if name in found.nodes else "calendar.steps"), NO_DURATION()
        hours, bound = (found.values.get(f"{path}.{key}") for key in ("hours", "at_least.hours"))
        if hours is not None and bound is not None and hours < bound:
            yield f"{path}.hours", BELOW_BOUND(hours=f"{hours:f}", bound=f"{bound:f}")
        basis = found.values.get(f"{path}.basis", "hypothetical")
        if f"{path}.record" in found.nodes and f"{path}.work" not in found.nodes and basis == "hypothetical":
            yield f"{path}.record", NEEDS_BASIS(found=basis)
        if f"{path}.work" in found.nodes and basis == "documented":
            yield _against(found, f"{path}.basis", f"{path}.work")


def _enough_gpus(found: Found) -> Problems:
    gpus = found.values.get("placement.gpus")
    product = math.prod(found.values.get(f"placement.{name}", 1) for name in ("tensor_parallel", "pipeline_parallel"))
    if gpus is not None and product > gpus:
        yield "placement.gpus", TOO_FEW_GPUS(product=product, gpus=gpus)
    elif gpus is not None and gpus % product:
        yield "placement.gpus", UNEVEN_GPUS(product=product, gpus=gpus)
    copies = found.values.get("placement.data_parallel", 1)
    if found.values.get("task") == "fine-tuning" and gpus not in (None, 1) and copies > 1 and gpus != product * copies:
        yield "placement.gpus", OTHER_GPUS(product=product * copies, gpus=gpus)


def _options(found: Found) -> Problems:
    """Free options: none twice in two spellings, and no known one with a value that no engine takes."""
    first: dict[str, str] = {}
    for path in found.nodes:
        start = next((start for start in FREE_KEYS if path.startswith(start)), None)
        if start is None:
            continue
        option = path.removeprefix(start)
        other = first.setdefault(start + plain_name(option), path)
        if other != path:
            yield _against(found, path, other)
        accepted = accepted_by(option) if start == ENGINE_OPTIONS else None
        if accepted and path in found.values and not accepted.takes(found.values[path]):
            yield path, OPTION_VALUE(accepted=accepted.text, found=shown(found.nodes[path].value))
        if start != ENGINE_OPTIONS and path in found.values:
            refusal = refusal_of(option, found.values[path])
            if refusal is not None:
                yield path, refusal


def _metric_names(found: Found) -> Iterator[str]:
    return (path for path in found.values if path.startswith("quality.metrics[") and path.endswith("].name"))


def _distinct_metrics(found: Found) -> Problems:
    first: dict[str, str] = {}
    for path in _metric_names(found):
        name = found.values[path]
        if name in first:
            yield path, METRIC_TWICE(found=name, line=found.nodes[first[name]].line)
        first.setdefault(name, path)


def _ranking(found: Found) -> Problems:
    """Each figure once, with a threshold of its own unit, and preferences last."""
    node = found.nodes.get("ranking")
    if node is None or not isinstance(node.value, list):
        return
    if not node.value:
        yield "ranking", NOTHING_RANKED()
    first: dict[str, str] = {}
    for index in range(len(node.value)):
        path = f"ranking[{index}]"
        by, within = found.values.get(f"{path}.by"), found.values.get(f"{path}.within")
        if by is None:
            continue
        if by in first:
            yield f"{path}.by", TWICE(found=by, line=found.nodes[first[by]].line)
        first.setdefault(by, f"{path}.by")
        if within is not None:
            problem = unit_problem(by, within, found.nodes[f"{path}.within"].value)
            if problem:
                yield f"{path}.within", problem
        if by == PREFERENCES and index + 1 < len(node.value):
            yield f"{path}.by", NOT_LAST()
