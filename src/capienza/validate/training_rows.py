"""A measured training against the prediction, reading by reading; a run that died against the card's capacity.

Legend of the quantities: training.KIND.TIER with the kinds of `training_figures` and the case's tier; training.oom is
the word for a run that died for want of memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from capienza.errors import InputError, Message
from capienza.predict.calibration import shipped
from capienza.predict.training.groups import behind, counter_of
from capienza.predict.training.trained import num_trained, trained_tensors
from capienza.recipe.recipe import Recipe
from capienza.validate import training_reasons as reasons
from capienza.validate.row_capacity import Capacity, row_capacity
from capienza.validate.scored import Scored, Word
from capienza.validate.training_figures import Figures, figures
from capienza.validate.training_model import training_model
from capienza.validate.training_readings import readings
from capienza.validate.training_recipe import training_recipe
from capienza.validate.training_words import lora_of, number, text

Row = Mapping[str, Any]
NEARLY_FULL = 0.9
HALF = 0.5
WITHOUT_LENGTH = ("allocated_loaded", "allocated_adapted", "reserved_loaded", "device_loaded", "device_context")
WITHOUT_PASS = (*WITHOUT_LENGTH, "allocated_after", "allocated_stepped")
"""Kinds that hold nothing of a pass: whose kernels ran says nothing of them."""
ABOVE_WEIGHTS = ("allocated_peak",)
"""Kinds whose errors grow with what lies above the weights (decision 0016)."""
LIKE = {"reserved_first": "reserved_peak"} | dict.fromkeys(
    ("allocated_loaded", "allocated_adapted", "allocated_stepped"), "allocated_after"
)
"""Kinds that are calibrated with another one of their counter; the three of `dict` hold nothing of a pass either."""
TRAINED_TOLERANCE = 0.02
_COUNT = re.compile(r"^\s*\d+\s*x\s+", re.IGNORECASE)
_READ_TOTAL = re.compile(r"\(([\d.]+) GB\)")


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A case as far as it was read. `problem` says why nothing is predicted."""

    row: dict[str, Any]
    family: str = "?"
    recipe: Recipe | None = None
    found: Figures | None = None
    problem: Message | None = None


def training_row(row: Row) -> Iterator[Scored]:
    """One entry for each reading of the case, or one that says why it is left out."""
    case = read_case(row)
    if text(row.get("outcome")) == "oom":
        yield _oom(case)
        return
    count = 0
    for kind, measured, against in readings(row):
        count += 1
        yield _scored(case, kind, measured, against)
    if not count:
        yield _entry(case, "none", None, case.problem or reasons.NO_SUCH_FIGURE(kind="-"))


def read_case(row: Row) -> Case:
    """Never raises: what is not understood is the case's `problem`."""
    case = Case(row=dict(row))
    try:
        model = training_model(row)
        case = msgspec.structs.replace(case, family=model.family)
        recipe = training_recipe(row, model.family)
        case = msgspec.structs.replace(case, recipe=recipe)
        _check_trained(row, num_trained(trained_tensors(model.architecture, recipe)))
        found = figures(model.architecture, recipe, gpu_name(row))
        return msgspec.structs.replace(case, found=found)
    except InputError as error:
        return msgspec.structs.replace(case, problem=error.message)
    except (ValueError, LookupError, AssertionError) as error:
        return msgspec.structs.replace(case, problem=reasons.STOPPED(what=f"{type(error).__name__} {error}"[:120]))


def _check_trained(row: Row, found: int) -> None:
    """Raises `InputError` where a case says that another number of parameters is trained: its adapters are others."""
    stated = lora_of(row).get("trainable_params")
    if not isinstance(stated, int | float) or isinstance(stated, bool) or stated <= 0:
        return
    if abs(found - stated) > TRAINED_TOLERANCE * stated:
        raise InputError(reasons.OTHER_ADAPTERS(found=found, stated=int(min(stated, 10**15))))


def family_of(row: Row) -> str:
    """Whose runs the case is one of: the repository that published it, without the commit."""
    return re.split(r"[@#\s]", str(row.get("source") or row.get("framework") or "?").strip(), maxsplit=1)[0][:80]


def gpu_name(row: Row) -> str:
    """The card's name without how many there are."""
    return re.sub(r"\([^)]*\)", "", _COUNT.sub("", str(row.get("gpu") or ""))).strip()


def capacity_of(row: Row) -> Capacity | None:
    """What the card holds: as the case read it, or by the catalogue."""
    read = _READ_TOTAL.search(str(row.get("gpu") or ""))
    if read and 0 < float(read[1][:12]) < 10_000:
        return Capacity(int(float(read[1][:12]) * 2**30))
    return row_capacity({"gpu": gpu_name(row), "measured": {}})


