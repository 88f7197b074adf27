"""Random worlds: a scene with up to three twists, and records of all kinds, ranks and plans, good ones more often.

A recipe makes one or more records for a scene; one that withdraws or repeats an earlier record sees those drawn
before it. Recipes of `GOOD` make records that can only support; those of `OTHER` may say anything.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from typing import Any, NamedTuple

from decide_scenes import CARD_TWISTS, OFFER_TWISTS, SCENES, SIZING_TWISTS, Scene, Twist
from decide_world import (
    MODEL,
    NOW,
    QUALITY_PLAN,
    REPORTED,
    at,
    change,
    make_document,
    make_oom,
    make_quality,
    make_run,
    make_waiver,
    peaks,
    run_claims,
)
from hypothesis import settings
from hypothesis import strategies as st

from capienza.decide.engine import decide
from capienza.decide.verdict import TRUTH_OF, Decision
from capienza.evidence.claims import threshold_text
from capienza.evidence.record import Claim, Record, Scope
from capienza.evidence.store import seal
from capienza.units import GIB

EXAMPLES = 2_000
LAW = settings(max_examples=EXAMPLES, deadline=None)
FEWER = settings(max_examples=300, deadline=None)
"""For what is no law of the decision, and costs more."""
CRITERIA = ("workload", "compatibility", "memory", "quality", "placement", "budget")
HERE = "rtx4090-1x3d"

Recipe = Callable[[Scene, list[Record]], Iterable[Record]]
Shift = Callable[[Scope], Scope]


def _shift(**fields: Any) -> Shift:
    return lambda scope: change(scope, **fields)


def _load(tokens: int, sequences: int) -> Shift:
    def shift(scope: Scope) -> Scope:
        at_once = "microbatch" if scope.microbatch else "concurrency"
        return change(scope, **{"tokens": tokens, at_once: sequences})

    return shift


SAME = _shift()
IN_SCOPE: tuple[Shift, ...] = (SAME, SAME, _load(9000, 8), _shift(offer=HERE), _shift(provider="example"))
OUTSIDE: tuple[Shift, ...] = (
    _load(4096, 8),
    _load(8192, 1),
    _shift(gpu="l4"),
    _shift(engine_version="0.11.3"),
    _shift(configuration="engine.enforce_eager=true"),
    _shift(revision=None),
    _shift(offer="another"),
    _shift(gpus=8),
)
SMALLER: tuple[Shift, ...] = (SAME, _load(4096, 1), _shift(offer=HERE))


def plan_of(number: int = 2, **fields: Any) -> Record:
    base = {"kind": "plan", "version": "1", "date": at(1), "claims": (Claim(quantity="planned_runs", value=number),)}
    return seal(Record(**(base | fields)))


PLAN = plan_of()
MISSING = "d" * 64
PLANS: tuple[tuple[str, ...], ...] = ((), (), (PLAN.id,), (MISSING,))
SOURCES = tuple({"source": source} for source in ("catalogue", "public_page", "contract"))


def _each(make: Callable[..., Record], shift: Shift, *arguments: Any, **fields: Any) -> Recipe:
    """One record for each GPU that the name may mean."""
    return lambda scene, _: [make(shift(scope), *arguments, **fields) for scope in scene.scopes]


def _first(make: Callable[..., Record], shift: Shift, *arguments: Any, **fields: Any) -> Recipe:
    return lambda scene, _: [make(shift(scene.scopes[0]), *arguments, **fields)]


def run_recipe(
    shift: Shift, room_bytes: int, counter: str = "device", outcome: str | None = "completed", **fields: Any
) -> Recipe:
    """A run of the scene's whole cycle, on every GPU, for each GPU the name may mean."""
    cut = {name: fields.pop(name) for name in ("truncated", "dropped") if name in fields}
    phases = fields.pop("phases", None)

    def records(scene: Scene, _: list[Record]) -> list[Record]:
        measured = peaks(REPORTED - room_bytes, counter, scene.phases if phases is None else phases, scene.gpus)
        claims = run_claims(outcome, measured=measured, **cut)
        return [make_run(shift(scope), claims, **fields) for scope in scene.scopes]

    return records


def quality_recipe(shift: Shift, value: str = "satisfied", **fields: Any) -> Recipe:
    claims = tuple(
        Claim(quantity=name, value=value, basis=basis)
        for name, basis in (("exact_match", threshold_text(Decimal("0.82"), None)), ("f1", "max_regression=0.01"))
    )
    return _first(lambda scope, **more: make_quality(value, scope, claims=claims, **more), shift, **fields)


