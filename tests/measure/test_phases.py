"""Phases marked from inside a program: their peaks, their nesting, and what happens where nothing can be written."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capienza import measure
from capienza.errors import UsageError
from capienza.ledger.phase import Phase
from capienza.measure import phases, recorder, resident, torch_gpu
from capienza.measure.merge import merged
from capienza.measure.meter import Meter
from capienza.measure.readings import Readings

MB = 1_000_000


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    """No test writes where another one did."""
    monkeypatch.delenv("CAPIENZA_RUN", raising=False)
    monkeypatch.delenv("RANK", raising=False)
    yield
    measure.stop()


@pytest.fixture
def levels(monkeypatch):
    """One counter whose peaks the test sets: each boundary takes the next of a list."""
    waiting: list[int] = []
    meter = Meter("allocated", "gpu:0", "made up")
    monkeypatch.setattr(torch_gpu, "take", lambda: {meter: waiting.pop(0)} if waiting else {})
    monkeypatch.setattr(resident, "take", dict)
    return waiting


def peaks_of(folder):
    return {(peak.phase, peak.counter): (peak.peak_bytes, peak.count) for peak in merged(folder).peaks}


def touched(size):
    block = bytearray(size)
    block[::4096] = b"x" * len(block[::4096])
    return block


def run(program, **environment):
    """A program of its own, so that what it imports and how it ends are its own."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_nothing_happens_where_nothing_is_recorded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with measure.phase("backward"), measure.cpu_allocator():
        pass
    assert phases.current() is None
    assert list(tmp_path.iterdir()) == []


def test_a_phase_has_the_resident_peak_of_what_lived_in_it(tmp_path):
    measure.write_to(tmp_path)
    with measure.phase("load"):
        block = touched(200 * MB)
        del block
    with measure.phase("forward"):
        pass
    measure.stop()
    found = peaks_of(tmp_path)
    assert found["load", "resident"][0] > found["forward", "resident"][0] + 150 * MB


def test_what_a_phase_holds_at_its_start_belongs_to_it(tmp_path):
    measure.write_to(tmp_path)
    block = touched(100 * MB)
    with measure.phase("forward"):
        pass
    del block
    with measure.phase("backward"):
        pass
    measure.stop()
    found = peaks_of(tmp_path)
    assert found["forward", "resident"][0] > found["backward", "resident"][0] + 80 * MB


def test_an_inner_phase_counts_in_the_outer_one_too(tmp_path, levels):
    measure.write_to(tmp_path)
    levels += [7, 5, 9, 6]  # before the outer one; before, in and after the inner one
    with measure.phase("forward"), measure.phase("communication"):
        pass
    measure.stop()
    assert peaks_of(tmp_path) == {("forward", "allocated"): (9, 1), ("communication", "allocated"): (9, 1)}


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5), st.integers(0, 100)), max_size=30))
def test_each_phase_has_the_highest_of_all_boundaries_it_was_open_at(tmp_path_factory, moves):
    """Phases that overlap in any way: the oracle keeps every level that each of them saw."""
    folder = tmp_path_factory.mktemp("run")
    made = recorder.Recorder(folder, 0)
    meter = Meter("allocated", "gpu:0", "made up")
    seen, opened, expected = {}, {}, {}
    level = [0]
    made._boundary = lambda **_: recorder_boundary(made, meter, level[0])
    closing = [(False, which, 0) for which in range(6)]
    for begins, which, level[0] in [*moves, *closing]:
        phase = list(Phase)[which]
        if begins == (phase in opened):
            continue
        for other in opened:
            seen[other].append(level[0])
        if begins:
            opened[phase], seen[phase] = made.begin(phase), []
        else:
            made.end(opened.pop(phase))
            expected[phase.value] = max([*seen[phase], expected.get(phase.value, 0)])  # at least its own end
    made.close()
    assert {peak.phase: peak.peak_bytes for peak in merged(folder).peaks} == expected


def recorder_boundary(made, meter, value):
    for one in made._open:
        one.peaks[meter] = max(value, one.peaks.get(meter, 0))


