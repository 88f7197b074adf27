"""A trace as entries of the ledger: each phase at the moment when most is allocated in it.

The entries of a phase add up to what the allocator holds then and what its cache grew to: tensors as they were asked
for, by what they are for; `rounding` the allocator's blocks over that; `cached` reserved over allocated. What a trace
cannot see stays an unknown entry.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from capienza.allocator.result import Peaks, Replay
from capienza.errors import Message, template
from capienza.ledger.entry import Entry
from capienza.ledger.phase import Phase
from capienza.trace import holders
from capienza.trace.recording import Recording
from capienza.units import Range

ROUNDING, CACHED, CONTEXT = "rounding", "cached", "context"

HELD = template(
    "trace.formula-held",
    "{count} storages alive after event {event} of the trace; the largest, {largest_bytes}, from {op} in {module}",
)
ROUNDED = template("trace.formula-rounding", "blocks of {allocated_bytes} for storages of {requested_bytes}")
KEPT = template(
    "trace.formula-cached", "{reserved_bytes} reserved at most in this phase, {allocated_bytes} allocated at most"
)
BY_TRACE = template("trace.source", "the program run on fake tensors, its events through the caching allocator")
A_READING = template(
    "trace.proof-context",
    "the process's reading of the driver less torch.cuda.memory_reserved, on that card",
    "measure the run on the intended card",
)


def entries_of(recording: Recording, device: int, gpu: str, found: Replay) -> list[Entry]:
    """The entries of one GPU, by its number in the recording and its name in the ledger."""
    named = holders.categories(recording, device)
    # Names of the program's own are one phase of the ledger, unknown: each at its highest, they would be added up.
    spans: dict[Phase, list[Peaks]] = defaultdict(list)
    for span in found.phases:
        if span.name:
            spans[_known(span.name)].append(span)
    entries: list[Entry] = []
    for phase, of in spans.items():
        highest = max(of, key=lambda span: span.allocated_bytes)
        reserved = max(span.reserved_bytes for span in of)
        entries += _phase(recording, device, gpu, phase, highest, reserved, named)
    phases = tuple(spans)
    entries.append(
        Entry(
            name=CONTEXT,
            phases=phases,
            device=gpu,
            amount=None,
            status="unknown",
            needs=("a reading on the card",),
            expected_proof=A_READING(),
        )
    )
    return entries


def _phase(
    recording: Recording, device: int, gpu: str, phase: Phase, span: Peaks, reserved_bytes: int, named: list[str]
) -> list[Entry]:
    event = span.allocated_event
    totals: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    largest: dict[str, int] = {}
    for block in holders.alive(recording, device, event):
        name, size = named[block], recording.sizes[block]
        totals[name] += size
        counts[name] += 1
        if name not in largest or size > recording.sizes[largest[name]]:
            largest[name] = block
    asked = sum(totals.values())
    made = [
        _entry(name, phase, gpu, total, _held(recording, event, counts[name], largest[name]))
        for name, total in totals.items()
    ]
    made.append(
        _entry(
            ROUNDING,
            phase,
            gpu,
            span.allocated_bytes - asked,
            ROUNDED(allocated_bytes=span.allocated_bytes, requested_bytes=asked),
        )
    )
    kept = KEPT(reserved_bytes=reserved_bytes, allocated_bytes=span.allocated_bytes)
    made.append(_entry(CACHED, phase, gpu, reserved_bytes - span.allocated_bytes, kept))
    return made


def _held(recording: Recording, event: int, count: int, block: int) -> Message:
    return HELD(
        count=count,
        event=event,
        largest_bytes=recording.sizes[block],
        op=recording.ops[block],
        module=recording.modules[block] or "-",
    )


def _entry(name: str, phase: Phase, gpu: str, size_bytes: int, formula: Message) -> Entry:
    return Entry(
        name=name,
        phases=(phase,),
        device=gpu,
        amount=Range(0, size_bytes, size_bytes),
        status="estimated",
        formula=formula,
        source=BY_TRACE(),
    )


def _known(name: str) -> Phase:
    try:
        return Phase(name)
    except ValueError:
        return Phase.UNKNOWN
