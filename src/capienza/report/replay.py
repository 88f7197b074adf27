"""A recording beside the model of the allocator, as a document and as JSON (`capienza.trace-replay/1`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from capienza.allocator.capacity import SmallestCapacity
from capienza.allocator.compare import Comparison, Difference
from capienza.allocator.result import OutOfMemory
from capienza.i18n.translator import Say
from capienza.report.blocks import Block, Document, Heading, Items, Paragraph, Table
from capienza.report.messages import message_data, sentence
from capienza.report.tool import TOOL
from capienza.units import telling_unit

if TYPE_CHECKING:
    from capienza.api.replaying import DeviceReplay, SnapshotReplay

REPLAY_SCHEMA = "capienza.trace-replay/1"
SHOWN_DIFFERENCES = 20


def replay_data(found: SnapshotReplay) -> dict[str, Any]:
    """Sizes in bytes; events and lines are counted from 0."""
    return {
        "schema": REPLAY_SCHEMA,
        "tool": TOOL,
        "snapshot": found.snapshot,
        "settings": found.settings,
        "devices": [
            {
                "same": one.comparison.is_same,
                **msgspec.to_builtins(one.comparison),
                "program": _capacity_data(one.recorded),
                "program_with_settings": None if one.otherwise is None else _capacity_data(one.otherwise),
            }
            for one in found.devices
        ],
        "notes": [message_data(message) for message in found.notes],
    }


def _capacity_data(found: SmallestCapacity) -> dict[str, Any]:
    unlimited = found.unlimited
    return {
        "peak_allocated_bytes": unlimited.peaks.allocated_bytes,
        "peak_requested_bytes": unlimited.peaks.requested_bytes,
        "peak_reserved_bytes": unlimited.peaks.reserved_bytes,
        "allocated_at_reserved_bytes": unlimited.peaks.allocated_at_reserved_bytes,
        "inactive_split_at_reserved_bytes": unlimited.peaks.inactive_split_at_reserved_bytes,
        "device_allocations": unlimited.device_allocations,
        "device_frees": unlimited.device_frees,
        "smallest_capacity_bytes": found.runs_bytes,
        "largest_failing_capacity_bytes": found.fails_bytes,
        "out_of_memory": None if found.out_of_memory is None else _out_of_memory_data(found.out_of_memory),
    }


def _out_of_memory_data(found: OutOfMemory) -> dict[str, Any]:
    return {
        **msgspec.to_builtins(found),
        "free_bytes": found.free_bytes,
        "reserved_unallocated_bytes": found.reserved_unallocated_bytes,
    }


def replay_document(found: SnapshotReplay, say: Say) -> Document:
    """The answer first, then the figures of both, where they differ, and what the program needs."""
    blocks: list[Block] = [Heading(say("Replay of {snapshot}", snapshot=found.snapshot), 1)]
    for one in found.devices:
        if len(found.devices) > 1:
            blocks.append(Heading(say("GPU {index}", index=one.comparison.device)))
        blocks += _device(one, found, say)
    if found.notes:
        blocks.append(Items(tuple(sentence(message, say) for message in found.notes)))
    return tuple(blocks)


def _device(one: DeviceReplay, found: SnapshotReplay, say: Say) -> list[Block]:
    compared = one.comparison
    blocks: list[Block] = [
        Paragraph(_answer(compared, say)),
        _figures(compared, say),
    ]
    if compared.differences:
        blocks += [Heading(say("Where they differ"), 3), _differences(compared.differences, say)]
    blocks += [Heading(say("The program from an empty GPU"), 3), _needs(one, found, say)]
    run = one.otherwise or one.recorded
    notes = (*(text for text in (_failing(run, say), _in_between(run, say)) if text), *_notes(compared, say))
    if notes:
        blocks.append(Items(notes))
    return blocks


def _answer(compared: Comparison, say: Say) -> str:
    count, total = say.number(compared.same_addresses), say.number(compared.allocations)
    if compared.is_same:
        return say(
            "Model and recording agree: the same calls to the device at the same moments. "
            "Allocations that got the very block of the recording: {count} of {total}.",
            count=count,
            total=total,
        )
    if not compared.difference_count:
        return say(
            "Model and recording hold different memory at the end; no call to the device differs. "
            "Allocations that got the very block of the recording: {count} of {total}.",
            count=count,
            total=total,
        )
    return say(
        "Model and recording differ at {places} moments. "
        "Allocations that got the very block of the recording: {count} of {total}.",
        places=say.number(compared.difference_count),
        count=count,
        total=total,
    )


def _figures(compared: Comparison, say: Say) -> Table:
    recorded, modelled = compared.recorded, compared.modelled
    rows = (
        (
            say("highest reserved"),
            _size(recorded.peak_reserved_bytes, say),
            _size(modelled.peak_reserved_bytes, say),
        ),
        (
            say("reserved at the end"),
            _size(recorded.final_reserved_bytes, say),
            _size(modelled.final_reserved_bytes, say),
        ),
        (
            say("calls of cudaMalloc, or mappings"),
            say.number(recorded.device_allocations),
            say.number(modelled.device_allocations),
        ),
        (say("calls of cudaFree, or unmappings"), say.number(recorded.device_frees), say.number(modelled.device_frees)),
    )
    return Table(columns=(say("figure"), say("recording"), say("model")), rows=rows, numeric=(1, 2))


def _differences(differences: tuple[Difference, ...], say: Say) -> Table:
    rows = tuple(
        (say.number(one.entry), _calls(one.recorded, say), _calls(one.modelled, say))
        for one in differences[:SHOWN_DIFFERENCES]
    )
    columns = (say("line of the history"), say("only in the recording"), say("only in the model"))
    return Table(columns=columns, rows=rows, numeric=(0,))


def _calls(calls: tuple[tuple[str, int], ...], say: Say) -> str:
    return ", ".join(f"{action} {_size(size, say)}" for action, size in calls) or "-"


def _needs(one: DeviceReplay, found: SnapshotReplay, say: Say) -> Table:
    columns = [(say("settings of the recording"), one.recorded)]
    if one.otherwise is not None:
        columns.append((found.settings or say("default settings"), one.otherwise))
    rows = (
        (say("highest allocated"), *(_size(run.unlimited.peaks.allocated_bytes, say) for _, run in columns)),
        (say("highest reserved"), *(_size(run.unlimited.peaks.reserved_bytes, say) for _, run in columns)),
        (say("at that moment cached or fragmented"), *(_size(_cached(run), say) for _, run in columns)),
        (say("of that in segments partly in use"), *(_split(run, say) for _, run in columns)),
        (
            say("smallest capacity with which it runs"),
            *(say("none") if run.runs_bytes is None else say.size(run.runs_bytes, unit="MiB") for _, run in columns),
        ),
    )
    heads = (say("figure"), *(name for name, _ in columns))
    return Table(columns=heads, rows=rows, numeric=tuple(range(1, len(heads))))


def _cached(run: SmallestCapacity) -> int:
    return run.unlimited.peaks.reserved_bytes - run.unlimited.peaks.allocated_at_reserved_bytes


def _split(run: SmallestCapacity, say: Say) -> str:
    split = run.unlimited.peaks.inactive_split_at_reserved_bytes
    return "-" if split is None else _size(split, say)


def _failing(run: SmallestCapacity, say: Say) -> str | None:
    """What fails one step below."""
    failed = run.out_of_memory
    if failed is None or run.fails_bytes is None:
        return None
    # Two steps of the search differ by 2 MiB: in GiB they could look alike.
    return say(
        "With {capacity} it fails, seen by the replay: {asked} are asked for, {free} are free on the GPU, {cached} are "
        "reserved and unallocated.",
        capacity=say.size(run.fails_bytes, unit="MiB"),
        asked=say.size(failed.requested_bytes, unit="MiB"),
        free=say.size(run.fails_bytes - failed.reserved_bytes, unit="MiB"),
        cached=say.size(failed.reserved_unallocated_bytes, unit="MiB"),
    )


def _in_between(run: SmallestCapacity, say: Say) -> str | None:
    """More memory is not always better."""
    reserved = run.unlimited.peaks.reserved_bytes
    if run.runs_bytes is None or run.runs_bytes >= reserved:
        return None
    return say(
        "From {reserved} on it always runs; between {runs} and that a capacity can still fail, since the segments that "
        "are there decide what fits.",
        reserved=say.size(reserved, unit="MiB"),
        runs=say.size(run.runs_bytes, unit="MiB"),
    )


def _notes(compared: Comparison, say: Say) -> tuple[str, ...]:
    notes = []
    if compared.start_reserved_bytes:
        notes.append(
            say(
                "The recording begins in the middle of a run, with {size} allocated: how that lay is worked out from "
                "its end, and from an empty GPU it is laid out anew.",
                size=_size(compared.start_allocated_bytes, say),
            )
        )
    if compared.lost_blocks:
        notes.append(
            say(
                "Blocks that the history frees or uses twice and the snapshot does not explain: {count}.",
                count=say.number(compared.lost_blocks),
            )
        )
    if compared.out_of_memory_events:
        notes.append(
            say("Times that memory ran out in the recording: {count}.", count=say.number(compared.out_of_memory_events))
        )
    if compared.unknown_actions:
        kinds = ", ".join(f"{action} ({say.number(count)})" for action, count in compared.unknown_actions)
        notes.append(say("Kinds of lines that the replay passes over: {kinds}.", kinds=kinds))
    if compared.difference_count > SHOWN_DIFFERENCES:
        notes.append(say("Only the first {count} differences are listed.", count=SHOWN_DIFFERENCES))
    return tuple(notes)


def _size(size: int, say: Say) -> str:
    return say.size(size, unit=telling_unit(size))
