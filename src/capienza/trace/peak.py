"""`predict_peak`: the peak of a PyTorch program on a card that is not here.

Legend: allocated what the program's tensors take in the allocator's blocks (torch.cuda.max_memory_allocated); reserved
what the allocator holds from the device (max_memory_reserved); device what the driver counts for the process: reserved
and the CUDA context, which no trace sees; smallest capacity the least that the allocator must be able to reserve for
the program to end, found by running its events through the allocator again and again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from capienza.allocator.capacity import SmallestCapacity, smallest_capacity_bytes
from capienza.allocator.result import Peaks, Replay
from capienza.allocator.settings import Settings
from capienza.errors import InputError, Message, template
from capienza.ledger.entry import Entry
from capienza.ledger.ledger import Ledger
from capienza.trace import holders
from capienza.trace.entries import entries_of
from capienza.trace.guesses import Guess, Routing
from capienza.trace.holders import Holder
from capienza.trace.machine import Machine, machine_of
from capienza.trace.ranks import unseen
from capienza.trace.ranks.cards import own_gpu
from capienza.trace.ranks.run import traces
from capienza.trace.ranks.world import worlds_of
from capienza.trace.run import CPU, CUDA, DEFAULTS, Traced, trace
from capienza.trace.tracker import Progress

State = TypeVar("State")
NEVER = template(
    "trace.never-fits",
    "{gpu} runs out of memory whatever it has: {requested_bytes} more are asked for in the phase {phase}, with "
    "{allocated_bytes} allocated",
    "check the sizes of the program, and what the allocator's settings allow",
)
MOST_OPS, MOST_SECONDS = 5_000_000, 1_800.0


HOST = Machine("cpu", (0, 0), 0)


class PhasePeak(msgspec.Struct, frozen=True):
    """One phase on one GPU: its peaks, each at its own moment. A phase that comes again counts with its highest."""

    phase: str
    gpu: str
    allocated_bytes: int
    requested_bytes: int
    reserved_bytes: int


class GpuPeak(msgspec.Struct, frozen=True):
    """The whole program on one GPU."""

    gpu: str
    allocated_bytes: int
    requested_bytes: int
    reserved_bytes: int
    smallest_capacity_bytes: int | None
    """None: the program fails whatever the capacity (a limit of the allocator's settings)."""
    cuda_mallocs: int
    phases: tuple[PhasePeak, ...]
    holders: tuple[Holder, ...]
    """What is alive when most is allocated, the largest first."""
    replay: Replay


class Prediction(msgspec.Struct, frozen=True):
    """What a program will hold, and what had to be assumed to say so."""

    device: str
    ledger: Ledger
    gpus: tuple[GpuPeak, ...]
    guesses: tuple[Guess, ...]
    kernels: tuple[tuple[str, int], ...]
    """The attention kernels that were assumed, and how often."""
    assumed: tuple[Message, ...]
    """What the choice of a kernel took for granted."""
    unknown: tuple[Message, ...]
    """What no fake kernel shows and no table holds: it is missing from every figure."""
    warnings: tuple[Message, ...]
    traced: Traced
    """Of several ranks, that of the one that needs most."""
    ranks: tuple[Prediction, ...] = ()
    """Each rank that was traced, by itself; empty for a program of one process."""

    @property
    def allocated_bytes(self) -> int:
        """The peak of `torch.cuda.max_memory_allocated` on the GPU that needs most."""
        return max(gpu.allocated_bytes for gpu in self.gpus)

    @property
    def reserved_bytes(self) -> int:
        """The peak of `torch.cuda.max_memory_reserved` on the GPU that needs most."""
        return max(gpu.reserved_bytes for gpu in self.gpus)


def predict_peak(
    build: Callable[[], State],
    step: Callable[[State], object],
    *,
    steps: int = 2,
    device: str = "H100",
    settings: Settings = DEFAULTS,
    routing: Routing = "balanced",
    most_ops: int = MOST_OPS,
    most_seconds: float = MOST_SECONDS,
    progress: Progress | None = None,
    world_size: int | None = None,
    rank: int | None = None,
    ranks: Sequence[int] | None = None,
) -> Prediction:
    """Run `build()` once and `step(state)` so many times on fake tensors, and say what a `device` would hold.

    The program makes its model and inputs on `cuda` itself; nothing is computed, and no memory is taken for it. The
    second step shows the steady peak, as the first makes the optimizer's states. `settings` are those of
    PYTORCH_ALLOC_CONF. With the device "cpu" the program is one for main memory, and `requested_bytes` is what
    PyTorch's allocator there counts. Raises `UsageError` for a card whose kernels are not known or a program that
    uses no `cuda`, `InputError` for a program that stops or does not end.

    With a `world_size` the program is one process of so many: it finds the environment of torchrun and a process group
    that answers every collective at once, and `rank` (0 unless given) is traced, or each of `ranks` in turn, for each
    of which `build` is called. The GPU of rank 3 is "gpu:3". What the communication library holds is not seen: it is
    an unknown entry.
    """
    worlds = worlds_of(world_size, rank, ranks)
    machine = HOST if device == CPU else machine_of(device)
    options: dict[str, Any] = {
        "steps": steps,
        "machine": machine,
        "device_type": CPU if device == CPU else CUDA,
        "settings": settings,
        "routing": routing,
        "most_ops": most_ops,
        "most_seconds": most_seconds,
        "progress": progress,
    }
    if not worlds:
        return predicted(trace(build, step, **options), machine.name, settings)
    return joined([predicted(one, machine.name, settings) for one in traces(build, step, worlds, **options)])


def predicted(traced: Traced, device: str, settings: Settings = DEFAULTS) -> Prediction:
    """What a trace says of the memory of its devices; of a rank, on its own GPU."""
    recording = traced.recording
    names, strays = own_gpu(traced)
    found = {
        index: smallest_capacity_bytes(events, settings, recording.phases)
        for index, events in sorted(recording.events.items())
        if index in names
    }
    gpus = tuple(_gpu(traced, index, names[index], one) for index, one in found.items())
    entries: list[Entry] = []
    for index, one in found.items():
        seen = entries_of(recording, index, names[index], one.unlimited)
        phases = tuple(dict.fromkeys(phase for entry in seen for phase in entry.phases))
        entries += [*seen, *unseen.entries_of(traced.unknown, names[index], phases)]
    return Prediction(
        device=device,
        ledger=Ledger(entries=tuple(entries), gpus=tuple(gpu.gpu for gpu in gpus)),
        gpus=gpus,
        guesses=traced.guesses,
        kernels=traced.kernels,
        assumed=traced.assumed,
        unknown=traced.unknown,
        warnings=traced.warnings + strays,
        traced=traced,
    )


def joined(found: Sequence[Prediction]) -> Prediction:
    """Several ranks as one: their GPUs, and of what was assumed everything once."""
    most = max(found, key=lambda one: one.reserved_bytes)
    return msgspec.structs.replace(
        most,
        ledger=Ledger(
            entries=tuple(entry for one in found for entry in one.ledger.entries),
            gpus=tuple(gpu for one in found for gpu in one.ledger.gpus),
        ),
        gpus=tuple(gpu for one in found for gpu in one.gpus),
        guesses=tuple(dict.fromkeys(guess for one in found for guess in one.guesses)),
        assumed=tuple(dict.fromkeys(message for one in found for message in one.assumed)),
        unknown=tuple(dict.fromkeys(message for one in found for message in one.unknown)),
        warnings=tuple(dict.fromkeys(message for one in found for message in one.warnings)),
        ranks=tuple(found),
    )


def _gpu(traced: Traced, index: int, name: str, least: SmallestCapacity) -> GpuPeak:
    found = least.unlimited
    if found.out_of_memory is not None:
        failed = found.out_of_memory
        raise InputError(
            NEVER(
                gpu=name,
                requested_bytes=failed.requested_bytes,
                allocated_bytes=failed.allocated_bytes,
                phase=failed.phase,
            )
        )
    peaks = found.peaks
    named = holders.categories(traced.recording, index)
    return GpuPeak(
        gpu=name,
        allocated_bytes=peaks.allocated_bytes,
        requested_bytes=peaks.requested_bytes,
        reserved_bytes=peaks.reserved_bytes,
        smallest_capacity_bytes=least.runs_bytes,
        cuda_mallocs=found.device_allocations,
        phases=tuple(_phase(name, phase, spans) for phase, spans in by_phase(found).items()),
        holders=holders.holders(traced.recording, index, peaks.allocated_event, named),
        replay=found,
    )


def by_phase(found: Replay) -> dict[str, list[Peaks]]:
    """The spans of each phase, in the order in which phases first come."""
    spans: dict[str, list[Peaks]] = {}
    for span in found.phases:
        if span.name:
            spans.setdefault(span.name, []).append(span)
    return spans


def _phase(gpu: str, phase: str, spans: list[Peaks]) -> PhasePeak:
    return PhasePeak(
        phase=phase,
        gpu=gpu,
        allocated_bytes=max(span.allocated_bytes for span in spans),
        requested_bytes=max(span.requested_bytes for span in spans),
        reserved_bytes=max(span.reserved_bytes for span in spans),
    )
