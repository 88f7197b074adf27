"""A program's events run through the allocator."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from capienza.allocator.allocator import Allocator
from capienza.allocator.blocks import Block
from capienza.allocator.events import (
    ALLOC,
    BEGIN_POOL,
    EMPTY_CACHE,
    END_POOL,
    FREE,
    FREE_REQUESTED,
    MARK,
    RELEASE_POOL,
    Event,
)
from capienza.allocator.result import OutOfMemory, Peaks, Replay
from capienza.allocator.settings import Settings
from capienza.allocator.sizes import rounded_bytes, segment_bytes
from capienza.errors import InputError, template

NOT_ALIVE = template(
    "allocator.not-alive",
    "event {event}: block {block} is given back, but it is not alive",
    "Each block is allocated before it is freed, and freed once.",
)
ALIVE = template(
    "allocator.alive",
    "event {event}: block {block} is allocated, but it is alive already",
    "A block's identity is unique while it is alive.",
)
BAD_SIZE = template("allocator.bad-size", "event {event}: a size of {size} B", "Sizes are whole numbers from 0.")
BAD_CODE = template("allocator.bad-code", "event {event}: {code} is no code of an event", "See allocator.events.")
BAD_PHASE = template(
    "allocator.bad-phase", "event {event}: phase {phase} has no name; {count} names were given", "Give a name for each."
)
BAD_POOL = template(
    "allocator.bad-pool",
    "event {event}: pool {pool} cannot be opened, closed or released here",
    "A pool has a number from 1, is opened, closed in reverse order, and released once when it is closed.",
)
DEFAULTS = Settings()
NO_TICKET = 0


def replay(
    events: Iterable[Event],
    settings: Settings = DEFAULTS,
    capacity_bytes: int | None = None,
    phases: Sequence[str] = (),
) -> Replay:
    """Run the events; with a capacity, up to the allocation that the device cannot serve.

    `capacity_bytes` is what the allocator can reserve in all: the device without contexts and other processes.
    Raises `InputError` for events that no program can make (a block freed twice, a negative size).
    """
    state = Allocator(settings, capacity_bytes)
    device = state.device
    blocks: dict[int, Block | None] = {}
    let_go: dict[int, int] = {}
    spans: list[Peaks] = []
    out_of_memory = None
    name, first, index = "", 0, -1
    allocated = requested = active = reserved = 0
    allocated_event = reserved_event = allocated_at_reserved = 0
    split_at_reserved = state.inactive_split

    def span() -> Peaks:
        return Peaks(
            name=name,
            first_event=first,
            allocated_bytes=allocated,
            allocated_event=allocated_event,
            requested_bytes=requested,
            active_bytes=active,
            reserved_bytes=reserved,
            reserved_event=reserved_event,
            allocated_at_reserved_bytes=allocated_at_reserved,
            inactive_split_at_reserved_bytes=split_at_reserved,
        )

    for index, (code, block, size, stream) in enumerate(events):
        if code == ALLOC:
            if block in blocks:
                raise InputError(ALIVE(event=index, block=block))
            if size <= 0:
                if size < 0:
                    raise InputError(BAD_SIZE(event=index, size=size))
                # The allocator hands out nothing for an empty tensor.
                blocks[block] = None
                continue
            got = state.allocate(size, stream)
            if got is None:
                out_of_memory = _out_of_memory(state, index, name, size)
                break
            blocks[block] = got
            if state.allocated > allocated:
                allocated, allocated_event = state.allocated, index
            if state.requested > requested:
                requested = state.requested
            if state.active > active:
                active = state.active
            if device.reserved_bytes > reserved:
                reserved, reserved_event = device.reserved_bytes, index
                allocated_at_reserved, split_at_reserved = state.allocated, state.inactive_split
        elif code == FREE:
            try:
                gone = blocks.pop(block)
            except KeyError:
                if block not in let_go:
                    raise InputError(NOT_ALIVE(event=index, block=block)) from None
                state.complete(let_go.pop(block))
                continue
            if gone is not None:
                state.free(gone)
        elif code == MARK:
            if not 0 <= block < len(phases):
                raise InputError(BAD_PHASE(event=index, phase=block, count=len(phases)))
            if index > first or spans:
                spans.append(span())
            name, first = phases[block], index
            allocated, requested, active = state.allocated, state.requested, state.active
            reserved = device.reserved_bytes
            allocated_event = reserved_event = index
            allocated_at_reserved, split_at_reserved = state.allocated, state.inactive_split
        elif code == EMPTY_CACHE:
            state.empty_cache()
        elif code == FREE_REQUESTED:
            if block not in blocks or block in let_go:
                raise InputError(NOT_ALIVE(event=index, block=block))
            gone = blocks.pop(block)
            let_go[block] = NO_TICKET if gone is None else state.let_go(gone)
        elif code in (BEGIN_POOL, END_POOL, RELEASE_POOL):
            if not switch_pool(state, code, block, size):
                raise InputError(BAD_POOL(event=index, pool=block))
        else:
            raise InputError(BAD_CODE(event=index, code=code))
    spans.append(span())
    return Replay(
        peaks=whole(spans),
        phases=tuple(spans),
        events=index if out_of_memory else index + 1,
        device_allocations=device.allocations,
        device_frees=device.frees,
        final_allocated_bytes=state.allocated,
        final_reserved_bytes=device.reserved_bytes,
        out_of_memory=out_of_memory,
    )


def whole(spans: Sequence[Peaks], name: str = "") -> Peaks:
    """Several spans as one: of each figure the highest, at the first event that reached it."""
    live = max(spans, key=lambda one: one.allocated_bytes)
    held = max(spans, key=lambda one: one.reserved_bytes)
    return Peaks(
        name=name,
        first_event=spans[0].first_event,
        allocated_bytes=live.allocated_bytes,
        allocated_event=live.allocated_event,
        requested_bytes=max(one.requested_bytes for one in spans),
        active_bytes=max(one.active_bytes for one in spans),
        reserved_bytes=held.reserved_bytes,
        reserved_event=held.reserved_event,
        allocated_at_reserved_bytes=held.allocated_at_reserved_bytes,
        inactive_split_at_reserved_bytes=held.inactive_split_at_reserved_bytes,
    )


def _out_of_memory(state: Allocator, event: int, phase: str, size: int) -> OutOfMemory:
    settings = state.settings
    rounded = rounded_bytes(size, settings.roundup_power2_divisions)
    return OutOfMemory(
        event=event,
        phase=phase,
        requested_bytes=size,
        tried_bytes=segment_bytes(rounded, settings.large_segment_bytes),
        allocated_bytes=state.allocated,
        private_pools_bytes=sum(
            block.size
            for pool in state.private_pools.values()
            for home in pool.homes.values()
            for block in home.blocks.values()
        ),
        reserved_bytes=state.device.reserved_bytes,
        capacity_bytes=state.device.capacity_bytes,
        allowed_bytes=settings.allowed_bytes,
    )


def switch_pool(state: Allocator, code: int, number: int, is_capture: int) -> bool:
    """Open, close or release a private pool; whether that can be done now."""
    opened = [pool.number for pool, _ in state.open_pools]
    if code == BEGIN_POOL:
        return number > 0 and number not in opened and state.open_pool(number, bool(is_capture))
    if code == END_POOL:
        return opened[-1:] == [number] and state.close_pool()
    pool = state.private_pools.get(number)
    if pool is None or pool.is_released or number in opened:
        return False
    pool.is_released = True
    return True
