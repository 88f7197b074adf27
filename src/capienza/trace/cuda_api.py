"""What `torch.cuda` answers while a program is traced, as if there were one card of that kind.

Its memory is read from the recording: asked for, not what the allocator makes of it, as that is only known at the end.
"""

from __future__ import annotations

import contextlib
import sys
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch
import torch.cuda.amp.common
import torch.cuda.nvtx

from capienza.allocator.events import ALLOC, FREE
from capienza.errors import UsageError, template
from capienza.trace.kernels_call import Card
from capienza.trace.recording import Recording
from capienza.trace.streams import Place
from capienza.trace.tracker import Tracker

Change = tuple[Any, str, Any]
GRAPHS = template(
    "trace.cuda-graphs",
    "CUDA graphs are not supported: the memory that a graph keeps for itself is not followed",
    "trace the program without them, and add the graph's pool as measured on the card",
)
POOLS = template(
    "trace.memory-pools",
    "memory pools (torch.cuda.MemPool) are not supported: what lies in them would be counted in the common one",
    "trace the program without them",
)
NOT_RECORDED = template(
    "trace.not-recorded",
    "the program's own recording of its memory was left out",
    "`found.traced` and `capienza trace --snapshot` hold the trace",
)
LIBRARIES = frozenset(
    {
        "torch", "torchvision", "torchaudio", "transformers", "accelerate", "peft", "bitsandbytes", "diffusers", "trl",
        "timm", "triton", "capienza",
    }
)  # fmt: skip
SMALLEST_SHARED_BYTES = 99 << 10
"""Shared memory that a block may ask for on compute capability 8.6, 8.9 and 12 (CUDA programming guide, technical
specifications): the least of the cards since Ampere; others have 163 or 227 KiB."""
GIVES_OUT_WORK = ("torch.distributed", "accelerate")


class _Properties:
    """What `torch.cuda.get_device_properties` tells, as far as programs ask; its processors are those of `Card`."""

    def __init__(self, name: str, capability: tuple[int, int], total_bytes: int) -> None:
        self.name, (self.major, self.minor), self.total_memory = name, capability, total_bytes
        card = Card(capability)
        self.multi_processor_count, self.warp_size, self.regs_per_multiprocessor = card.processors, 32, 65536
        self.max_threads_per_multi_processor = card.threads_a_processor
        self.shared_memory_per_block_optin = SMALLEST_SHARED_BYTES
        self.gcnArchName = ""


class _Graph:
    """A graph of kernels keeps a pool of its own, which is not followed."""

    def __init__(self, *_args: object, **_kwargs: object) -> None:
        raise UsageError(GRAPHS())


class _Pool:
    """A pool of a program's own."""

    def __init__(self, *_args: object, **_kwargs: object) -> None:
        raise UsageError(POOLS())


class _IsGenerator(type(torch.Generator)):  # type: ignore[misc]
    """Every generator is one."""

    def __instancecheck__(cls, one: object) -> bool:
        """Those too that were made before the trace."""
        return isinstance(one, torch._C.Generator)


class _Generator(torch.Generator, metaclass=_IsGenerator):
    """A generator for `cuda` is one of main memory here: its numbers are never made."""

    def __new__(cls, *_device: object, **_named: object) -> _Generator:
        """One of main memory, whatever the device."""
        return super().__new__(cls)


class _Memory:
    """What a program asks of its memory: bytes that live, and the most since they were last reset."""

    def __init__(self, recording: Recording, place: Place) -> None:
        self.recording, self.place = recording, place
        self.begins: dict[int, int] = {}

    def live(self, *device: Any, **named: Any) -> int:
        """Of that device."""
        return self._read(self.place.index(*(device or named.values() or (None,))))[0]

    def most(self, *device: Any, **named: Any) -> int:
        """Of that device, since the last reset."""
        return self._read(self.place.index(*(device or named.values() or (None,))))[1]

    def reset(self, *device: Any, **named: Any) -> None:
        """From here on."""
        index = self.place.index(*(device or named.values() or (None,)))
        self.begins[index] = len(self.recording.events.get(index, ()))

    def stats(self, *device: Any, **named: Any) -> dict[str, int]:
        """What is known of them; the others are 0, as on a card where nothing of the kind has happened."""
        live, most = self._read(self.place.index(*(device or named.values() or (None,))))
        found: dict[str, int] = defaultdict(int)
        for kind in ("allocated_bytes", "active_bytes", "requested_bytes", "reserved_bytes"):
            found |= {f"{kind}.all.current": live, f"{kind}.all.peak": most}
        return found

    def _read(self, index: int) -> tuple[int, int]:
        live = most = 0
        sizes, begin = self.recording.sizes, self.begins.get(index, 0)
        for place, (code, block, size, _stream) in enumerate(self.recording.events.get(index, ())):
            if place == begin:
                most = live
            live += size if code == ALLOC else -sizes[block] if code == FREE else 0
            most = max(most, live)
        return live, most if begin < len(self.recording.events.get(index, ())) else live


