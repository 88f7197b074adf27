"""Several items under way at once. Workers are daemons: a run that is interrupted does not wait for a slow server."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator

from capienza.quality.collect import Asked
from capienza.quality.corpus import Item

MOST_FAILED = 5
"""Items failed one after the other, after which no more are asked: nobody answers there."""


def at_once(work: Callable[[Item], Asked], items: Iterable[Item], concurrency: int) -> Iterator[Asked]:
    """What came of each item, in the order in which it came; at most `concurrency` are under way.

    After five failures in a row no further item is asked. What `work` raises is raised here.
    """
    wanted: queue.SimpleQueue[Item | None] = queue.SimpleQueue()
    came: queue.SimpleQueue[Asked | BaseException] = queue.SimpleQueue()
    left, running, failed = iter(items), 0, 0
    for _ in range(concurrency):
        threading.Thread(target=_work, args=(work, wanted, came), daemon=True).start()
    try:
        while True:
            while running < concurrency and failed < MOST_FAILED and (item := next(left, None)) is not None:
                wanted.put(item)
                running += 1
            if not running:
                return
            result = came.get()
            running -= 1
            if isinstance(result, BaseException):
                raise result
            failed = failed + 1 if result.answer is None else 0
            yield result
    finally:
        for _ in range(concurrency):
            wanted.put(None)


def _work(
    work: Callable[[Item], Asked],
    wanted: queue.SimpleQueue[Item | None],
    came: queue.SimpleQueue[Asked | BaseException],
) -> None:
    while (item := wanted.get()) is not None:
        try:
            came.put(work(item))
        except BaseException as error:
            came.put(error)