def _scored(case: Case, kind: str, measured: float | None, against: Message | None) -> Scored:
    entry = _entry(case, kind, measured, against or case.problem)
    if against is not None or case.problem is not None or case.found is None:
        return entry
    recipe = case.recipe
    assumed = {one.field for one in recipe.origins} if recipe is not None else set()
    if kind not in WITHOUT_LENGTH and not (kind == "allocated_after" and "microbatch" not in assumed):
        if "tokens" in assumed:
            return msgspec.structs.replace(entry, reason=str(reasons.NO_LENGTH()))
        if "microbatch" in assumed:
            return msgspec.structs.replace(entry, reason=str(reasons.NO_MICROBATCH()))
    expected = case.found.bytes_by_kind.get(kind)
    if expected is None:
        why = reasons.NOT_COVERED(why=case.found.missing) if case.found.missing else None
        return msgspec.structs.replace(entry, reason=str(why or reasons.NO_SUCH_FIGURE(kind=kind)))
    filled = msgspec.structs.replace(
        entry,
        floor=case.found.floors.get(kind, 0.0),
        expected=expected,
        ceiling=expected,
        is_assumed=bool(assumed),
        fixed=min(case.found.weights_bytes, expected) if kind in ABOVE_WEIGHTS else 0.0,
        is_uncompared=not case.found.is_compared and kind not in WITHOUT_PASS,
    )
    odd = _odd(case.row, kind, measured)
    if odd is not None:
        return msgspec.structs.replace(filled, status="flagged", reason=str(odd))
    return msgspec.structs.replace(filled, status="scored", reason="")


def _odd(row: Row, kind: str, measured: float | None) -> Message | None:
    """Why a figure stands for reading alone."""
    notes = text(row.get("notes"))
    if "suspicious" in notes or "suspect" in notes or "reference cycles" in notes:
        return reasons.SUSPICIOUS()
    completeness = number(row.get("completeness"))
    if completeness is not None and completeness < HALF:
        return reasons.UNDER_HALF(completeness=completeness)
    if kind == "device_peak" and measured is not None:
        capacity = capacity_of(row)
        if capacity is not None and measured >= NEARLY_FULL * capacity.total_bytes:
            return reasons.NEAR_THE_CARD(share=round(100 * measured / capacity.total_bytes))
    return None


def _oom(case: Case) -> Scored:
    entry = _entry(case, "oom", "oom", case.problem)
    capacity = capacity_of(case.row)
    if case.found is None or case.problem is not None:
        return entry
    allocated = case.found.bytes_by_kind.get("allocated_peak")
    if allocated is None or capacity is None:
        why = reasons.NOT_COVERED(why=case.found.missing) if case.found.missing else reasons.NO_LENGTH()
        return msgspec.structs.replace(entry, reason=str(why))
    context = case.found.bytes_by_kind.get("device_context", 0.0)
    word: Word = "borderline"
    if allocated + context > capacity.total_bytes:
        word = "overflow"
    elif _most_bytes(case, entry, context) <= capacity.total_bytes:
        word = "fit"
    return msgspec.structs.replace(entry, status="scored", reason="", word=word)


def _most_bytes(case: Case, entry: Scored, context: float) -> float:
    """The largest of the ceilings that a run on the device has, from cases of other models."""
    found, most = case.found, 0.0
    for kind, beside in (("allocated_peak", context), ("reserved_peak", context), ("device_peak", 0.0)):
        expected = found.bytes_by_kind.get(kind) if found else None
        if found and expected is not None:
            factor = behind(
                shipped(),
                entry.engine,
                entry.kind.replace("oom", _calibrated_with(kind, case.recipe)),
                kernels=entry.kernels,
                is_assumed=not found.is_compared,
                without_model=entry.model,
            )
            fixed = min(found.weights_bytes, expected) if kind in ABOVE_WEIGHTS else 0.0
            most = max(most, beside + expected + (factor.value - 1) * (expected - fixed))
    return most


def _entry(case: Case, kind: str, measured: float | str | None, reason: Message | None) -> Scored:
    row, recipe = case.row, case.recipe
    quantity = "training.oom" if kind == "oom" else f"training.{kind}.{text(row.get('tier')) or 'unrated'}"
    return Scored(
        id=str(row.get("id"))[:200],
        quantity=quantity,
        engine=recipe.framework if recipe is not None else str(row.get("framework") or "?")[:60],
        arch=case.family,
        weight_format=(recipe.precision.quantised or recipe.precision.base) if recipe is not None else "?",
        model=str(row.get("model") or "?")[:120],
        measured=measured,
        status="skipped",
        reason=str(reason or ""),
        kind=f"training.{_calibrated_with(kind, recipe)}.{recipe.method if recipe is not None else '?'}",
        family=family_of(row),
        kernels=recipe.kernels if recipe is not None else "",
    )


def _calibrated_with(kind: str, recipe: Recipe | None) -> str:
    like = LIKE.get(kind, kind)
    return like if recipe is None else counter_of(like, recipe)
