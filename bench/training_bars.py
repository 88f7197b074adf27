"""Each bar of training memory with its figure of today, and whether it is met.

python bench/training_bars.py [--shared FOLDER] [--without-profiles] [--page docs/explanation/training-accuracy.md]

Reads the shared cases: training.jsonl, AgileRL's curated profiles, Sailor's table. Ceilings are those that these rows
give today, each from the cases of other models; whether they are the shipped ones is the last line. Some three minutes
on two cores, half a minute without the profiles. With `--page` the figures of that page are written anew. Exit code 1
when a bar is missed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
from training_figures import write

from capienza.api.sizing import size
from capienza.ledger.entry import Entry
from capienza.predict.calibration import Calibration, shipped
from capienza.predict.training.answer import _walked, answer_of
from capienza.predict.training.passes import passes
from capienza.units import GIB
from capienza.validate.cases import scored_rows
from capienza.validate.groups import groups, percentile
from capienza.validate.run import calibrated, calibration_of
from capienza.validate.scored import Scored

ROOT = Path(__file__).parents[1]
CARD = ROOT / "examples" / "cards" / "qlora-llama-3.1-8b.yaml"
COVER = (0.93, 0.98)
MOST_WIDTH = 0.10
MOST_MS = 5.0
ROUNDS = 9
VERDICTS = {True: "met", False: "MISSED", None: "-"}


class Bar(msgspec.Struct, frozen=True):
    """What must be reached, what is, and the verdict; None: reported, without a bar of its own."""

    name: str
    asked: str
    found: str
    is_met: bool | None


def main() -> int:
    """One line for each bar."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shared", type=Path, default=ROOT.parent / "shared")
    parser.add_argument("--without-profiles", action="store_true", help="leave out AgileRL and Sailor")
    parser.add_argument("--page", type=Path, help="write the figures into this page")
    options = parser.parse_args()
    rows = list(_rows(options.shared, not options.without_profiles))
    today = calibration_of(rows, {})
    rows = [calibrated(row, today) for row in rows]
    bars = [*_errors(rows), *_deaths(rows), *_ceilings(rows), *_floors(rows), *_qlora(), *_speed()]
    width = max(len(bar.name) for bar in bars)
    for bar in bars:
        print(f"{bar.name:{width}}  {VERDICTS[bar.is_met]:6}  {bar.found}   (asked: {bar.asked})")
    age = _age(today, shipped())
    print(age)
    if options.page:
        write(options.page, [(bar.name, bar.asked, bar.found, VERDICTS[bar.is_met]) for bar in bars], rows, age)
    return 1 if any(bar.is_met is False for bar in bars) else 0


def _rows(shared: Path, has_profiles: bool) -> Iterator[Scored]:
    paths = [shared / "cases" / "training.jsonl"]
    if has_profiles:
        papers = shared / "data" / "papers"
        paths += [*sorted((papers / "agilerl").glob("*.json")), papers / "sailor" / "sailor_validation_measured.csv"]
    return (row for row in scored_rows([str(path) for path in paths]) if row.status != "skipped")


def _errors(rows: Sequence[Scored]) -> Iterator[Bar]:
    kinds: tuple[tuple[str, Callable[[Scored], bool], float, float], ...] = (
        ("allocated after train(), fms", _is("allocated_after", "gold", "silver", start="fms"), 0.0002, 0.005),
        ("allocated peak, gold, closed form", _is("allocated_peak", "gold"), 0.01, 0.06),
        ("reserved peak, gold and silver", _is("reserved_peak", "gold", "silver"), 0.04, 0.15),
        ("device used, gold and silver, below 90 %", _is("device_peak", "gold", "silver"), 0.05, 0.20),
    )
    for name, is_one, median, p95 in kinds:
        yield _bar(name, filter(is_one, rows), ("median", median, _median), ("p95", p95, _p95))
    yield _bar("AgileRL training", filter(_named("rl.training"), rows), ("mean", 0.025, _mean), ("worst", 0.08, max))
    yield _bar("AgileRL generation", filter(_named("rl.generation"), rows), ("mean", 0.025, _mean), ("worst", 0.1, max))
    sailor = [row for row in rows if row.name == "multi_gpu.device_peak" and row.model == "OPT-350M"]
    yield _bar("several GPUs: Sailor, OPT-350M", sailor, ("median", 0.03, _median), ("worst", 0.08, max))
    titan = [row for row in rows if row.engine == "torchtitan" and row.name.startswith("training.reserved_peak")]
    yield _bar("several GPUs: torchtitan from step 2 on", titan, ("median", 0.03, _median), ("worst", 0.08, max))


def _is(kind: str, *tiers: str, start: str = "") -> Callable[[Scored], bool]:
    return lambda row: row.name in {f"training.{kind}.{tier}" for tier in tiers} and row.id.startswith(start)


def _named(name: str) -> Callable[[Scored], bool]:
    return lambda row: row.name == name


