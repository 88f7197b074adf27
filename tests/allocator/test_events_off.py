"""Events that no program can make are refused with their place, and nothing else happens."""

from __future__ import annotations

import pytest

from allocator.programs import EMPTY, give, take
from capienza.allocator.events import BEGIN_POOL, END_POOL, FREE_REQUESTED, MARK, RELEASE_POOL, Event
from capienza.allocator.replay import replay
from capienza.errors import InputError


@pytest.mark.parametrize(
    ("events", "code", "event"),
    [
        (give(1), "allocator.not-alive", 0),
        ([take(1, 5), *give(1), *give(1)], "allocator.not-alive", 2),
        ([take(1, 0), *give(1), *give(1)], "allocator.not-alive", 2),
        ([(FREE_REQUESTED, 1, 0, 0)], "allocator.not-alive", 0),
        ([take(1, 5), (FREE_REQUESTED, 1, 0, 0), (FREE_REQUESTED, 1, 0, 0)], "allocator.not-alive", 2),
        ([take(1, 5), (FREE_REQUESTED, 1, 0, 0), *give(1, 1)], "allocator.not-alive", 3),
        ([take(1, 5), take(1, 5)], "allocator.alive", 1),
        ([take(1, -1)], "allocator.bad-size", 0),
        ([EMPTY, (99, 0, 0, 0)], "allocator.bad-code", 1),
        ([(MARK, 2, 0, 0)], "allocator.bad-phase", 0),
        ([(MARK, -1, 0, 0)], "allocator.bad-phase", 0),
        ([(END_POOL, 1, 0, 0)], "allocator.bad-pool", 0),
        ([(BEGIN_POOL, 0, 0, 0)], "allocator.bad-pool", 0),
        ([(BEGIN_POOL, 1, 0, 0), (BEGIN_POOL, 1, 0, 0)], "allocator.bad-pool", 1),
        ([(BEGIN_POOL, 1, 0, 0), (BEGIN_POOL, 2, 0, 0), (END_POOL, 1, 0, 0)], "allocator.bad-pool", 2),
        ([(BEGIN_POOL, 1, 0, 0), (RELEASE_POOL, 1, 0, 0)], "allocator.bad-pool", 1),
        ([(RELEASE_POOL, 1, 0, 0)], "allocator.bad-pool", 0),
        (
            [(BEGIN_POOL, 1, 0, 0), (END_POOL, 1, 0, 0), (RELEASE_POOL, 1, 0, 0), (BEGIN_POOL, 1, 0, 0)],
            "allocator.bad-pool",
            3,
        ),
    ],
)
def test_impossible_events(events: list[Event], code: str, event: int) -> None:
    with pytest.raises(InputError) as raised:
        replay(events, phases=("forward", "backward"))
    assert raised.value.message.code == code
    assert raised.value.message.parameters["event"] == event
