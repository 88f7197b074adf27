"""Programs for the tests: short names for events, and random ones."""

from __future__ import annotations

from hypothesis import strategies as st

from capienza.allocator.events import ALLOC, EMPTY_CACHE, FREE, FREE_REQUESTED, Event

KIB, MIB = 2**10, 2**20
EMPTY: Event = (EMPTY_CACHE, 0, 0, 0)


def take(block: int, size: int, stream: int = 0) -> Event:
    """The program allocates."""
    return ALLOC, block, size, stream


def give(*blocks: int) -> list[Event]:
    """The program frees."""
    return [(FREE, block, 0, 0) for block in blocks]


SIZES = st.one_of(
    st.sampled_from((1, 512, 513, MIB - 1, MIB, MIB + 1, 10 * MIB - 1, 10 * MIB, 20 * MIB, 30 * MIB + 1)),
    st.integers(1, 4 * KIB),
    st.integers(1, 3 * MIB),
    st.integers(1, 64 * MIB),
)


@st.composite
def programs(draw: st.DrawFn, streams: int = 2, lets_go: bool = True, most: int = 80) -> list[Event]:
    """A program that frees only what lives; blocks are used by other streams now and then if `lets_go`."""
    alive: list[int] = []
    waiting: list[int] = []
    events: list[Event] = []
    sizes = draw(st.lists(SIZES, min_size=1, max_size=6))
    for number in range(draw(st.integers(1, most))):
        kind = draw(st.integers(0, 19))
        if kind < 10 or not alive:
            alive.append(number)
            events.append(take(number, draw(st.sampled_from(sizes)), draw(st.integers(0, streams - 1))))
        elif kind < 17:
            events += give(alive.pop(draw(st.integers(0, len(alive) - 1))))
        elif kind == 17 and lets_go:
            waiting.append(alive.pop(draw(st.integers(0, len(alive) - 1))))
            events.append((FREE_REQUESTED, waiting[-1], 0, 0))
        elif kind == 18 and waiting:
            events += give(waiting.pop(0))
        elif kind == 19:
            events.append(EMPTY)
    return events
