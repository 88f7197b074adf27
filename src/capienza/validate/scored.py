"""One predicted quantity beside what was measured, or the reason why the two are not compared."""

from __future__ import annotations

from typing import Literal

import msgspec

Status = Literal["scored", "skipped", "flagged"]
Word = Literal["overflow", "borderline", "fit"]


class Scored(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes for memory, counts for tokens and blocks, a factor for the concurrency.

    `skipped`: the case does not state what the prediction needs. `flagged`: the case is odd, or its model is not
    certain; the figures stand for reading, and enter no error. `word` is the prediction where the case died of memory.
    `rounding` is how far a logged figure may lie from the true one. `is_assumed`: the case does not state a setting
    that drives the figure, so the engine's default was taken; it stands behind the ceilings of such cases alone.
    `kind` is what its ceiling is calibrated with, where that is not the name of the quantity. Of a training,
    `fixed` is what of the expected figure is known to the byte, `family` whose runs the case is one of, `elsewhere` its
    ceiling from other families' cases alone, `kernels` whose code ran, and `is_uncompared` says that it was compared
    with no trace.
    `parts` are the named figures that leave a total open, where the rest of it is fixed by the engine's budget.
    """

    id: str
    file: str = ""
    quantity: str
    engine: str
    arch: str
    weight_format: str
    model: str
    floor: float | None = None
    expected: float | None = None
    ceiling: float | None = None
    measured: float | str | None = None
    rounding: float = 0
    status: Status
    reason: str = ""
    word: Word | None = None
    is_assumed: bool = False
    kind: str = ""
    fixed: float = 0.0
    family: str = ""
    kernels: str = ""
    elsewhere: float | None = None
    is_uncompared: bool = False
    parts: tuple[tuple[str, float], ...] = ()

    @property
    def name(self) -> str:
        """The quantity without the device it is on."""
        return self.quantity.partition("@")[0]

    @property
    def method(self) -> str:
        """Of a training: full, lora, qlora, ...; else empty."""
        return self.kind.rpartition(".")[2] if self.kind.count(".") > 1 else ""

    @property
    def calibrated_by(self) -> tuple[str, str]:
        """The engine and the quantity whose cases stand behind the ceiling."""
        return self.engine, self.kind or self.name

    @property
    def error(self) -> float | None:
        """Relative error of the expected figure, of flagged cases too; None where nothing is compared."""
        if self.expected is None or not isinstance(self.measured, int | float):
            return None
        return (self.expected - self.measured) / self.measured if self.measured else None

    @property
    def is_covered(self) -> bool | None:
        """Does the measured figure lie in the range, as far as it was logged? None where nothing is compared."""
        return self._is_below(self.ceiling)

    @property
    def is_covered_elsewhere(self) -> bool | None:
        """The same with the ceiling from other families' cases."""
        return self._is_below(self.elsewhere)

    def _is_below(self, ceiling: float | None) -> bool | None:
        if self.status != "scored" or ceiling is None or not isinstance(self.measured, int | float):
            return None
        return (self.floor or 0) - self.rounding <= self.measured <= ceiling + self.rounding
