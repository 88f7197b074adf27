"""Rules of the catalogue as findings: what they say of each GPU, with the row itself as evidence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from capienza.catalog.capability import GpuTraits
from capienza.catalog.outcome import Outcome, outcomes
from capienza.catalog.rule_texts import NOT_READ
from capienza.catalog.rules import Rule
from capienza.catalog.selection import Combination
from capienza.decide.case import RuleFinding
from capienza.decide.verdict import EvidenceRef
from capienza.truth import Truth


def rule_findings(combination: Combination, traits: Mapping[str, GpuTraits]) -> tuple[RuleFinding, ...]:
    """What the rules say of each GPU that the name may mean, by the names of the needs."""
    return tuple(
        finding for name, gpu in traits.items() for finding in _of_gpu(combination, name, outcomes(combination, gpu))
    )


def cite_rule(rule: Rule) -> EvidenceRef:
    """A rule as evidence: its id, the releases it was read at, what it speaks of, the digest of its row."""
    speaks_of = (("software", rule.software), ("subjects", ";".join(rule.subjects)), ("source", rule.source))
    return EvidenceRef(
        id=f"rule {rule.id}",
        version=rule.releases or None,
        scope=", ".join(f"{name}={value}" for name, value in speaks_of),
        sha256=rule.sha256,
        date=rule.read_on,
    )


def unread_releases(combination: Combination, found: tuple[Outcome, ...]) -> tuple[str, ...]:
    """The releases of the engine whose rules stand in for those of this one, and are met."""
    rules = [one.rule for one in found if one.met is Truth.TRUE and not one.is_read and one.rule is not None]
    return tuple(dict.fromkeys(rule.releases for rule in rules if rule.software == combination.engine))


def _of_gpu(combination: Combination, name: str, found: tuple[Outcome, ...]) -> Iterator[RuleFinding]:
    for one in found:
        if one.met is not Truth.TRUE or one.is_read:
            yield RuleFinding(
                truth=one.truth,
                reason=one.reason,
                evidence=None if one.rule is None else cite_rule(one.rule),
                gpu=name,
                is_note=one.is_note,
            )
    releases = unread_releases(combination, found)
    if releases:
        reason = NOT_READ(engine=combination.engine, version=combination.version or "?", releases=releases)
        yield RuleFinding(truth=Truth.UNKNOWN, reason=reason, evidence=None, gpu=name)
