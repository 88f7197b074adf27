"""What `torch.cuda` answers while a program is traced, as if there were one card of that kind."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.cuda.amp.common
import torch.cuda.nvtx

from capienza.allocator.settings import Settings
from capienza.errors import UsageError, template
from capienza.trace import memory_api
from capienza.trace.kernels_call import Card
from capienza.trace.machine import Machine
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
GIVES_OUT_WORK = (
    "torch.distributed", "accelerate", "transformers.training_args", "transformers.utils.import_utils",
)  # fmt: skip


class _Properties:
    """What `torch.cuda.get_device_properties` tells, as far as programs ask; its processors are those of `Card`."""

    def __init__(self, machine: Machine) -> None:
        self.name, self.total_memory = machine.name, machine.total_bytes
        self.major, self.minor = machine.capability
        card = Card(machine.capability, multiprocessors=machine.multiprocessors)
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


def changes(tracker: Tracker, machine: Machine, settings: Settings) -> list[Change]:
    """What is changed for the program to meet that card."""
    cuda, name, capability = torch.cuda, machine.name, machine.capability
    properties = _Properties(machine)

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
        "memory_snapshot": lambda *_args, **_kwargs: [],
        "is_current_stream_capturing": lambda: False,
        "get_allocator_backend": lambda: "native",
        "initial_seed": torch.initial_seed,
        "get_rng_state": state,
        "get_rng_state_all": lambda: [state()],
        "CUDAGraph": _Graph,
        "graph": _Graph,
        "MemPool": _Pool,
        "make_graphed_callables": _Graph,
    }
    silent = (
        "synchronize", "ipc_collect", "_lazy_init", "init", "set_per_process_memory_fraction",
        "set_rng_state", "set_rng_state_all",
    )  # fmt: skip
    return [
        *memory_api.changes(tracker, settings, machine.total_bytes),
        *((cuda, attribute, answer) for attribute, answer in answers.items()),
        *((cuda, attribute, _nothing) for attribute in silent),
        *((cuda.memory, attribute, not_recorded) for attribute in ("_record_memory_history", "_dump_snapshot")),
        *((cuda.nvtx, attribute, _nothing) for attribute in ("range_push", "range_pop", "mark")),
        (cuda.nvtx, "range", lambda *_args, **_kwargs: contextlib.nullcontext()),
        (torch, "Generator", _Generator),
        # autocast("cuda") switches itself off without CUDA.
        (torch.cuda.amp.common, "amp_definitely_not_available", lambda: False),
    ]