def _bar(name: str, rows: Iterable[Scored], *asked: tuple[str, float, Callable[[list[float]], float]]) -> Bar:
    errors = [abs(row.error) for row in rows if row.status == "scored" and row.error is not None]
    said = ", ".join(f"{word} {_percent(most)}" for word, most, _ in asked)
    if not errors:
        return Bar(name, said, "no row", None)
    found = ", ".join(f"{word} {_percent(of(errors))}" for word, _, of in asked)
    return Bar(name, said, f"n {len(errors)}, {found}", all(of(errors) <= most for _, most, of in asked))


def _median(errors: list[float]) -> float:
    return percentile(errors, 0.5)


def _p95(errors: list[float]) -> float:
    return percentile(errors, 0.95)


def _mean(errors: list[float]) -> float:
    return sum(errors) / len(errors)


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"


def _deaths(rows: Sequence[Scored]) -> Iterator[Bar]:
    words = [row.word for row in rows if row.name == "training.oom" and row.word]
    found = ", ".join(f"{word} {words.count(word)}" for word in ("overflow", "borderline", "fit"))
    yield Bar("runs that died of memory", "fit on none", f"n {len(words)}, {found}", "fit" not in words)


def _ceilings(rows: Sequence[Scored]) -> Iterator[Bar]:
    counters: dict[str, list[Scored]] = {}
    for row in rows:
        if row.kind and row.is_covered is not None:
            name = row.kind.split(".")[1].partition("_")[0] if row.kind.startswith("training.") else row.kind
            counters.setdefault(name, []).append(msgspec.structs.replace(row, quantity=name))
    for name, members in counters.items():
        (one,) = groups(members)
        cover, width, elsewhere = one.coverage or 0.0, one.width or 0.0, one.coverage_elsewhere or 0.0
        found = f"n {one.n}, covered {_percent(cover)}, width {_percent(width)}, elsewhere {_percent(elsewhere)}"
        yield Bar(f"ceilings: {name}, cover", "93 to 98 %", found, COVER[0] <= cover <= COVER[1])
    (peak,) = groups([msgspec.structs.replace(r, quantity="-") for r in rows if "allocated_peak" in r.name]) or (None,)
    if peak is not None and peak.width is not None:
        yield Bar("ceilings: allocated peak, width", "under 10 %", _percent(peak.width), peak.width < MOST_WIDTH)


def _floors(rows: Sequence[Scored]) -> Iterator[Bar]:
    compared = [row for row in rows if row.status == "scored" and isinstance(row.measured, float)]
    above = [row.id for row in compared if (row.floor or 0) > float(row.measured or 0)]
    yield Bar("floors above a measured figure", "none", ", ".join(above) or "none", not above)


def _qlora() -> Iterator[Bar]:
    found = size(str(CARD), gpu="L4")
    entries = {entry.name: entry for entry in found.ledger.entries}
    weights, widened = entries["weights"], entries.get("widened_weights")
    assert weights.amount is not None
    floor = weights.amount.floor / GIB
    whole = (weights.amount.expected + (widened.amount.expected if widened and widened.amount else 0)) / GIB
    yield Bar(
        "QLoRA of Llama 3.1 8B, base",
        "5.31 GiB, 7.27 to 7.57 in fp32 for the rest",
        f"floor {floor:.2f} GiB, {whole:.2f} GiB with what is taken up to fp32",
        round(floor, 2) == 5.31 and (widened is None or 7.27 <= round(whole, 2) <= 7.57),
    )
    open_ones = [entry.name for entry in found.ledger.entries if not _is_told(entry)]
    yield Bar("QLoRA, entries without formula and source", "none", ", ".join(open_ones) or "none", not open_ones)


def _is_told(entry: Entry) -> bool:
    return entry.amount is not None and entry.formula is not None and entry.source is not None


def _speed() -> Iterator[Bar]:
    answer = size(str(CARD), gpu="L4").training
    assert answer is not None
    walk = _least_ms(lambda: passes(answer.architecture, answer.recipe))

    def whole() -> None:
        _walked.cache_clear()
        answer_of(answer.architecture, answer.recipe)

    yield Bar("closed form of that card: passes", "under 5 ms", f"{walk:.1f} ms", walk < MOST_MS)
    yield Bar("the same with the allocator's replay", "-", f"{_least_ms(whole):.1f} ms", None)


def _least_ms(call: Callable[[], object]) -> float:
    taken = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        call()
        taken.append((time.perf_counter() - began) * 1e3)
    return min(taken)


def _age(today: Calibration, known: Calibration) -> str:
    """Are the shipped ceilings those of these rows?"""
    names = {(kind.engine, kind.quantity, kind.family, kind.kernels) for kind in today.kinds}
    same = {kind for kind in known.kinds if (kind.engine, kind.quantity, kind.family, kind.kernels) in names} == set(
        today.kinds
    )
    if same:
        return f"the shipped ceilings ({known.date}) are these"
    return f"the shipped ceilings ({known.date}) are others: run scripts/calibrate"


if __name__ == "__main__":
    sys.exit(main())
