"""What the rules say of one combination on one GPU.

Of each thing that rules of some software speak of, those read at the combination's release are taken. Where none was,
those of the nearest release are (the last one before it, else the first after it): they are said, and exclude nothing.
A rule excludes only where the engine's own source or documentation, or that of a library which this release is known
to bring, was read at this release. Rules are judged one by one, so the strictest of them decides: the effective
minimum is the largest over hardware, method, kernel and built code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from capienza.catalog import rule_texts as texts
from capienza.catalog.capability import GpuTraits, capability_text, in_families, is_built_for
from capienza.catalog.release import Release, build_of, parse_release
from capienza.catalog.rules import NONE_OF_VENDOR, Rule, load_rules, pinned
from capienza.errors import Message, Parameter
from capienza.truth import Truth

STOPS = ("refused", "no_kernel")
ANY_WEIGHTS = "weights:any"


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
    """What each rule that applies says, in the order of the rules; one on what could not be judged where that is so."""
    if gpu.contradicts:
        return (_without_rule(texts.CAPABILITY_CONTRADICTS(gpu=gpu.name)),)
    if not gpu.vendor or not (gpu.found or gpu.vendor not in ("NVIDIA", "AMD")):
        return (_without_rule(texts.NO_CAPABILITY(gpu=gpu.name)),)
    packages = combination.known_packages
    chosen = list(_chosen(combination, gpu, load_rules() if rules is None else rules, packages))
    found = [_outcome(rule, is_read, combination, gpu) for rule, is_read in chosen]
    if not any(rule.software == combination.engine and rule.vendor == gpu.vendor for rule, _ in chosen):
        return (_without_rule(texts.NO_RULE(engine=combination.engine, gpu=gpu.name)), *found)
    stopped = {
        one.rule.subjects for one in found if one.rule and one.rule.violation in STOPS and one.met is Truth.FALSE
    }
    # What does not start is not slower as well.
    return tuple(one for one in found if not (one.is_note and one.rule and _is_moot(one.rule, stopped)))


def host_outcomes(combination: Combination, gpu: GpuTraits, rules: Iterable[Rule] | None = None) -> tuple[Outcome, ...]:
    """What rules say of a server, by the properties in `combination.packages` that are known."""
    asked = msgspec.structs.replace(combination, subjects=frozenset({"host"}))
    chosen = _chosen(asked, gpu, load_rules() if rules is None else rules, asked.known_packages)
    return tuple(_outcome(rule, is_read, asked, gpu) for rule, is_read in chosen)


def _is_moot(rule: Rule, stopped: set[tuple[str, ...]]) -> bool:
    return rule.violation == "slower" and any(set(rule.subjects) & set(subjects) for subjects in stopped)


def _without_rule(reason: Message) -> Outcome:
    return Outcome(rule=None, met=Truth.UNKNOWN, truth=Truth.UNKNOWN, reason=reason, is_read=False)


def _chosen(
    combination: Combination, gpu: GpuTraits, rules: Iterable[Rule], packages: Mapping[str, str]
) -> Iterator[tuple[Rule, bool]]:
    """The rules that apply, each with whether it was read at this release."""
    groups: dict[tuple[str, str], list[Rule]] = {}
    order: list[Rule] = []
    for rule in rules:
        if rule.concerns(combination.engine) and _applies(rule, gpu, packages):
            asked = [subject for subject in rule.subjects if subject in combination.subjects]
            if asked:
                order.append(rule)
            for subject in asked:
                groups.setdefault((rule.software, subject), []).append(rule)
    taken: dict[str, bool] = {}
    for (software, _), group in groups.items():
        release = combination.release if software == combination.engine else parse_release(packages.get(software))
        read = [rule for rule in group if rule.covers(release)]
        for rule in read or _nearest(group, release):
            taken[rule.id] = taken.get(rule.id, False) or bool(read)
    for rule in order:
        if rule.id in taken:
            yield rule, taken[rule.id]


def _applies(rule: Rule, gpu: GpuTraits, packages: Mapping[str, str]) -> bool:
    if rule.vendor not in ("", gpu.vendor):
        return False
    if rule.package and rule.gfx and gpu.gfx not in rule.gfx:
        return False
    if "host" in rule.subjects and rule.package not in packages:
        return False
    built = build_of(packages.get(rule.software))
    return not (rule.build and built and rule.build != built)


def _nearest(group: list[Rule], release: Release | None) -> list[Rule]:
    """Those of the last release read before this one, else of the first after it; of the newest where it is unknown."""
    spans = sorted({(rule.last or (), rule.first or ()) for rule in group})
    before = [span for span in spans if release is None or span[0] < release]
    taken = before[-1] if before else spans[0]
    return [rule for rule in group if (rule.last or (), rule.first or ()) == taken]


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
