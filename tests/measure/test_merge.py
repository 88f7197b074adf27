"""Readings of several processes, merged by rank: GPUs told apart, nothing added, and what is missing said."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capienza.errors import InputError
from capienza.measure.merge import merged
from capienza.measure.readings import Writer

KINDS = ("allocated", "reserved")


def write(folder, rank, rows, *, name=None):
    """`rows`: (phase, counter, scope, device, values)."""
    writer = Writer(folder / (name or f"readings.{rank}.jsonl"), rank=rank)
    for phase, counter, scope, device, values in rows:
        number = writer.counter(counter, "B", scope, "made up", peak_of=phase, device=device)
        for value in values:
            writer.read(number, value)
        writer.phase(phase, 0.0, 1.0, "process")
    writer.close()


def shown(folder):
    return [(p.phase, p.counter, p.gpu, p.rank, p.peak_bytes, p.count) for p in merged(folder).peaks]


def test_each_rank_numbers_its_own_card_from_nought(tmp_path):
    write(tmp_path, 0, [("forward", "allocated", "gpu:0", "aa", [5, 9, 7])])
    write(tmp_path, 1, [("forward", "allocated", "gpu:0", "bb", [8, 8])])
    assert shown(tmp_path) == [
        ("forward", "allocated", 0, 0, 9, 3),
        ("forward", "allocated", 1, 1, 8, 2),
    ]
    assert merged(tmp_path).findings == ()


def test_two_processes_on_one_card_are_not_two_cards_and_are_not_added(tmp_path):
    write(tmp_path, 0, [("forward", "allocated", "gpu:0", "aa", [5])])
    write(tmp_path, 1, [("forward", "allocated", "gpu:0", "aa", [8])])
    assert shown(tmp_path) == [
        ("forward", "allocated", 0, 0, 5, 1),
        ("forward", "allocated", 0, 1, 8, 1),
    ]


def test_cards_without_an_identity_are_told_by_rank_and_number(tmp_path):
    write(tmp_path, 0, [("load", "allocated", f"gpu:{index}", None, [index]) for index in (10, 2)])
    write(tmp_path, 1, [("load", "allocated", "gpu:2", None, [7])])
    assert [(gpu, value) for _, _, gpu, _, value, _ in shown(tmp_path)] == [(0, 2), (1, 10), (2, 7)]


def test_main_memory_has_no_gpu_and_phases_stand_in_their_order(tmp_path):
    write(tmp_path, 0, [("export", "resident", "host", None, [4]), ("load", "resident", "host", None, [3])])
    assert shown(tmp_path) == [("load", "resident", None, 0, 3, 1), ("export", "resident", None, 0, 4, 1)]


def test_what_is_missing_is_said(tmp_path):
    write(tmp_path, 0, [("load", "resident", "host", None, [1]), ("eval", "resident", "host", None, [1])])
    write(tmp_path, 3, [("load", "resident", "host", None, [1])])
    texts = [str(finding) for finding in merged(tmp_path).findings]
    assert [text.partition(",")[0].partition("(")[0] for text in texts] == [
        "no readings of rank 1",
        "rank 3 has no reading of eval",
    ]


def test_closed_parts_and_the_sampler_are_no_ranks_of_their_own(tmp_path):
    write(tmp_path, 0, [("load", "resident", "host", None, [1])])
    write(tmp_path, 0, [("load", "resident", "host", None, [99])], name="readings.jsonl")
    (tmp_path / "readings.0.jsonl").rename(tmp_path / "readings.0-00001.jsonl")
    write(tmp_path, 0, [("load", "resident", "host", None, [2])])
    assert shown(tmp_path) == [("load", "resident", None, 0, 2, 2)]


def test_another_file_under_that_name_is_refused_by_its_place(tmp_path):
    (tmp_path / "readings.0.jsonl").write_text("hello\n")
    with pytest.raises(InputError) as refused:
        merged(tmp_path)
    assert refused.value.place.line == 1


def test_a_folder_without_processes_has_no_peaks(tmp_path):
    assert merged(tmp_path).peaks == ()


VALUES = st.lists(st.integers(0, 2**50), min_size=1, max_size=5)
ROWS = st.dictionaries(st.tuples(st.sampled_from(["load", "forward", "eval"]), st.sampled_from(KINDS)), VALUES)


@given(ranks=st.lists(ROWS, min_size=1, max_size=4))
def test_the_peak_is_the_highest_of_the_written_lines_by_rank(tmp_path_factory, ranks):
    """The oracle reads the lines themselves."""
    folder = tmp_path_factory.mktemp("run")
    for rank, rows in enumerate(ranks):
        write(folder, rank, [(phase, kind, "gpu:0", None, values) for (phase, kind), values in rows.items()])
    expected = {}
    for rank in range(len(ranks)):
        counters = {}
        for line in map(json.loads, (folder / f"readings.{rank}.jsonl").read_text().splitlines()):
            if "counter" in line:
                counters[line["counter"]] = (line["peak_of"], line["name"], rank)
            elif "c" in line:
                key = counters[line["c"]]
                expected[key] = max(line["v"], expected.get(key, 0))
    found = merged(folder).peaks
    assert {(peak.phase, peak.counter, peak.rank): peak.peak_bytes for peak in found} == expected
    used = sorted({peak.rank for peak in found})
    assert {peak.rank: peak.gpu for peak in found} == {rank: index for index, rank in enumerate(used)}
