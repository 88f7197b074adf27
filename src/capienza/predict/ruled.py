"""The rules that somebody asks about: those of an engine, a release and formats, alone or judged on a GPU."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

import msgspec

from capienza.catalog.asked import claim_of
from capienza.catalog.capability import GpuTraits, alike, traits_of
from capienza.catalog.outcome import Outcome, outcomes
from capienza.catalog.rules import Rule, load_rules
from capienza.catalog.selection import ANY_WEIGHTS, Combination
from capienza.errors import Message, UsageError, template, with_suggestion
from capienza.formats.kinds import NAMES, kind_named, kinds_of
from capienza.formats.scheme import WEIGHT_FORMATS
from capienza.predict.combination import CACHES, STATED_BF16, engine_name, engine_release

UNKNOWN_ENGINE = template(
    "predict.rules-engine",
    "no rule speaks of {found}; known: {known}",
    "write one of them as --engine",
)
UNKNOWN_KIND = template(
    "predict.rules-weights",
    "the weight format {found} is not known to any rule; known: {known}",
    "write a format as in weights.format, or a method as configurations write it",
)
UNKNOWN_CACHE = template(
    "predict.rules-cache",
    "the cache format {found} is not known to any rule; known: {known}",
    "write one of them as --cache",
)
NEEDS_ENGINE = template(
    "predict.rules-need-engine",
    "{option} says nothing without an engine",
    "add --engine",
)


class RuledGpu(msgspec.Struct, frozen=True, kw_only=True):
    """What the rules say on one GPU that the name may mean."""

    traits: GpuTraits
    outcomes: tuple[Outcome, ...]


class Ruled(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `rules`: those that speak of what was asked, and, where a GPU is named, what they say on it.

    `combination` is None where no engine is named.
    """

    combination: Combination | None
    rules: tuple[Rule, ...]
    gpu: str | None = None
    gpus: tuple[RuledGpu, ...] = ()


def ruled(
    engine: str | None = None,
    version: str | None = None,
    gpu: str | None = None,
    weights: str | None = None,
    cache: str | None = None,
) -> Ruled:
    """The rules that speak of these; without formats, of all formats.

    Raises `UsageError` for an engine or a format that no rule knows, `InputError` for a GPU that is not known.
    """
    for option, value in (("--version", version), ("--gpu", gpu)):
        if value is not None and engine is None:
            raise UsageError(NEEDS_ENGINE(option=option))
    asked = _formats(weights, cache)
    name = None if engine is None else _known_engine(engine)
    found = tuple(
        rule
        for rule in load_rules()
        if (name is None or rule.concerns(name)) and (not asked or set(rule.subjects) & {*asked, "start", "host"})
    )
    if name is None:
        return Ruled(combination=None, rules=found)
    everything = {subject for rule in found for subject in rule.subjects} - {ANY_WEIGHTS}
    combination = Combination(
        engine=name,
        version=version,
        release=engine_release(version, name),
        subjects=frozenset(({"start", ANY_WEIGHTS} | asked) if asked else everything - {"host"}),
    )
    if gpu is None:
        return Ruled(combination=combination, rules=found)
    gpus = tuple(
        RuledGpu(traits=traits, outcomes=outcomes(combination, traits)) for traits in alike(traits_of(claim_of(gpu)))
    )
    return Ruled(combination=combination, rules=found, gpu=gpu, gpus=gpus)


def _known_engine(engine: str) -> str:
    name = engine_name(engine)
    known = sorted(
        {one for rule in load_rules() for one in (rule.software, *rule.engines)} - {"cuda", "torch x86_64 wheel"}
    )
    if name in known:
        return name
    raise UsageError(_near(UNKNOWN_ENGINE(found=engine[:60], known=known), name, known))


def _formats(weights: str | None, cache: str | None) -> set[str]:
    asked: set[str] = set()
    if weights is not None:
        if weights in STATED_BF16:
            asked |= {"weights:plain", "dtype:bf16", "dtype:bf16-stated"}
        else:
            asked |= {f"weights:{kind}" for kind in _kinds(weights)}
    if cache is not None:
        kind = CACHES.get(cache.casefold())
        if kind is None:
            raise UsageError(UNKNOWN_CACHE(found=cache[:60], known=tuple(CACHES)))
        asked.add(f"kv:{kind}")
    return asked


def _kinds(weights: str) -> tuple[str, ...]:
    if weights in WEIGHT_FORMATS:
        return kinds_of(WEIGHT_FORMATS[weights])
    ruled_kinds = {
        subject.removeprefix("weights:")
        for rule in load_rules()
        for subject in rule.subjects
        if subject.startswith("weights:")
    } - {"any"}
    kind = weights if weights in ruled_kinds else kind_named(weights)
    if kind is None:
        known = sorted({*WEIGHT_FORMATS, *ruled_kinds, *NAMES})
        raise UsageError(_near(UNKNOWN_KIND(found=weights[:60], known=known), weights, known))
    return (kind,)


def _near(message: Message, found: str, known: Iterable[str]) -> Message:
    near = difflib.get_close_matches(found[:60].casefold(), known, n=1, cutoff=0.6)
    return with_suggestion(message, near[0] if near else None)