def test_the_first_optimizer_step_is_one_of_its_own(tmp_path, levels):
    measure.write_to(tmp_path)
    levels += [0, 30, 0, 20, 0, 25]
    for step in range(3):
        with measure.phase("optimizer_step", step=step):
            pass
    measure.stop()
    found = peaks_of(tmp_path)
    assert found == {
        ("optimizer_step_first", "allocated"): (30, 1),
        ("optimizer_step_steady", "allocated"): (25, 2),
    }
    spans = Readings(tmp_path / "readings.0.jsonl").phases()
    assert [span.step for span in spans] == [0, 1, 2]


def test_validation_is_eval_and_a_decorator_works(tmp_path, levels):
    measure.write_to(tmp_path)
    levels += [0, 3]

    @measure.phase("validation")
    def judge():
        return 4

    assert judge() == 4
    measure.stop()
    assert peaks_of(tmp_path) == {("eval", "allocated"): (3, 1)}


@pytest.mark.parametrize("name", ["bakward", "", "None", "x" * 1000])
def test_a_name_that_is_no_phase_is_said_even_where_nothing_is_recorded(name):
    with pytest.raises(UsageError, match="there is no phase"), measure.phase(name):
        pass


def test_an_exception_ends_its_phase_and_goes_on(tmp_path, levels):
    measure.write_to(tmp_path)
    levels += [0, 11]
    with pytest.raises(MemoryError), measure.phase("backward"):
        raise MemoryError
    measure.stop()
    assert peaks_of(tmp_path) == {("backward", "allocated"): (11, 1)}


def test_a_killed_process_leaves_the_phase_it_was_in(tmp_path):
    program = """
        import os, signal, time
        from capienza import measure
        with measure.phase("load"):
            pass
        with measure.phase("backward"):
            time.sleep(0.5)
            os.kill(os.getpid(), signal.SIGKILL)
    """
    assert run(program, CAPIENZA_RUN=str(tmp_path)).returncode == -9
    found = merged(tmp_path)
    assert [str(finding) for finding in found.findings] == ["rank 0: backward began and did not end"]
    assert {peak.phase for peak in found.peaks} == {"load"}


def test_a_process_that_ends_by_itself_leaves_all(tmp_path):
    program = """
        from capienza import measure
        with measure.phase("export"):
            pass
        opened = measure.phase("eval")
        opened.__enter__()
    """
    ended = run(program, CAPIENZA_RUN=str(tmp_path), RANK="3")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert Readings(tmp_path / "readings.3.jsonl").header.rank == 3
    assert {peak.phase for peak in merged(tmp_path).peaks} == {"export", "eval"}


def test_a_second_process_of_one_rank_writes_a_file_of_its_own(tmp_path):
    program = """
        from capienza import measure
        with measure.phase("load"):
            pass
    """
    for _ in range(2):
        assert run(program, CAPIENZA_RUN=str(tmp_path)).returncode == 0
    assert len(list(tmp_path.iterdir())) == 2
    (peak,) = merged(tmp_path).peaks
    assert peak.count == 2


def test_a_forked_child_disturbs_nothing(tmp_path):
    program = """
        import os
        from capienza import measure
        with measure.phase("load"):
            child = os.fork()
            if child == 0:
                with measure.phase("data"):
                    pass
                raise SystemExit(0)
            os.waitpid(child, 0)
    """
    ended = run(program, CAPIENZA_RUN=str(tmp_path))
    assert ended.returncode == 0, ended.stderr
    assert {peak.phase: peak.count for peak in merged(tmp_path).peaks}["load"] == 1
    assert len(list(tmp_path.iterdir())) == 2


def test_a_signal_in_the_middle_of_a_phase_does_not_hang(tmp_path):
    program = """
        import signal
        from capienza import measure
        def save(*_):
            with measure.phase("checkpoint"):
                pass
            signal.setitimer(signal.ITIMER_REAL, 0.001)  # one at a time: the next begins when this one is done
        signal.signal(signal.SIGALRM, save)
        signal.setitimer(signal.ITIMER_REAL, 0.001)
        for step in range(2000):
            with measure.phase("forward", step=step):
                pass
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
    """
    ended = run(program, CAPIENZA_RUN=str(tmp_path))
    assert ended.returncode == 0, ended.stderr
    spans = Readings(tmp_path / "readings.0.jsonl").phases()
    assert [span.step for span in spans if span.phase == "forward"] == list(range(2000))
    assert any(span.phase == "checkpoint" for span in spans)