def compatibility_recipe(shift: Shift, value: str, producer: dict[str, str]) -> Recipe:
    return _first(lambda scope: make_document(value=value, scope=change(scope, gpu="any"), producer=producer), shift)


def property_recipe(quantity: str, value: str | int, producer: dict[str, str], unit: str | None = None) -> Recipe:
    return lambda *_: [make_document(quantity, value, Scope(offer=HERE), unit, producer=producer)]


def rate_recipe(value: str, producer: dict[str, str], unit: str = "EUR/USD", **fields: Any) -> Recipe:
    return lambda *_: [make_document("exchange_rate", value, Scope(), unit, producer=producer, **fields)]


def probe_recipe(shift: Shift, version: str, driver: str) -> Recipe:
    """An environment that was looked into: the engine it has, and its driver."""
    claims = (Claim(quantity="package.vllm", value=version), Claim(quantity="driver_version", value=driver))
    return _first(make_run, shift, claims)


def reading_recipe(
    quantity: str, value: str | int, unit: str | None = None, basis: str | None = None, **fields: Any
) -> Recipe:
    """What somebody read on the machine of the offer, or of another one."""
    claims = (Claim(quantity=quantity, value=value, unit=unit, basis=basis),)
    return lambda *_: [make_run(Scope(**({"offer": HERE} | fields)), claims)]


def waiver_recipe(criterion: str, scope: Scope | None = None, **fields: Any) -> Recipe:
    return lambda *_: [make_waiver(criterion, scope, **fields)]


def withdrawal_recipe(kind: str, back: int, **fields: Any) -> Recipe:
    """Withdraws one of the records drawn before it, which may be a withdrawal itself."""

    def records(_: Scene, before: list[Record]) -> list[Record]:
        if not before:
            return []
        signed = {"producer": {"author": "A. Engineer"}, "notes": ("the counter was read wrongly",)}
        base = {"kind": kind, "version": "1", "date": at(1, 2), "inputs": (before[-1 - back % len(before)].id,)}
        return [seal(Record(**(base | signed | fields)))]

    return records


def plan_recipe(number: int, *, is_scoped: bool, runs: tuple[Recipe, ...] = ()) -> Recipe:
    """A plan, and some runs that cite it."""

    def records(scene: Scene, before: list[Record]) -> list[Record]:
        scope = change(scene.scopes[0], tokens=None, concurrency=None, microbatch=None) if is_scoped else Scope()
        plan = plan_of(number, scope=scope)
        made = [run for recipe in runs for run in recipe(scene, before)]
        return [plan, *(resealed(run, inputs=(*run.inputs, plan.id)) for run in made)]

    return records


def resealed(record: Record, **fields: Any) -> Record:
    return seal(change(record, **fields, id="", sha256=""))


def _good() -> Iterator[Recipe]:
    for shift in IN_SCOPE:
        for inputs in PLANS:
            yield run_recipe(shift, 4 * GIB, inputs=inputs)
            yield quality_recipe(shift, inputs=inputs)
        yield probe_recipe(shift, "0.33.0", "595.71.05")
        yield probe_recipe(shift, "0.11.2", "595.71.05")
        yield run_recipe(shift, 5 * GIB, "process", version="2")
        yield run_recipe(shift, 5 * GIB, "reserved", version="2")
        for producer in SOURCES:
            yield compatibility_recipe(shift, "satisfied", producer)
    for shift in OUTSIDE:
        yield run_recipe(shift, 4 * GIB)
        yield quality_recipe(shift)
    for producer in SOURCES:
        yield property_recipe("ram_bytes", 64, producer, "GiB")
        yield property_recipe("disk_bytes", 900, producer, "GB")
        yield property_recipe("gpu_link", "nvlink", producer)
        yield property_recipe("gpus_per_node", 8, producer)
        yield property_recipe("managed_application", "Slurm", producer)
        yield property_recipe("driver_version", "595.71.05", producer)
        yield property_recipe("starts_at", "2026-12-07T00:00:00Z", producer)
    for basis in (None, "free"):
        yield reading_recipe("ram_bytes", 64, "GiB", basis)
        yield reading_recipe("disk_bytes", 900, "GB", basis)
    yield reading_recipe("gpus_per_node", 8)
    yield reading_recipe("driver_version", "595.71.05")
    for criterion in CRITERIA:
        yield waiver_recipe(criterion)
        yield waiver_recipe(criterion, Scope(model=MODEL, provider="example"))
        yield waiver_recipe(criterion, Scope(model=MODEL))


