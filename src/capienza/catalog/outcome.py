"""What the rules say of one combination on one GPU.

A rule excludes only where the engine's own source or documentation, or that of a library which this release is known
to bring, was read at this release; any other that is violated is a doubt. Rules are judged one by one, so the
strictest of them decides: the effective minimum is the largest over hardware, method, kernel and built code.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from capienza.catalog import rule_texts as texts
from capienza.catalog.capability import GpuTraits, capability_text, in_families, is_built_for
from capienza.catalog.release import parse_release
from capienza.catalog.rules import NONE_OF_VENDOR, Rule, load_rules
from capienza.catalog.selection import ANY_WEIGHTS, Combination, chosen
from capienza.errors import Message, Parameter
from capienza.truth import Truth

STOPS = ("refused", "no_kernel")
CPU_ARCH = "cpu_arch"


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What one rule says. `met`: is what it needs there? `truth`: what follows for the combination.

    `rule` None: no rule could be applied, with the reason. `is_read`: it was read at this release of the software.
    """

    rule: Rule | None
    met: Truth
    truth: Truth
    reason: Message
    is_read: bool = True

    @property
    def is_note(self) -> bool:
        """Does it change something without standing in the way?"""
        return self.truth is Truth.TRUE and self.met is not Truth.TRUE


def outcomes(combination: Combination, gpu: GpuTraits, rules: Iterable[Rule] | None = None) -> tuple[Outcome, ...]:
    """What each rule that applies says, in the order of the rules; one on what could not be judged where that is so.

    A GPU that comes with its own processor tells that much of its server.
    """
    if gpu.contradicts:
        return (_without_rule(texts.CAPABILITY_CONTRADICTS(gpu=gpu.name)),)
    if not gpu.vendor or not (gpu.found or gpu.vendor not in ("NVIDIA", "AMD")):
        return (_without_rule(texts.NO_CAPABILITY(gpu=gpu.name)),)
    given = load_rules() if rules is None else tuple(rules)
    taken = chosen(combination, gpu, given)
    found = [_outcome(rule, is_read, combination, gpu) for rule, is_read in taken]
    if gpu.cpu_arch:
        beside = msgspec.structs.replace(combination, packages=((CPU_ARCH, gpu.cpu_arch),))
        found += host_outcomes(beside, gpu, given)
    if not any(rule.software == combination.engine and rule.vendor == gpu.vendor for rule, _ in taken):
        return (_without_rule(texts.NO_RULE(engine=combination.engine, gpu=gpu.name)), *found)
    return _without_moot(found)


def host_outcomes(combination: Combination, gpu: GpuTraits, rules: Iterable[Rule] | None = None) -> tuple[Outcome, ...]:
    """What rules say of a server, by the properties in `combination.packages` that are known."""
    asked = msgspec.structs.replace(combination, subjects=frozenset({"host"}))
    taken = chosen(asked, gpu, load_rules() if rules is None else rules)
    return _without_moot([_outcome(rule, is_read, asked, gpu) for rule, is_read in taken])


def _without_moot(found: list[Outcome]) -> tuple[Outcome, ...]:
    """What does not start is not slower as well."""
    stopped = {
        (one.rule.package, subject)
        for one in found
        if one.rule and one.rule.violation in STOPS and one.met is Truth.FALSE
        for subject in one.rule.subjects
    }
    return tuple(
        one
        for one in found
        if not (one.is_note and one.rule and one.rule.violation == "slower")
        or not any((one.rule.package, subject) in stopped for subject in one.rule.subjects)
    )


def _without_rule(reason: Message) -> Outcome:
    return Outcome(rule=None, met=Truth.UNKNOWN, truth=Truth.UNKNOWN, reason=reason, is_read=False)


def _outcome(rule: Rule, is_read: bool, combination: Combination, gpu: GpuTraits) -> Outcome:
    packages = combination.known_packages
    met, found = _met(rule, combination, gpu, packages)
    subject = next(one for one in rule.subjects if one in combination.subjects)
    if subject == ANY_WEIGHTS:
        subject = f"weights:{found}"
    words: dict[str, Parameter] = {
        "software": f"{rule.software} {rule.releases}".strip(),
        "subject": texts.subject_text(subject),
        "needed": needed_text(rule),
        "found": found,
        "gpu": gpu.name,
        "rule": rule.id,
        "source": rule.source,
        "becomes": rule.becomes,
        "factor": rule.factor,
        "package": rule.package,
    }
    truth, reason = _verdict(rule, met, words)
    is_own = rule.software == combination.engine or rule.software in packages
    if met is Truth.TRUE:
        return Outcome(rule=rule, met=met, truth=truth, reason=reason, is_read=is_read)
    if truth is Truth.FALSE and rule.classes and gpu.product_class not in rule.classes:
        truth, reason = Truth.UNKNOWN, texts.OTHER_CLASS(reason=reason)
    if is_read and (is_own or truth is not Truth.FALSE):
        return Outcome(rule=rule, met=met, truth=truth, reason=reason)
    version = combination.version if rule.software == combination.engine else packages.get(rule.software)
    return Outcome(
        rule=rule,
        met=met,
        truth=Truth.UNKNOWN if truth is Truth.FALSE else truth,
        reason=_as_doubt(rule, reason, combination, version),
        is_read=is_read,
    )


