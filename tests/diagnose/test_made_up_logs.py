"""Small logs in the shapes in which frameworks print: what `diagnose` answers, and which disguise changes nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up_logs import LOGS

from capienza.diagnose.run import diagnose_log

NAMES = [name for name, *_ in LOGS]
one_log = st.sampled_from([log for *_, log in LOGS])


def told(log: str | bytes) -> tuple:
    found = diagnose_log([log.encode() if isinstance(log, str) else log])
    return (
        found.phase, found.cause, found.memory, found.is_fatal, found.requested_bytes, found.total_bytes,
        found.free_bytes, found.allocated_bytes, found.reserved_unallocated_bytes, found.gpu_index,
    )  # fmt: skip


@pytest.mark.parametrize(("name", "phase", "cause", "memory", "is_fatal", "log"), LOGS, ids=NAMES)
def test_a_log_is_read(name, phase, cause, memory, is_fatal, log):
    found = diagnose_log([log.encode()])
    assert found.is_failure
    assert (found.phase, found.is_fatal) == (phase, is_fatal)
    assert found.memory == (memory or found.memory)
    assert found.cause == (cause or found.cause)
    assert found.evidence
    assert found.evidence_line is not None


@given(one_log, st.integers(1, 400))
def test_the_size_of_the_pieces_does_not_matter(log, size):
    data = log.encode()
    pieces = [data[start : start + size] for start in range(0, len(data), size)]
    assert diagnose_log(pieces) == diagnose_log([data])


@given(one_log, st.sampled_from(["\r\n", "\n"]), st.booleans(), st.booleans())
def test_line_ends_colour_and_byte_order_marks_do_not_matter(log, end, is_coloured, has_mark):
    text = log.replace("\n", end)
    if is_coloured:
        text = "".join(f"\x1b[31m{line}\x1b[0m" for line in text.splitlines(keepends=True))
    data = text.encode("utf-8-sig" if has_mark else "utf-8")
    assert told(data) == told(log)


@given(one_log, st.sampled_from(["[rank3]: ", "(EngineCore_DP0 pid=77) ", "[1,4]<stderr>:", "worker-0  | "]))
def test_the_name_of_a_process_before_each_line_does_not_matter(log, prefix):
    assert told("".join(prefix + line for line in log.splitlines(keepends=True))) == told(log)


@given(one_log, st.integers(1, 200))
def test_harmless_lines_before_do_not_matter(log, count):
    assert told("resolving packages ... done\n" * count + log) == told(log)


@given(one_log)
def test_the_same_log_twice_says_the_same(log):
    assert diagnose_log([log.encode()]) == diagnose_log([log.encode()])


@given(st.binary(max_size=4000))
def test_any_bytes_are_answered(data):
    diagnose_log([data])


@given(one_log, st.data())
def test_a_log_cut_anywhere_is_answered_and_its_figures_are_those_of_the_whole(log, data):
    """A cut may hide a figure; it must not make up another one, but for a number cut within its unit or digits."""
    at = data.draw(st.integers(0, len(log)))
    lines = log[:at].rpartition("\n")[0]
    whole, cut = diagnose_log([log.encode()]), diagnose_log([lines.encode()])
    for name in ("total_bytes", "free_bytes", "allocated_bytes"):
        assert getattr(cut, name) in (None, getattr(whole, name))


def test_what_did_not_fail_says_so():
    found = diagnose_log([b"step 1 loss 0.5\nstep 2 loss 0.4\ndone\n"])
    assert not found.is_failure
    assert (found.memory, found.is_fatal, found.lines) == ("no", False, 3)


def test_ten_thousand_retries_are_one_failure_with_a_count():
    line = b"| WARNING: ran out of memory, skipping batch\n"
    found = diagnose_log([line * 10_000])
    assert (found.evidence_lines, found.last_line, found.is_fatal) == (10_000, 10_000, False)


def test_lines_beyond_those_listed_are_counted():
    log = "".join(f"[rank{rank}]: CUDA out of memory. Tried to allocate 2.00 GiB.\n" for rank in range(200))
    found = diagnose_log([log.encode()])
    assert len(found.seen) == 20
    assert [note.parameters["count"] for note in found.notes] == [180]