def _other() -> Iterator[Recipe]:
    for producer in SOURCES:
        yield property_recipe("driver_version", "570.26", producer)
        yield property_recipe("driver_version", "?", producer)
    for shift in SMALLER:
        yield probe_recipe(shift, "0.33.0", "570.26")
        yield probe_recipe(shift, "0.32.0", "?")
        for inputs in PLANS:
            yield _each(make_oom, shift, inputs=inputs)
        yield _first(make_oom, shift)
        yield run_recipe(shift, 4 * GIB, truncated=2)
        yield run_recipe(shift, 4 * GIB, outcome="failed")
        yield run_recipe(shift, -GIB)
        yield quality_recipe(shift, "violated")
        for producer in SOURCES:
            yield compatibility_recipe(shift, "violated", producer)
    for shift in (SAME, _load(9000, 8)):
        yield run_recipe(shift, 4 * GIB, outcome=None)
        yield run_recipe(shift, 4 * GIB, dropped=None)
        yield run_recipe(shift, GIB)
        yield run_recipe(shift, 4 * GIB, phases=("load",))
        yield run_recipe(shift, 20 * GIB)
        yield run_recipe(shift, 4 * GIB, method="attest")
        yield run_recipe(shift, 4 * GIB, expires=NOW)
        yield run_recipe(shift, 4 * GIB, date=at(2))
        yield quality_recipe(shift, "insufficient")
        yield quality_recipe(shift, subject=())
        yield quality_recipe(shift, "violated", inputs=(PLAN.id,))
        yield _first(make_run, shift, (Claim(quantity="compatibility", value="violated"),), inputs=(PLAN.id,))
    for producer in SOURCES:
        yield property_recipe("ram_bytes", 1, producer, "GiB")
        yield property_recipe("ram_bytes", "plenty", producer)
        yield property_recipe("disk_bytes", 1, producer, "GB")
        yield property_recipe("gpu_link", "pcie", producer)
        yield property_recipe("gpus_per_node", 1, producer)
        yield property_recipe("managed_application", "Kubernetes", producer)
    for basis in (None, "free"):
        yield reading_recipe("ram_bytes", 1, "GiB", basis)
        yield reading_recipe("disk_bytes", 1, "GB", basis)
    yield reading_recipe("ram_bytes", 1, "GiB", offer="another")
    for amount in (REPORTED, REPORTED - GIB, 16 * GIB, 48 * GIB):
        for fields in ({}, {"offer": None, "gpu": "rtx4090"}, {"gpu": "rtx4090"}, {"offer": "another"}):
            yield reading_recipe("gpu_reported_bytes", amount, "B", **fields)
            # Less than that, and the good runs would be above what the GPU has.
            yield reading_recipe("cuda_total_bytes", max(amount, REPORTED - GIB) - 400 * 2**20, "B", **fields)
    yield reading_recipe("starts_at", "2026-12-30T00:00:00Z")
    yield reading_recipe("driver_version", "570.26")
    for producer in SOURCES:
        for start in ("2026-12-30T00:00:00Z", "2026-12-10T12:00:00+01:00", "soon"):
            yield property_recipe("starts_at", start, producer)
        for value in ("1.1", "1.4", "1.6", "9", "x"):
            yield rate_recipe(value, producer)
        yield rate_recipe("0.9", producer, "USD/EUR")
        yield rate_recipe("1.1", producer, expires=NOW)
    for criterion in CRITERIA:
        yield waiver_recipe(criterion, expires=NOW)
        yield waiver_recipe(criterion, Scope(offer=HERE))
        yield waiver_recipe(criterion, Scope(model=MODEL, offer="another"))
    for kind in ("invalidates", "supersedes"):
        for back in range(3):
            yield withdrawal_recipe(kind, back)
        yield withdrawal_recipe(kind, 0, producer={})
        yield withdrawal_recipe(kind, 0, expires=NOW)
    good, oom, bad = run_recipe(SAME, 4 * GIB), _each(make_oom, SAME), quality_recipe(SAME, "violated")
    for is_scoped in (True, False):
        for runs in ((), (good,), (good, oom), (good, run_recipe(SAME, 5 * GIB, version="2")), (bad,), (oom, bad)):
            yield plan_recipe(2, is_scoped=is_scoped, runs=runs)
    yield lambda *_: [PLAN]


GOOD, OTHER = tuple(_good()), tuple(_other())


class Campaign(NamedTuple):
    """A scene with a plan, its runs, and all the records."""

    scene: Scene
    planned: tuple[Record, ...]
    records: tuple[Record, ...]


