"""Threads of a traced program, and what is known to have no form without data."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from capienza.errors import InputError, UsageError  # noqa: E402
from capienza.trace import predict_peak  # noqa: E402

pytestmark = pytest.mark.oracle


def traced(step: Callable[[], object]) -> Any:
    return predict_peak(lambda: None, lambda _state: step(), device="L40S", most_seconds=120)


def on_the_card() -> Any:
    return torch.zeros(4, device="cuda")


def in_a_thread(work: Callable[[], object]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def in_a_pool(work: Callable[[], object]) -> None:
    with ThreadPoolExecutor(2) as pool:
        pool.submit(work).result()


def behind_a_wait(work: Callable[[], object]) -> None:
    done = threading.Event()
    threading.Thread(target=lambda: (work(), done.set()), daemon=True).start()
    done.wait()


def on_a_given_tensor(work: Callable[[], object]) -> None:
    given = work()
    in_a_thread(lambda: given + 1)  # type: ignore[operator]


@pytest.mark.parametrize("way", [in_a_thread, in_a_pool, behind_a_wait, on_a_given_tensor])
def test_an_operation_on_another_thread_ends_the_trace(
    way: Callable[[Callable[[], object]], None], capfd: pytest.CaptureFixture[str]
) -> None:
    """A program that waits for the thread is ended too."""
    start = threading.Thread.start
    with pytest.raises(UsageError, match="on a thread that the program started"):
        traced(lambda: way(on_the_card))
    assert threading.Thread.start is start
    assert "Traceback" not in capfd.readouterr().err


def test_another_thread_may_work_in_main_memory() -> None:
    read: list[Any] = []

    def step() -> None:
        in_a_thread(lambda: read.append(torch.zeros(1024) + 1))
        read[-1].cuda()

    assert traced(step).gpus[0].requested_bytes == 4096


def test_data_parallel_is_refused() -> None:
    with pytest.raises(UsageError, match="DataParallel is not supported"):
        traced(lambda: torch.nn.DataParallel(torch.nn.Linear(4, 4).cuda()))


STOPPED: dict[str, tuple[Callable[[], object], str]] = {
    "sparse": (lambda: on_the_card().to_sparse(), "trace.stopped-sparse"),
    "sparse gradient": (
        lambda: torch.nn.Embedding(8, 4, sparse=True).cuda()(on_the_card().long()).sum().backward(),
        "trace.stopped-sparse",
    ),
    "nested": (lambda: torch.nested.nested_tensor([on_the_card()]), "trace.stopped-nested"),
    "ctc": (
        lambda: torch.nn.functional.ctc_loss(
            torch.randn(5, 2, 4, device="cuda").log_softmax(2),
            torch.ones(2, 2, dtype=torch.long, device="cuda"),
            torch.full((2,), 5),
            torch.full((2,), 2),
        ),
        "trace.stopped-ctc",
    ),
    "cell": (lambda: torch.nn.GRUCell(4, 4).cuda()(torch.randn(2, 4, device="cuda")), "trace.stopped-cell"),
    "other": (lambda: torch.randn(2, 3, device="cuda") @ torch.randn(2, 3, device="cuda"), "trace.stopped"),
}


@pytest.mark.parametrize("name", STOPPED)
def test_what_cannot_be_traced_is_told_by_name(name: str) -> None:
    step, code = STOPPED[name]
    with pytest.raises(InputError) as caught:
        traced(step)
    assert caught.value.message.code == code
