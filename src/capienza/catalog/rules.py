"""Rules of compatibility as data: what an engine, a library or a host needs of a GPU, and what happens otherwise.

One row of `data/rules.csv` is one rule, read in one place at one release; `data/vllm_quant_hw.csv` holds vLLM's own
tables of documented hardware. A condition that a row leaves empty is not asked. The kinds of violation:
    refused          the engine does not start
    no_kernel        it starts, and its built code has nothing for the chip
    slower           another kernel or format of the same size is taken
    silently_larger  the weights are held in a larger format: `becomes`, about `factor` times the bytes
"""

from __future__ import annotations

import datetime
import functools
from typing import Literal, cast

import msgspec

from capienza.canon import digest
from capienza.catalog.capability import Capability, parse_capability
from capienza.catalog.devices import Row, table
from capienza.catalog.release import Release, is_within, parse_release

Violation = Literal["refused", "no_kernel", "slower", "silently_larger"]
READ_ON = "2026-11-30"
NONE_OF_VENDOR = "-"
"""As the only gfx name of a rule: no GPU of that vendor."""


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule. It holds from release `first` to `last` of `software`; without them, whatever the release.

    `engines` load that software besides itself. `subjects` are what it speaks of ("weights:awq", "kv:fp8", "start",
    "host"). `minimum`, `maximum`, `families`, `architectures`, `gfx` and `allowed` (kinds of weights) are all needed;
    `refused_on` lists capabilities that a table documents as not supported among those that it has columns for
    (`documented`). With `package` some package, driver or property of the host must be there, at least at `needs`.
    `classes`: of other product classes the violation is not established.
    """

    id: str
    software: str
    source: str
    violation: Violation
    engines: tuple[str, ...] = ()
    first: Release | None = None
    last: Release | None = None
    subjects: tuple[str, ...] = ()
    vendor: str = ""
    minimum: Capability | None = None
    maximum: Capability | None = None
    families: tuple[str, ...] = ()
    documented: tuple[str, ...] = ()
    refused_on: tuple[str, ...] = ()
    architectures: tuple[str, ...] = ()
    build: str = ""
    gfx: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    package: str = ""
    needs: str = ""
    allowed: tuple[str, ...] = ()
    becomes: str = ""
    factor: int = 1
    date: str = READ_ON
    note: str = ""

    @property
    def releases(self) -> str:
        """The releases that it was read at, as people write them; empty when it has none."""
        if self.first is None or self.last is None:
            return ""
        first, last = (".".join(map(str, release)) for release in (self.first, self.last))
        return first if first == last else f"{first} .. {last}"

    @property
    def read_on(self) -> datetime.datetime:
        """When it was read."""
        return datetime.datetime.fromisoformat(self.date).replace(tzinfo=datetime.UTC)

    @property
    def sha256(self) -> str:
        """The digest of the row."""
        return _digest(self)

    def covers(self, release: Release | None) -> bool:
        """Was it read at this release? One without releases was."""
        if self.first is None or self.last is None:
            return True
        return release is not None and is_within(release, self.first, self.last)

    def concerns(self, engine: str) -> bool:
        """Does it speak of what this engine runs?"""
        return engine == self.software or engine in self.engines


class Pin(msgspec.Struct, frozen=True, kw_only=True):
    """What a release of an engine brings along."""

    engine: str
    first: Release
    last: Release
    package: str
    version: str
    source: str


@functools.cache
def load_rules() -> tuple[Rule, ...]:
    """Every rule that ships with the package. Read once for each process."""
    from capienza.catalog.driver_table import driver_rules
    from capienza.catalog.hardware_tables import documented_rules

    return (*(_rule(row) for row in table("rules.csv")), *documented_rules(), *driver_rules())


@functools.cache
def enlarging_rules() -> tuple[Rule, ...]:
    """Those under which weights are held in a larger format."""
    return tuple(rule for rule in load_rules() if rule.violation == "silently_larger")


@functools.cache
def load_pins() -> tuple[Pin, ...]:
    """What releases of engines bring along."""
    return tuple(
        Pin(
            engine=row["engine"],
            first=parse_release(row["first"]) or (),
            last=parse_release(row["last"]) or (),
            package=row["package"],
            version=row["version"],
            source=row["source"],
        )
        for row in table("engine_pins.csv")
    )


def pinned(engine: str, release: Release | None) -> dict[str, str]:
    """The packages that this release of an engine is known to bring, with their versions."""
    if release is None:
        return {}
    return {
        pin.package: pin.version
        for pin in load_pins()
        if pin.engine == engine and is_within(release, pin.first, pin.last)
    }


def _rule(row: Row) -> Rule:
    return Rule(
        id=row["id"],
        software=row["software"],
        source=row["source"],
        violation=cast("Violation", row["violation"]),
        engines=_words(row["engines"]),
        first=parse_release(row["first"]),
        last=parse_release(row["last"]),
        subjects=_words(row["subjects"]),
        vendor=row["vendor"],
        minimum=parse_capability(row["min"]),
        maximum=parse_capability(row["max"]),
        families=_words(row["families"]),
        architectures=_words(row["architectures"]),
        build=row["build"],
        gfx=_words(row["gfx"]),
        classes=_words(row["classes"]),
        package=row["package"],
        needs=row["needs"],
        allowed=_words(row["allowed"]),
        becomes=row["becomes"],
        factor=int(row["factor"] or 1),
        date=row["date"],
        note=row["note"],
    )


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split(";")) if text else ()


@functools.cache
def _digest(rule: Rule) -> str:
    return digest(rule)
