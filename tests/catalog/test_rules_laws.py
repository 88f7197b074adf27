"""Laws of the rules, and a second reading of the same sources as an oracle."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capienza.catalog.capability import GpuTraits, in_families, is_built_for, traits_of
from capienza.catalog.devices import load_devices, table
from capienza.catalog.offer import GpuClaim
from capienza.catalog.outcome import host_outcomes, outcomes
from capienza.catalog.release import build_of, is_within, parse_release
from capienza.catalog.rules import load_pins, load_rules
from capienza.catalog.selection import ANY_WEIGHTS, Combination
from capienza.predict.combination import engine_release
from capienza.truth import Truth

LAW = settings(max_examples=500, deadline=None)
RULES = load_rules()
SUBJECTS = sorted({subject for rule in RULES for subject in rule.subjects} - {"host"})
CAPABILITIES = [
    (6, 0),
    (6, 1),
    (7, 0),
    (7, 5),
    (8, 0),
    (8, 6),
    (8, 9),
    (9, 0),
    (10, 0),
    (10, 3),
    (11, 0),
    (12, 0),
    (12, 1),
]

versions = st.sampled_from(
    [
        None,
        "0.33.0",
        "0.31.1",
        "0.14.0",
        "0.11.2",
        "0.5.23",
        "0.5.22",
        "5.24.0",
        "4.57.1",
        "3.3.5",
        "2026.10.9",
        "99",
        "b6000",
    ]
)
combinations = st.builds(
    lambda engine, version, subjects, packages: Combination(
        engine=engine,
        version=version,
        release=engine_release(version, engine),
        subjects=frozenset({"start", ANY_WEIGHTS, *subjects}),
        packages=tuple(sorted(packages.items())),
    ),
    st.sampled_from(["vllm", "sglang", "transformers", "unsloth", "tgi", "llama.cpp", "transformer-engine", "other"]),
    versions,
    st.lists(st.sampled_from(SUBJECTS), max_size=4),
    st.dictionaries(
        st.sampled_from(["torch", "triton", "driver", "cuda_max", "rocm", "cpu_arch", "cuda"]),
        st.sampled_from(["2.14.0+cu130", "2.11.0+cu126", "3.4", "580.95", "12.8", "aarch64", "x86_64", "?", "7.0"]),
        max_size=3,
    ),
)  # fmt: skip
gpus = st.one_of(
    st.sampled_from(sorted(load_devices())).map(lambda key: traits_of(GpuClaim(name_raw=key, candidates=(key,)))[0]),
    st.sampled_from(CAPABILITIES).map(lambda pair: GpuTraits(name="x", vendor="NVIDIA", capability=pair)),
)


def judged(combination, gpu, rules=RULES):
    found = (*outcomes(combination, gpu, rules), *host_outcomes(combination, gpu, rules))
    return {(one.rule.id, one.truth, one.met, one.is_read) for one in found if one.rule is not None}


def excluding(combination, gpu, rules=RULES):
    return {identity for identity, truth, _, _ in judged(combination, gpu, rules) if truth is Truth.FALSE}


@LAW
@given(combinations, gpus, st.integers(0, 2**32))
def test_order_free(combination, gpu, seed):
    shuffled = list(RULES)
    random.Random(seed).shuffle(shuffled)
    assert judged(combination, gpu, shuffled) == judged(combination, gpu)


@LAW
@given(combinations, gpus, st.data())
def test_removing_a_rule_never_excludes_more(combination, gpu, data):
    """Also several at once: what takes their place is a rule of another release, which excludes nothing."""
    before = excluding(combination, gpu)
    spoken = sorted(identity for identity, *_ in judged(combination, gpu)) or [RULES[0].id]
    gone = data.draw(st.sets(st.sampled_from(spoken), min_size=1))
    assert excluding(combination, gpu, [rule for rule in RULES if rule.id not in gone]) <= before


@LAW
@given(combinations, gpus)
def test_only_what_was_read_at_this_release_excludes(combination, gpu):
    by_id = {rule.id: rule for rule in RULES}
    for identity in excluding(combination, gpu):
        rule = by_id[identity]
        if rule.software == combination.engine:
            assert rule.covers(combination.release)
        else:
            assert rule.covers(parse_release(combination.known_packages[rule.software]))
        assert rule.violation in ("refused", "no_kernel")


@LAW
@given(combinations, gpus)
def test_every_outcome_can_be_read(combination, gpu):
    for one in (*outcomes(combination, gpu), *host_outcomes(combination, gpu)):
        assert str(one.reason)
        assert one.rule is None or one.rule.id in str(one.reason)


@given(
    st.tuples(st.integers(0, 130), st.integers(0, 9)),
    st.tuples(st.integers(0, 130), st.integers(0, 9)),
    st.sampled_from(["", "a"]),
)
def test_built_code_runs_within_its_major_alone(built, chip, suffix):
    """An oracle by the guide's words: same major, same or higher minor; with a suffix, that chip."""
    name = f"sm_{built[0]}{built[1]}{suffix}"
    runs = chip == built if suffix else chip[0] == built[0] and chip[1] in range(built[1], 100)
    assert is_built_for(chip, [name]) == runs