def _announced(recipe: Recipe) -> bool:
    """Would what the recipe makes be a run of a plan, or a plan?"""
    made = recipe(SCENES["one"], [PLAN])
    return any(record.kind in ("plan", "measurement", "quality_result") for record in made)


COVERING: tuple[tuple[Recipe, ...], ...] = (
    (),
    (run_recipe(SAME, 4 * GIB),),
    (run_recipe(SAME, 4 * GIB), quality_recipe(SAME)),
    (run_recipe(SAME, 4 * GIB), quality_recipe(SAME)),
    (run_recipe(SAME, 4 * GIB), quality_recipe(SAME), rate_recipe("1.2", SOURCES[0])),
)
"""What a world begins with: nothing, a run, or all that makes its scene admissible."""


def unchanged(scene: Scene) -> Scene:
    """No twist."""
    return scene


def nothing(*_: object) -> list[Record]:
    """No record."""
    return []


TWISTS = tuple(
    st.sampled_from((unchanged,) * (len(some) if number else 1) + some)
    for number, some in enumerate(
        (CARD_TWISTS + OFFER_TWISTS + SIZING_TWISTS, CARD_TWISTS, OFFER_TWISTS, SIZING_TWISTS)
    )
)
scenes = st.builds(
    lambda name, *twists: _twisted(SCENES[name], twists),
    st.sampled_from(("one", "two", *SCENES)),
    st.just(unchanged) | TWISTS[0],
    *TWISTS[1:],
)


def _twisted(scene: Scene, twists: Iterable[Twist]) -> Scene:
    for twist in twists:
        scene = twist(scene)
    return scene


def records_of(scene: Scene, recipes: Iterable[Recipe]) -> list[Record]:
    """The records of some recipes, made one after the other."""
    made: list[Record] = []
    for recipe in recipes:
        made += recipe(scene, made)
    return made


any_recipe = st.sampled_from((nothing,) * 60 + GOOD + OTHER)
recipes = st.builds(lambda covering, *more: (*covering, *more), st.sampled_from(COVERING), *[any_recipe] * 4)
supporting = st.sampled_from(GOOD)
worlds = st.builds(lambda scene, drawn: (scene, records_of(scene, drawn)), scenes, recipes)

_RUNS = (
    run_recipe(SAME, 4 * GIB),
    run_recipe(_load(9000, 8), 4 * GIB),
    run_recipe(SAME, 4 * GIB, truncated=2),
    run_recipe(SAME, 4 * GIB, outcome="failed"),
    run_recipe(SAME, -GIB),
    _each(make_oom, SAME),
    _each(make_run, SAME, (Claim(quantity="compatibility", value="violated"),)),
)
_RESULTS = tuple(quality_recipe(SAME, value) for value in ("satisfied", "violated", "insufficient"))
_UNPLANNED = tuple(recipe for recipe in GOOD + OTHER if not _announced(recipe))


def _planned(scene: Scene, is_scoped: bool, runs: tuple[Recipe, ...], unplanned: tuple[Recipe, ...]) -> Campaign:
    scope = change(scene.scopes[0], gpu=None, tokens=None, concurrency=None, microbatch=None) if is_scoped else Scope()
    plan = plan_of(len(runs) // 2, scope=scope)
    planned = [
        resealed(record, version=f"planned-{number}", inputs=(*record.inputs, plan.id))
        for number, recipe in enumerate(runs)
        for record in recipe(scene, [])
    ]
    others: list[Record] = [plan, *planned]
    for recipe in unplanned:
        others += recipe(scene, others)
    return Campaign(scene, (plan, *planned), tuple(others))


campaigns = st.builds(
    lambda scene, is_scoped, run, result, more: _planned(scene, is_scoped, (*run, *result), more),
    scenes,
    st.booleans(),
    st.tuples(*[st.sampled_from(_RUNS)] * 2),
    st.tuples(*[st.sampled_from(_RESULTS)] * 2),
    st.tuples(*[st.sampled_from((nothing,) * 20 + _UNPLANNED)] * 3),
)
"""Plans with all their runs, two measured and two of quality, beside documents, waivers and withdrawals."""


def judge(scene: Scene, records: Iterable[Record], now: datetime.datetime = NOW) -> Decision:
    """The decision on the scene's offer."""
    return next(decide(scene.card, [scene.offer], lambda *_: scene.sizing, (*records, QUALITY_PLAN), now))


def truths(decision: Decision) -> dict[str, Any]:
    """The value of every applicable criterion by name, and of the whole."""
    values = {row.criterion: row.truth for row in decision.criteria if row.truth is not None}
    return values | {"all": TRUTH_OF[decision.state]}