def test_the_resident_size_is_read_first_and_then_once_a_second(tmp_path, monkeypatch):
    now = [0.0]
    measure.write_to(tmp_path)
    monkeypatch.setattr(phases.current()._writer, "now", lambda: now[0])
    for _ in range(40):
        with measure.phase("forward"):
            now[0] += 0.1
    measure.stop()
    counts = {peak.counter: peak.count for peak in merged(tmp_path).peaks}
    assert counts == {"resident": recorder.READ_FIRST + 3}


def test_what_finds_no_room_is_counted_and_said(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(recorder, "MAX_WAITING", 0)
    measure.write_to(tmp_path)
    with measure.phase("forward"):
        pass
    measure.stop()
    assert "2 lines of readings found no room" in capsys.readouterr().err


def test_a_folder_stays_where_it_was_when_the_program_moves(tmp_path):
    program = """
        import os
        from capienza import measure
        with measure.phase("load"):
            os.mkdir("elsewhere")
            os.chdir("elsewhere")
        with measure.phase("forward"):
            pass
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    environment = os.environ | {"CAPIENZA_RUN": "run"}
    subprocess.run(command, env=environment, cwd=tmp_path, check=True, timeout=120)
    assert {peak.phase for peak in merged(tmp_path / "run").peaks} == {"load", "forward"}


def test_a_folder_that_cannot_be_written_is_said_once_and_stops_nothing(tmp_path):
    (tmp_path / "file").write_text("")
    program = """
        from capienza import measure
        for _ in range(3):
            with measure.phase("load"):
                print("worked")
    """
    ended = run(program, CAPIENZA_RUN=str(tmp_path / "file" / "run"))
    assert ended.stdout == "worked\n" * 3
    assert ended.returncode == 0
    assert ended.stderr.count("readings of this process are not written") == 1


def test_a_disk_that_fills_up_is_said_once_and_stops_nothing(tmp_path, monkeypatch, capsys):
    measure.write_to(tmp_path)
    with measure.phase("load"):
        pass
    writer = phases.current()._writer

    def full(**_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writer, "flush", full)
    monkeypatch.setattr(writer, "_write", full)
    for _ in range(3):
        with measure.phase("forward"):
            pass
    measure.stop()
    assert capsys.readouterr().err.count("No space left on device") == 1


def test_phases_of_many_threads_are_all_there(tmp_path, levels):
    measure.write_to(tmp_path)

    def work():
        for _ in range(50):
            with measure.phase("communication"):
                pass

    threads = [threading.Thread(target=work) for _ in range(4)]
    levels += [1] * 500
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    measure.stop()
    assert peaks_of(tmp_path)["communication", "allocated"][1] == 200


def test_neither_torch_nor_transformers_is_imported_by_it(tmp_path):
    program = """
        import sys
        from capienza import measure
        with measure.phase("load"):
            pass
        assert not {"torch", "transformers", "pynvml"} & set(sys.modules)
    """
    ended = run(program, CAPIENZA_RUN=str(tmp_path))
    assert ended.returncode == 0, ended.stderr


def test_a_kernel_that_resets_nothing_gives_another_counter(monkeypatch):
    monkeypatch.setattr(resident, "CLEAR", "/proc/self/no-such-file")
    (meter,) = resident.take()
    assert meter.name == "resident_at_end"


def test_a_system_without_proc_has_no_such_counter(monkeypatch):
    monkeypatch.setattr(resident, "STATUS", str(Path("/no-such-file")))
    assert resident.take() == {}


@pytest.mark.parametrize(("text", "rank"), [(None, 0), ("", 0), ("7", 7), ("-1", 0), ("x", 0), ("9" * 30, 0), ("²", 0)])
def test_ranks(text, rank):
    assert phases.rank_of(text) == rank
