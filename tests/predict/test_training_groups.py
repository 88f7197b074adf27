"""Which measured cases stand behind a training's ceiling: the narrowest group with enough, no publisher outweighing."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capienza.predict.calibration import ENOUGH_CASES, Calibration, Kind, Ratio, conformal
from capienza.predict.training.groups import Behind, behind, counter_of
from capienza.recipe.recipe import Lengths

PEAK = "training.allocated_peak"


def kind(
    engine: str, method: str, values: list[float], family: str = "", counter: str = PEAK, kernels: str = ""
) -> Kind:
    ratios = tuple(Ratio(f"{engine} {method} {number}", value) for number, value in enumerate(values))
    quantity = f"{counter}.{method}"
    return Kind(engine=engine, quantity=quantity, family=family or engine, kernels=kernels, ratios=ratios)


def asked(*kinds: Kind, framework: str = "trl", method: str = "lora", **more: object) -> Behind:
    return behind(Calibration(kinds=kinds), framework, f"{PEAK}.{method}", **more)  # type: ignore[arg-type]


def code(found: Behind) -> str:
    assert found.group is not None
    return found.group.code.removeprefix("training.cases-")


OWN = kind("trl", "lora", [1.01] * 19)
FEW = kind("trl", "lora", [1.01] * 9)
ALIKE = Kind(
    engine="trl", quantity=f"{PEAK}.lora", family="trl", ratios=tuple(Ratio(f"m{n % 3}", 1.01) for n in range(90))
)
OTHER_METHOD = kind("trl", "full", [1.02] * 19)
OTHER_FRAMEWORK = kind("litgpt", "lora", [1.4] * 25)
FAR = kind("litgpt", "full", [1.5] * 30)


@pytest.mark.parametrize(
    ("kinds", "group", "cases", "value"),
    [
        ([OWN, OTHER_METHOD, OTHER_FRAMEWORK], "own", 19, 1.01),
        ([FEW, OTHER_METHOD, OTHER_FRAMEWORK], "framework", 28, 1.02),
        ([ALIKE, OTHER_METHOD], "framework", 109, 1.02),
        ([FEW, OTHER_FRAMEWORK], "method", 34, 1.4),
        ([OTHER_FRAMEWORK, FAR], "method", 25, 1.4),
        ([FAR], "counter", 30, 1.5),
        ([kind("trl", "lora", [1.01] * 40, counter="training.reserved_peak")], "none", 0, 2.0),
    ],
)
def test_the_narrowest_group_with_enough_cases_is_taken(
    kinds: list[Kind], group: str, cases: int, value: float
) -> None:
    found = asked(*kinds)
    assert found.cases == cases
    assert found.value == pytest.approx(value)
    assert found.group is None if group == "none" else code(found) == group


def test_kernels_of_ones_own_come_first() -> None:
    plain, fused = (
        kind("trl", "lora", [1.01] * 30, kernels="transformers"),
        kind("trl", "lora", [1.2] * 30, kernels="foak"),
    )
    assert [asked(plain, fused, kernels=one).value for one in ("transformers", "foak", "liger")] == [1.01, 1.2, 1.2]
    assert code(asked(plain, fused, kernels="foak", framework="transformers")) == "kernels-method"
    assert asked(plain, fused, kernels="foak", framework="transformers", method="full").value == 1.2
    few = kind("trl", "lora", [1.02], kernels="transformers"), kind("trl", "full", [1.01] * 30, kernels="transformers")
    assert code(asked(*few, fused, kernels="transformers")) == "kernels"
    assert asked(*few, fused, kernels="transformers").value == 1.02


def test_a_framework_without_cases_takes_those_of_all() -> None:
    assert code(asked(OWN, OTHER_FRAMEWORK, framework="axolotl")) == "method"
    assert code(asked(OTHER_METHOD, FAR, framework="axolotl")) == "counter"


def test_what_a_small_group_has_seen_is_not_forgotten_by_its_parent() -> None:
    found = asked(kind("trl", "lora", [1.9, 1.0]), kind("trl", "full", [1.01] * 100))
    assert code(found) == "framework"
    assert found.value == 1.9


def test_kernels_that_were_compared_with_no_trace_take_the_widest_group() -> None:
    found = asked(OWN, OTHER_FRAMEWORK, is_assumed=True)
    assert found.value == pytest.approx(1.4)
    assert "compared with no trace" in str(found.told())
    assert "compared with no trace" not in str(asked(OWN, OTHER_FRAMEWORK).told())


def test_few_cases_are_said_to_be_few() -> None:
    assert str(asked(kind("trl", "lora", [1.1, 1.2])).told()).startswith("of only 2 measured cases")
    assert str(asked(OWN).told()).startswith("95 % of 19 measured cases")


def test_the_drivers_readings_are_one_counter() -> None:
    rl = Kind(engine="agilerl", quantity="rl.training", ratios=tuple(Ratio(f"m{n}", 1.3) for n in range(30)))
    sailor = Kind(engine="megatron", quantity="multi_gpu.device_peak", ratios=(Ratio("opt", 1.1),))
    found = behind(Calibration(kinds=(rl, sailor)), "megatron", "multi_gpu.device_peak")
    assert (code(found), found.cases, found.value) == ("device", 31, 1.3)
    of_training = behind(Calibration(kinds=(rl, sailor)), "trl", "training.device_peak.lora")
    assert (code(of_training), of_training.cases) == ("device", 31)
    assert behind(Calibration(kinds=(rl, sailor)), "trl", "training.reserved_peak.lora").cases == 0


def test_a_publisher_with_many_runs_does_not_outvote_the_others() -> None:
    """300 good runs of one, 20 of another that are all off: unweighted, 95 % of 320 would lie below 1.0."""
    many = kind("axolotl", "lora", [1.0] * 500, family="many")
    others = kind("litgpt", "lora", [1.5] * 20, family="few")
    found = asked(many, others)
    assert found.value == 1.5
    assert found.families == 2
    assert asked(many).value == 1.0


def test_one_run_of_another_publisher_makes_many_cases_not_few() -> None:
    found = asked(kind("axolotl", "lora", [1.0] * 500, family="many"), kind("litgpt", "lora", [1.5], family="one"))
    assert found.value == 1.5


def test_sharing_weight_out_anew_does_not_make_cases_fewer() -> None:
    """60 models of one publisher, 20 of two others: one far case of 80 is more than the 5 % that may lie above."""
    many = kind("ms-swift", "lora", [1.01] * 59 + [1.6], family="many")
    others = kind("litgpt", "lora", [1.02] * 10, family="a"), kind("axolotl", "lora", [1.03] * 10, family="b")
    found = asked(many, *others)
    assert (found.value, found.weight) == (1.03, 80)
    # Half the cases of the many: what the others weigh. 95 % of 81 / 80 of the weight lies below 1.03.
    weights = [20 / 60] * 60 + [1.0] * 20
    assert conformal([1.01] * 59 + [1.6] + [1.02] * 10 + [1.03] * 10, weights, 80) == 1.03


def test_a_reading_of_few_models_takes_the_largest_of_all_readings() -> None:
    rl = Kind(engine="agilerl", quantity="rl.training", ratios=tuple(Ratio(f"m{n}", 1 + n / 1000) for n in range(200)))
    one = Kind(engine="megatron", quantity="multi_gpu.device_peak", ratios=(Ratio("opt", 1.01),) * 15)
    found = behind(Calibration(kinds=(rl, one)), "megatron", "multi_gpu.device_peak")
    assert found.value == 1.199
    assert behind(Calibration(kinds=(rl, one)), "trl", "training.device_peak.lora").value < 1.199


def test_reserved_memory_by_whether_lengths_change() -> None:
    fixed = kind("torchtitan", "full", [1.01] * 20, counter="training.reserved_peak")
    varied = kind("ms-swift", "full", [1.2] * 20, counter="training.reserved_varied")
    both = Calibration(kinds=(fixed, varied))
    assert behind(both, "pytorch", "training.reserved_peak.full").value == 1.01
    assert behind(both, "pytorch", "training.reserved_varied.full").value == 1.2
    # Neither alone is enough for these: all that any training reserved.
    few = Calibration(kinds=(kind("torchtitan", "full", [1.01] * 3, counter="training.reserved_peak"), varied))
    found = behind(few, "pytorch", "training.reserved_peak.full")
    assert (code(found), found.cases, found.value) == ("reserved", 23, 1.2)


@pytest.mark.parametrize(
    ("is_packed", "has_padding_mask", "mean_tokens", "counter"),
    [
        (True, True, None, "reserved_peak"),
        (True, False, 300, "reserved_peak"),
        (False, False, None, "reserved_peak"),
        (False, True, None, "reserved_varied"),
        (False, False, 300, "reserved_varied"),
    ],
)
def test_lengths_change_where_rows_are_padded(
    is_packed: bool, has_padding_mask: bool, mean_tokens: int | None, counter: str
) -> None:
    recipe = SimpleNamespace(
        is_packed=is_packed,
        has_padding_mask=has_padding_mask,
        lengths=None if mean_tokens is None else Lengths(mean_tokens=mean_tokens),
    )
    assert counter_of("reserved_peak", recipe) == counter  # type: ignore[arg-type]
    assert counter_of("allocated_peak", recipe) == "allocated_peak"  # type: ignore[arg-type]


def test_cases_of_one_model_count_as_the_root_of_their_number() -> None:
    """Nine of one model weigh 3 of 103: 95 % lie below the others. Counted one by one they would be 9 of 109."""
    alike = Kind(engine="trl", quantity=f"{PEAK}.lora", family="trl", ratios=(Ratio("one", 1.5),) * 9)
    found = asked(alike, kind("trl", "lora", [1.0] * 100))
    assert (found.cases, found.models, found.value) == (109, 101, 1.0)
    assert found.weight == pytest.approx(103)
    assert conformal([1.5] * 9 + [1.0] * 100) == 1.5


def test_neither_the_model_nor_the_publisher_that_is_scored_is_behind_its_ceiling() -> None:
    own = kind("trl", "lora", [1.0] * 40 + [3.0])
    assert asked(own, without_model="trl lora 40").value == 1.0
    assert asked(own, OTHER_FRAMEWORK, without_family="trl").value == pytest.approx(1.4)


VALUES = st.lists(st.floats(0.2, 5.0), min_size=1, max_size=60)


@given(VALUES, VALUES, st.booleans())
def test_an_assumption_never_narrows(own: list[float], others: list[float], has_method: bool) -> None:
    kinds = kind("trl", "lora", own), kind("litgpt", "lora" if has_method else "full", others)
    assert asked(*kinds, is_assumed=True).value >= asked(*kinds).value >= 1.0


@given(st.lists(st.tuples(st.floats(0.2, 5.0), st.integers(1, 5)), min_size=1, max_size=30))
def test_a_weight_is_so_many_equal_cases(pairs: list[tuple[float, int]]) -> None:
    repeated = [value for value, count in pairs for _ in range(count)]
    assert conformal([v for v, _ in pairs], [float(n) for _, n in pairs]) == pytest.approx(conformal(repeated))


@given(VALUES)
def test_conformal_is_the_order_statistic(values: list[float]) -> None:
    rank = math.ceil(0.95 * (len(values) + 1) - 1e-9)
    if len(values) >= ENOUGH_CASES:
        assert conformal(values) == max(1.0, sorted(values)[rank - 1])
    else:
        assert rank > len(values)
        assert conformal(values) >= max(1.0, *values)
