"""A traced program ends at its limit whatever it does, and nothing of the limit is left behind."""

from __future__ import annotations

import contextlib
import gc
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from capienza.errors import InputError  # noqa: E402
from capienza.trace import predict_peak, watch  # noqa: E402
from capienza.trace.watch import TraceLimit, Watch  # noqa: E402

pytestmark = pytest.mark.oracle
LIMIT_S, FOR_EVER_S = 0.3, 1e6


@pytest.fixture(autouse=True)
def _insists_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "GENTLE_S", 0.1)


def spin() -> None:
    while True:
        pass


def spin_a_little() -> None:
    for _ in range(1000):
        pass


def spin_on_one_line() -> None:
    while True: time.monotonic()  # fmt: skip  # noqa: E701


def catch_all() -> None:
    while True:
        with contextlib.suppress(BaseException):
            spin()


def catch_operations() -> None:
    while True:
        try:
            torch.zeros(4, device="cuda") + 1
        except BaseException:
            continue


def catch_in_turn() -> None:
    while True:
        try:
            try:
                time.sleep(FOR_EVER_S)
            except BaseException:
                continue
        except BaseException:
            continue


def catch_twice_without_waiting() -> None:
    while True:
        try:
            try:
                spin()
            except BaseException:
                continue
        except BaseException:
            continue


def make_another_error() -> None:
    try:
        spin()
    except BaseException:
        sys.exit(3)


def end_as_if_nothing_had_been() -> None:
    with contextlib.suppress(BaseException):
        spin()


def wait_at_the_end() -> None:
    try:
        spin()
    finally:
        spin()


def wait_for_a_lock() -> None:
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def wait_for_an_event() -> None:
    threading.Event().wait()


def wait_for_a_row() -> None:
    while True:
        try:
            queue.Queue[int]().get(timeout=5)
        except:  # noqa: E722
            continue


class _Slow:
    def __del__(self) -> None:
        spin()


def destroy() -> None:
    while True:
        _Slow()


RUNNING = (
    spin, spin_on_one_line, catch_all, catch_operations, catch_twice_without_waiting, make_another_error,
    end_as_if_nothing_had_been, wait_at_the_end, destroy,
)  # fmt: skip
WAITING = (
    lambda: time.sleep(FOR_EVER_S), catch_in_turn, wait_for_a_lock, wait_for_an_event, wait_for_a_row,
)  # fmt: skip


def model() -> Any:
    return torch.nn.Linear(4, 4).cuda()


def ends(step: Callable[[Any], object], build: Callable[[], Any] = lambda: None, **limits: float) -> None:
    with pytest.raises(InputError, match="the trace did not end") as caught:
        predict_peak(build, step, device="L40S", **(limits or {"most_seconds": LIMIT_S}))  # type: ignore[arg-type]
    assert caught.value.message.code == "trace.limit"


def begins_and_ends(endless: Callable[[], None]) -> None:
    begun: list[bool] = []

    def step(_state: None) -> None:
        begun.append(True)
        endless()

    ends(step)
    assert begun == [True]


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    """Neither an error on its way, nor a handler, nor a trace function, nor a thread."""
    before = (signal.getsignal(signal.SIGURG), sys.gettrace(), sys.unraisablehook, torch.is_grad_enabled())
    threads = threading.active_count()
    yield
    spin_a_little()
    time.sleep(0.05)
    assert (signal.getsignal(signal.SIGURG), sys.gettrace(), sys.unraisablehook, torch.is_grad_enabled()) == before
    assert threading.active_count() == threads
    assert not torch.cuda.is_available()
    assert type(torch.zeros(1)) is torch.Tensor


@pytest.mark.parametrize("endless", RUNNING + WAITING)
def test_a_step_that_does_not_end_is_stopped(endless: Callable[[], None], capfd: pytest.CaptureFixture[str]) -> None:
    begins_and_ends(endless)
    gc.collect()
    assert "TraceLimit" not in capfd.readouterr().err


@pytest.mark.parametrize("endless", [spin, catch_all, lambda: time.sleep(FOR_EVER_S)])
def test_a_build_that_does_not_end_is_stopped(endless: Callable[[], None]) -> None:
    ends(lambda _state: None, endless)


@pytest.mark.parametrize("endless", RUNNING)
def test_on_another_thread_what_runs_is_stopped(endless: Callable[[], None]) -> None:
    """What waits there cannot be: the explanation says so."""
    seen: list[object] = []

    def work() -> None:
        try:
            begins_and_ends(endless)
            seen.append("ended")
        except BaseException as error:
            seen.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == ["ended"]


def test_a_limit_of_operations_is_kept_by_a_program_that_catches_it() -> None:
    ends(lambda _state: catch_operations(), most_ops=50)


def test_what_a_program_undoes_itself_is_undone() -> None:
    """The first times it is told to stop, it may put things in order."""
    seen: list[str] = []

    def step(_state: None) -> None:
        try:
            spin()
        finally:
            seen.append("one")
            spin_a_little()
            seen.append("two")

    ends(step)
    assert seen == ["one", "two"]


def test_a_model_made_before_is_given_back() -> None:
    made = torch.nn.Linear(4, 4)
    before, moved_to = id(made.weight), list[str]()

    def step(moved: Any) -> None:
        with torch.no_grad():
            moved(torch.zeros(2, 4, device="cuda"))
            moved_to.append(moved.weight.device.type)
            spin()

    ends(step, made.cuda, most_seconds=2)
    assert moved_to == ["cuda"]
    assert id(made.weight) == before
    assert torch.is_grad_enabled()


def test_the_next_trace_is_not_disturbed() -> None:
    begins_and_ends(spin)
    found = predict_peak(model, lambda layer: layer(torch.zeros(2, 4, device="cuda")), device="L40S", most_seconds=600)
    assert found.allocated_bytes > 0


def test_a_piece_that_ends_in_time_is_left_alone() -> None:
    one = Watch(600)
    assert [one.run(lambda: 1), one.run(lambda: 2)] == [1, 2]
    assert not one.is_over


def test_a_piece_after_the_limit_is_not_begun() -> None:
    one = Watch()
    one.end()
    with pytest.raises(TraceLimit):
        one.run(lambda: pytest.fail("it ran"))