def _as_doubt(rule: Rule, reason: Message, combination: Combination, version: str | None) -> Message:
    """Why a rule that was read elsewhere excludes nothing here."""
    if rule.first is None:
        return texts.OUTSIDE(engine=combination.engine, reason=reason)
    if rule.software == combination.engine or version is not None:
        return texts.NEAREST(software=rule.software, version=version or "?", reason=reason)
    stated = combination.version or "?"
    return texts.FOREIGN(software=rule.software, engine=combination.engine, version=stated, reason=reason)


def _verdict(rule: Rule, met: Truth, words: dict[str, Parameter]) -> tuple[Truth, Message]:
    """What follows where the rule was read at this very release of what is used."""
    if met is Truth.TRUE:
        return Truth.TRUE, texts.MET(**words)
    if rule.violation == "silently_larger":
        return Truth.TRUE, (texts.LARGER if met is Truth.FALSE else texts.MAY_BE_LARGER)(**words)
    if rule.violation == "slower" and rule.package:
        return Truth.TRUE, (texts.MINOR_ONLY if met is Truth.FALSE else texts.OPEN)(**words)
    if rule.violation == "slower":
        return Truth.TRUE, (texts.OTHER_FORMAT if rule.becomes else texts.SLOWER)(**words)
    if met is Truth.UNKNOWN:
        return Truth.UNKNOWN, (texts.NO_COLUMN if rule.documented else texts.OPEN)(**words)
    return Truth.FALSE, (texts.REFUSED if rule.violation == "refused" else texts.NO_KERNEL)(**words)


def _met(rule: Rule, combination: Combination, gpu: GpuTraits, packages: Mapping[str, str]) -> tuple[Truth, str]:
    """Is what the rule needs there, and what was found instead?"""
    if rule.package:
        return _package_met(rule, packages)
    if rule.allowed:
        kinds = {one.partition(":")[2] for one in combination.subjects if one.startswith("weights:")} - {"any"}
        return _truth(kinds <= set(rule.allowed)), ", ".join(sorted(kinds))
    if rule.gfx:
        return (_truth(gpu.gfx in rule.gfx) if gpu.gfx else Truth.UNKNOWN), gpu.gfx
    capability = gpu.capability
    if capability is None:
        return (Truth.TRUE, gpu.found) if rule.vendor == "AMD" else (Truth.UNKNOWN, gpu.found)
    found = capability_text(capability)
    if rule.documented and found not in rule.documented:
        return Truth.UNKNOWN, found
    fits = (
        (rule.minimum is None or capability >= rule.minimum)
        and (rule.maximum is None or capability <= rule.maximum)
        and (not rule.families or in_families(capability, rule.families))
        and (not rule.architectures or is_built_for(capability, rule.architectures))
        and found not in rule.refused_on
    )
    return _truth(fits), found


def _package_met(rule: Rule, packages: Mapping[str, str]) -> tuple[Truth, str]:
    found = packages.get(rule.package)
    if found is None:
        return Truth.UNKNOWN, ""
    needed, release = parse_release(rule.needs), parse_release(found)
    if needed is None:
        return _truth(not rule.needs or found == rule.needs), found
    return (Truth.UNKNOWN if release is None else _truth(release >= needed)), found


def _truth(value: bool) -> Truth:
    return Truth.TRUE if value else Truth.FALSE


def needed_text(rule: Rule) -> str:
    """What a rule needs, in signs that every language reads: ">= 8.0, <= 12.1"."""
    parts = []
    if rule.package:
        parts.append(
            f"{rule.package} >= {rule.needs}" if parse_release(rule.needs) else f"{rule.package} {rule.needs}".strip()
        )
        return ", ".join(parts)
    if rule.minimum is not None:
        parts.append(f">= {capability_text(rule.minimum)}")
    if rule.maximum is not None:
        parts.append(f"<= {capability_text(rule.maximum)}")
    parts += [name for name in rule.gfx if name != NONE_OF_VENDOR]
    parts += (*rule.families, *rule.architectures, *rule.allowed)
    parts += [f"!= {capability}" for capability in rule.refused_on]
    return ", ".join(parts) or "-"
