"""A whole validation: every row predicted, ceilings calibrated without the row's own model, groups summarised."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from capienza.predict.calibration import Calibration, Kind, Ratio, shipped
from capienza.predict.training.groups import behind
from capienza.validate.cases import scored_rows
from capienza.validate.groups import By, Group, groups
from capienza.validate.scored import Scored

UNSTATED = ".unstated"
"""What the kind of a figure ends in when the case does not state the setting that drives it."""


class Validation(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `validate`."""

    rows: tuple[Scored, ...]
    groups: tuple[Group, ...]
    by: tuple[By, ...] = ()


def validate_files(files: Sequence[str], by: Sequence[By] = ()) -> Validation:
    """Predict every case of the files. Raises `InputError` for a file that cannot be read."""
    calibration = shipped()
    rows = tuple(calibrated(row, calibration) for row in scored_rows(files))
    return Validation(rows=rows, groups=groups(rows, by), by=tuple(by))


def calibrated(row: Scored, calibration: Calibration) -> Scored:
    """The row with its ceiling, from cases of other models; an exact figure is its own ceiling."""
    if row.expected is None or row.floor == row.expected:
        return row
    if row.parts:
        added = sum(part * (calibration.factor(row.engine, name, row.model).value - 1) for name, part in row.parts)
        return msgspec.structs.replace(row, ceiling=row.expected + added)
    if row.kind:
        return msgspec.structs.replace(
            row,
            ceiling=training_ceiling(row, row.expected, calibration, without_model=row.model),
            elsewhere=training_ceiling(row, row.expected, calibration, without_family=row.family),
        )
    engine, name = row.calibrated_by
    kind = name + UNSTATED if row.is_assumed else name
    factor = calibration.factor(engine, kind, without=row.model)
    return msgspec.structs.replace(row, ceiling=row.expected * factor.value)


def training_ceiling(
    row: Scored, expected: float, calibration: Calibration, *, without_model: str = "", without_family: str = ""
) -> float:
    """The ceiling of a training's figure from the cases of other models, or of other families."""
    factor = behind(
        calibration,
        row.engine,
        row.kind,
        kernels=row.kernels,
        is_assumed=row.is_uncompared,
        without_model=without_model,
        without_family=without_family,
    ).value
    return expected + (expected - row.fixed) * (factor - 1)


def calibration_of(rows: Sequence[Scored], sources: dict[str, str]) -> Calibration:
    """The calibration that scored rows give; exact figures need none.

    A row that does not state what drives its figure stands behind the ceilings of such rows alone.
    """
    found: dict[tuple[str, str, str, str], list[Ratio]] = {}
    has_unstated = {row.calibrated_by for row in rows if row.is_assumed and not row.kind}
    for row in rows:
        if row.status != "scored" or row.error is None or not row.expected or row.floor == row.expected or row.parts:
            continue
        if row.expected <= row.fixed:
            continue
        off = (float(row.measured or 0) - row.fixed) / (row.expected - row.fixed)
        ratio = Ratio(row.model, round(off, 6))
        engine, name = row.calibrated_by
        if row.kind or not row.is_assumed:
            found.setdefault((engine, name, row.family, row.kernels), []).append(ratio)
        if (engine, name) in has_unstated:
            found.setdefault((engine, name + UNSTATED, row.family, row.kernels), []).append(ratio)
    return Calibration(
        sources=dict(sorted(sources.items())),
        kinds=tuple(
            Kind(engine=engine, quantity=quantity, family=family, kernels=kernels, ratios=tuple(sorted(ratios)))
            for (engine, quantity, family, kernels), ratios in sorted(found.items())
        ),
    )
