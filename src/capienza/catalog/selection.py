"""Which rules speak of a combination: those read at its release, else those of the nearest one.

Of each thing that the rules of some software speak of, those read at the release in use are taken. Where none was,
those of the last release read before it are, else of the first after it (of the newest, where the release is unknown).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from capienza.catalog.capability import GpuTraits
from capienza.catalog.release import Release, build_of, parse_release
from capienza.catalog.rules import Rule, pinned

HOST = "host"
WEIGHTS = "weights:"
ANY_WEIGHTS = "weights:any"
"""The subject of a rule that lists formats of weights."""
Span = tuple[Release, Release]


class Combination(msgspec.Struct, frozen=True, kw_only=True):
    """An engine, its release, and what it is asked to run. `subjects` as rules name them; `version` as written.

    `packages` are versions known besides those that the engine's release brings: read in an environment, or of a host.
    """

    engine: str
    version: str | None = None
    release: Release | None = None
    subjects: frozenset[str] = frozenset()
    packages: tuple[tuple[str, str], ...] = ()

    @property
    def known_packages(self) -> dict[str, str]:
        """What is known to be there, with versions; what was read outweighs what the engine's release brings."""
        return pinned(self.engine, self.release) | dict(self.packages)


def chosen(combination: Combination, gpu: GpuTraits, rules: Iterable[Rule]) -> list[tuple[Rule, bool]]:
    """The rules that apply, in their order, each with whether it was read at the release in use."""
    packages = combination.known_packages
    applying = [rule for rule in rules if rule.concerns(combination.engine) and _applies(rule, gpu, packages)]
    groups: dict[tuple[str, str], list[Rule]] = {}
    for rule in applying:
        for subject in combination.subjects.intersection(rule.subjects):
            groups.setdefault((rule.software, _thing(rule, subject)), []).append(rule)
    in_use = {
        software: combination.release if software == combination.engine else parse_release(packages.get(software))
        for software, _ in groups
    }
    read = {key: [rule for rule in group if rule.covers(in_use[key[0]])] for key, group in groups.items()}
    taken: dict[str, bool] = {}
    for key, group in groups.items():
        if not read[key] and _is_outweighed(key, read):
            continue
        for rule in read[key] or _nearest(group, in_use[key[0]]):
            taken[rule.id] = taken.get(rule.id, False) or bool(read[key])
    return [(rule, taken[rule.id]) for rule in applying if rule.id in taken]


def _thing(rule: Rule, subject: str) -> str:
    """What a rule speaks of; of a server, each property, and what is needed of it apart from what is better."""
    return f"{subject}/{rule.package}/{rule.violation}" if subject == HOST else subject


def _is_outweighed(key: tuple[str, str], read: Mapping[tuple[str, str], list[Rule]]) -> bool:
    """A list of all formats that was read at this release says more than another release on one format; and back."""
    software, subject = key
    if subject == ANY_WEIGHTS:
        return any(rules for (name, one), rules in read.items() if name == software and one.startswith(WEIGHTS))
    return subject.startswith(WEIGHTS) and bool(read.get((software, ANY_WEIGHTS)))


def _applies(rule: Rule, gpu: GpuTraits, packages: Mapping[str, str]) -> bool:
    if rule.vendor not in ("", gpu.vendor):
        return False
    if rule.package and rule.gfx and gpu.gfx not in rule.gfx:
        return False
    if HOST in rule.subjects and rule.package not in packages:
        return False
    built = build_of(packages.get(rule.software))
    return not (rule.build and built and rule.build != built)


def _nearest(group: list[Rule], release: Release | None) -> list[Rule]:
    spans = sorted({_span(rule) for rule in group})
    before = [span for span in spans if release is None or span[0] < release]
    nearest = before[-1] if before else spans[0]
    return [rule for rule in group if _span(rule) == nearest]


def _span(rule: Rule) -> Span:
    return rule.last or (), rule.first or ()