def test_a_list_of_capabilities_is_not_monotone():
    mxfp8 = next(rule for rule in RULES if rule.id == "hw.mxfp8")
    assert [capability for capability in CAPABILITIES if in_families(capability, mxfp8.families)] == [(10, 0), (10, 3)]
    flashmla = next(rule for rule in RULES if rule.id == "vllm.flashmla")
    assert [pair[0] for pair in CAPABILITIES if in_families(pair, flashmla.families)] == [9, 10, 10]


@pytest.mark.parametrize(
    "release, first, last, expected",
    [
        ("0.33.1", "0.33", "0.33", True),
        ("0.5.2", "0.5.23", "0.5.23", False),
        ("0.5.23.post1", "0.5.23", "0.5.23", True),
        ("0.30", "0.28", "0.33", True),
        ("0.34", "0.28", "0.33", False),
        ("0.9", "0.28", "0.33", False),
        ("13.0", "13", "13", True),
        ("1.0", "0.28", "0.33", False),
        ("5", "5.24", "5.24", False),
    ],
)
def test_a_release_is_within_what_was_read(release, first, last, expected):
    assert is_within(parse_release(release), parse_release(first), parse_release(last)) is expected


@pytest.mark.parametrize(
    "text, expected",
    [("580.95.05", (580, 95, 5)), ("v0.11.2", (0, 11, 2)), ("2.14.0+cu130", (2, 14, 0)), ("b6000", None), ("", None),
     (None, None), ("9" * 400, (999999999,)), ("latest", None), ("-1", None)],
)  # fmt: skip
def test_numbers_of_releases(text, expected):
    assert parse_release(text) == expected


def test_the_build_behind_the_plus():
    assert build_of("2.11.0+cu126") == "cu126"
    assert build_of("2.11.0") == build_of(None) == ""


# What `get_min_capability` returns in the two wheels, read a second time, with `ast`.
VLLM_MINIMA = {
    "awq": 75, "gptq": 60, "ct-mxfp4": 80, "ct-nvfp4": 75, "ct-w4a8-fp8": 90, "ct-w8a16-fp8": 75, "ct-w8a8-int8": 75,
    "ct-mxfp8": 75, "ct-wna16": 75, "experts-int8": 80, "fbgemm-fp8": 80, "fp8": 75, "fp-quant": 100, "humming": 75,
    "auto-round": 60, "modelopt-fp8": 80, "modelopt-mxfp8": 80, "modelopt-nvfp4": 75, "moe-wna16": 70, "mxfp4": 80,
    "online": 75, "quark": 70, "torchao": 75,
}  # fmt: skip
SGLANG_MINIMA = {
    "auto-round": 60, "awq": 75, "awq-marlin": 80, "bnb-4bit": 70, "blockwise-int8": 80, "ct-nvfp4a16": 80,
    "ct-nvfp4": 100, "ct-w8a16-fp8": 80, "ct-w8a8-int8": 80, "ct-wna16": 80, "fp8": 80, "mxfp8": 100, "gguf": 60,
    "gptq": 60, "gptq-marlin": 80, "humming": 75, "modelopt-nvfp4": 80, "modelopt-fp8": 89, "moe-wna16": 70,
    "mxfp4": 80, "nvfp4-online": 100, "quark": 70, "w4afp8": 90, "w8a8-fp8": 89, "w8a8-int8": 75,
}  # fmt: skip


@pytest.mark.parametrize(
    "engine, version, minima", [("vllm", "0.33.0", VLLM_MINIMA), ("sglang", "0.5.23", SGLANG_MINIMA)]
)
def test_the_minima_of_a_second_reading(engine, version, minima):
    for kind, minimum in minima.items():
        asked = Combination(
            engine=engine, version=version, release=parse_release(version), subjects=frozenset({f"weights:{kind}"})
        )
        for capability in CAPABILITIES:
            gpu = GpuTraits(name="x", vendor="NVIDIA", capability=capability)
            refused = bool(excluding(asked, gpu))
            assert refused == (capability[0] * 10 + capability[1] < minimum), (kind, capability)


def test_the_data_is_of_one_piece():
    assert len({rule.id for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule.source, rule.id
        assert rule.subjects, rule.id
        assert rule.violation in ("refused", "no_kernel", "slower", "silently_larger")
        assert (rule.first is None) == (rule.last is None), rule.id
        assert rule.violation != "silently_larger" or (rule.becomes and rule.factor > 1), rule.id
        assert rule.minimum is None or rule.maximum is None or rule.minimum <= rule.maximum
        assert len(rule.sha256) == 64
        assert rule.read_on
    assert all(pin.source and pin.first and pin.last for pin in load_pins())


def test_drivers_of_a_toolkit_are_never_older_than_its_major_accepts():
    """The table of shipped drivers agrees with the minima of minor-version compatibility."""
    least = {rule.first[0]: parse_release(rule.needs) for rule in RULES if rule.id.startswith("cuda.minor.")}
    rows = [row for row in table("cuda_drivers.csv") if parse_release(row["toolkit"])[0] in least]
    assert len(rows) > 30
    for row in rows:
        assert parse_release(row["linux_driver"]) >= least[parse_release(row["toolkit"])[0]], row
