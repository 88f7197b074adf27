"""Peaks by phase: worked by hand, and against going through every reading of every phase."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from capienza.evidence.vocabulary import PHASES
from capienza.measure.peaks import peaks_of
from capienza.measure.readings import Writer


def written(folder, readings, spans):
    writer = Writer(folder / "readings.jsonl")
    counters = {}
    for scope, t, value in readings:
        if scope not in counters:
            counters[scope] = writer.counter("device", "B", scope, "test")
        writer.read(counters[scope], value, t=t)
    for phase, start, end, *source in spans:
        writer.phase(phase, start, end, *(source or ["log"]))
    writer.close()
    return {(one.phase, one.scope): one.value for one in peaks_of(folder, {}).peaks}


def test_a_short_phase_has_the_first_reading_after_it(tmp_path):
    readings = [("gpu:0", 0.1, 5), ("gpu:0", 0.2, 7), ("gpu:0", 0.3, 9), ("gpu:0", 0.4, 3)]
    found = written(tmp_path, readings, [("load", 0.11, 0.19), ("decode", 0.3, None), ("prefill", 0.31, 0.33)])
    assert found == {
        ("run", "gpu:0"): 9,
        ("load", "gpu:0"): 7,
        ("decode", "gpu:0"): 9,
        ("prefill", "gpu:0"): 3,
    }


def test_a_value_that_stays_counts_for_every_phase_it_lasts_through(tmp_path):
    readings = [("gpu:0", tick / 10, 5) for tick in range(100)]
    found = written(tmp_path, readings, [("load", 2.0, 3.0), ("decode", 4.0, 4.5)])
    assert set(found.values()) == {5}
    assert {phase for phase, _ in found} == {"run", "load", "decode"}


def test_what_a_process_says_of_a_phase_goes_before_its_printed_lines(tmp_path):
    readings = [("gpu:0", tick / 10, tick) for tick in range(100)]
    steps = [(phase, 1.0, 9.0) for phase in ("forward", "backward", "optimizer_step_steady")]
    inside = [("forward", 1.0, 2.0, "process"), ("backward", 2.0, 3.0, "process")]
    found = written(tmp_path, readings, [*steps, *inside])
    # A phase has the first reading after it too.
    assert found == {
        ("run", "gpu:0"): 99,
        ("forward", "gpu:0"): 21,
        ("backward", "gpu:0"): 31,
        ("optimizer_step_steady", "gpu:0"): 91,
    }


spans = st.lists(
    st.tuples(st.sampled_from(PHASES[:4]), st.integers(0, 60), st.none() | st.integers(0, 30)), max_size=8
).map(
    lambda rows: [
        (phase, start / 10, None if length is None else (start + length) / 10) for phase, start, length in rows
    ]
)


@given(st.lists(st.tuples(st.sampled_from(["gpu:0", "gpu:1"]), st.integers(0, 3)), max_size=60), spans)
def test_peaks_are_those_of_every_reading_by_itself(tmp_path_factory, values, spans):
    # Of a phase that is written twice with one start, the last line counts; and times have three decimals.
    spans = list({(phase, start): (phase, start, end) for phase, start, end in spans}.values())
    readings = [(scope, round(0.05 + tick / 10, 3), value) for tick, (scope, value) in enumerate(values)]
    expected = {}
    for scope in ("gpu:0", "gpu:1"):
        own = [(t, value) for one, t, value in readings if one == scope]
        if own:
            expected["run", scope] = max(value for _, value in own)
        for phase, start, end in spans:
            within = [value for t, value in own if t >= start and (end is None or t <= end)]
            after = [value for t, value in own if t >= start and end is not None and t > end][:1]
            for value in within + after:
                expected[phase, scope] = max(value, expected.get((phase, scope), 0))
    found = written(tmp_path_factory.mktemp("run"), readings, spans)
    # Readings in a row with one value are one line: it may reach into a phase with its last, and stands for all.
    assert found == expected