def _works_alone(caller: str) -> bool:
    """A library would look for more than there is; those that give out work have to see the GPUs."""
    return caller.partition(".")[0] in LIBRARIES and not caller.startswith(GIVES_OUT_WORK)


def _nothing(*_args: object, **_kwargs: object) -> None:
    return None


def _for_programs(yes: Any, real: Callable[..., Any]) -> Callable[..., Any]:
    """A program that chooses its device is to choose the GPU."""

    def answer() -> Any:
        return real() if _works_alone(sys._getframe(1).f_globals.get("__name__", "")) else yes

    return answer


def changes(tracker: Tracker, name: str, capability: tuple[int, int], total_bytes: int) -> list[Change]:
    """What is changed for the program to meet that card."""
    cuda, memory = torch.cuda, _Memory(tracker.recording, tracker.place)
    properties, empty_cache = _Properties(name, capability, total_bytes), torch.cuda.empty_cache

    def emptied() -> None:
        empty_cache()
        tracker.recording.empty_cache()

    def state(*_device: object) -> torch.Tensor:
        return torch.zeros(16, dtype=torch.uint8, device="cpu")

    def not_recorded(*_args: object, **_kwargs: object) -> None:
        tracker.assumed[NOT_RECORDED.code] = NOT_RECORDED()

    answers = {
        "is_available": _for_programs(True, lambda: False),
        "device_count": _for_programs(1, lambda: 0),
        "is_initialized": _for_programs(True, cuda.is_initialized),
        "is_bf16_supported": lambda *_args, **_kwargs: capability >= (8, 0),
        "get_device_capability": lambda *_args: capability,
        "get_device_properties": lambda *_args: properties,
        "get_device_name": lambda *_args: name,
        "mem_get_info": lambda *device: (max(0, total_bytes - memory.live(*device)), total_bytes),
        "memory_allocated": memory.live,
        "memory_reserved": memory.live,
        "max_memory_allocated": memory.most,
        "max_memory_reserved": memory.most,
        "reset_peak_memory_stats": memory.reset,
        "reset_max_memory_allocated": memory.reset,
        "reset_max_memory_cached": memory.reset,
        "memory_stats": memory.stats,
        "memory_snapshot": lambda *_args, **_kwargs: [],
        "is_current_stream_capturing": lambda: False,
        "get_allocator_backend": lambda: "native",
        "initial_seed": torch.initial_seed,
        "memory_summary": lambda *device, **_kwargs: f"{memory.live(*device[:1])} B live",
        "empty_cache": emptied,
        "get_rng_state": state,
        "get_rng_state_all": lambda: [state()],
        "CUDAGraph": _Graph,
        "graph": _Graph,
        "MemPool": _Pool,
        "make_graphed_callables": _Graph,
    }
    silent = (
        "synchronize", "ipc_collect", "_lazy_init", "init", "set_per_process_memory_fraction",
        "set_rng_state", "set_rng_state_all", "reset_accumulated_memory_stats",
    )  # fmt: skip
    return [
        *((cuda, attribute, answer) for attribute, answer in answers.items()),
        *((cuda, attribute, _nothing) for attribute in silent),
        *((cuda.memory, attribute, not_recorded) for attribute in ("_record_memory_history", "_dump_snapshot")),
        *((cuda.nvtx, attribute, _nothing) for attribute in ("range_push", "range_pop", "mark")),
        (cuda.nvtx, "range", lambda *_args, **_kwargs: contextlib.nullcontext()),
        (torch, "Generator", _Generator),
        # autocast("cuda") switches itself off without CUDA.
        (torch.cuda.amp.common, "amp_definitely_not_available", lambda: False),
    ]
