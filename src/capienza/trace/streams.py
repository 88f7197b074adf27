"""On which device and in which stream a traced program works.

The caching allocator keeps the free blocks of each stream apart: what was made in a side stream serves only that stream
again. So the stream that is current at a birth goes into the event. Waiting does nothing, as all work of a trace is
done at once, and `record_stream` delays no free: a block can be used again when its last reference goes. Backward
passes run in the stream that is current then. Streams come from pools of 32, one for each priority of a device, round
and round, as in c10/cuda/CUDAStream.cpp.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch

POOL, DEFAULT = 32, 0
_exchange = torch._C._accelerator_exchangeDevice
DEVICES = 8
"""As many devices as the guard for fake tensors has."""


class Place:
    """The current device, and the current stream of each device."""

    def __init__(self, device: int = 0) -> None:
        self.device = device
        self.is_chosen = False
        self.is_deferring = False
        """Has the program asked that a free wait for another stream?"""
        self.current: dict[int, int] = {}
        self._given: dict[tuple[int, int], int] = {}

    def stream(self, device: int) -> int:
        """The current stream of a device."""
        return self.current.get(device, DEFAULT)

    def choose(self, device: Any) -> int:
        """Make a device the current one; the one before. A negative number changes nothing."""
        before, index = self.device, self.index(device)
        if index >= 0:
            self.go(index)
            self.is_chosen = True
        return before

    def go(self, device: int) -> None:
        """Work on a device from here on. PyTorch's C++ has a current device of its own, where the guard is."""
        if device != self.device:
            _exchange(device)
            self.device = device

    def leave(self) -> None:
        """Leave PyTorch as it was before."""
        self.go(0)

    def index(self, device: Any) -> int:
        """The number of a device that may be given as a number, a name or a `torch.device`."""
        if device is None:
            return self.device
        if isinstance(device, int):
            return device
        found = torch.device(device).index
        return self.device if found is None else found

    def next_stream(self, device: int, priority: int) -> int:
        """The number of a new stream; after 32 the first one comes again."""
        level = min(3, max(0, -priority))
        count = self._given.get((device, level), 0)
        self._given[device, level] = count + 1
        return 1 + level * POOL + count % POOL


class Stream:
    """A stream that only tells which one it is."""

    place: ClassVar[Place]

    def __init__(self, device: Any = None, priority: int = 0, *, stream_id: int | None = None, **_told: object) -> None:
        self.device_index = self.place.index(device)
        self.stream_id = self.place.next_stream(self.device_index, priority) if stream_id is None else stream_id
        self.cuda_stream, self.priority = self.stream_id, priority
        self.device = torch.device("cuda", self.device_index)
        self._before: list[tuple[int, int]] = []

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __enter__(self) -> Stream:
        place = self.place
        self._before.append((place.device, place.stream(self.device_index)))
        place.go(self.device_index)
        place.current[self.device_index] = self.stream_id
        return self

    def __exit__(self, *_told: object) -> None:
        device, self.place.current[self.device_index] = self._before.pop()
        self.place.go(device)

    def _key(self) -> tuple[int, int]:
        return self.device_index, self.stream_id

    def query(self) -> bool:
        """All its work is done."""
        return True

    def is_capturing(self) -> bool:
        """No CUDA graph is captured."""
        return False

    def record_event(self, event: Event | None = None) -> Event:
        """An event that has happened."""
        return event or Event()

    def _nothing(self, *_args: object, **_kwargs: object) -> None:
        return None

    synchronize = wait_stream = wait_event = _nothing


class Event:
    """An event that has happened."""

    def __init__(self, *_args: object, **_kwargs: object) -> None:
        self.cuda_event = 0

    def query(self) -> bool:
        """It has happened."""
        return True

    def elapsed_time(self, _other: object) -> float:
        """No time passes."""
        return 0.0

    def record(self, _stream: object = None) -> Event:
        """It happens at once."""
        return self

    def _nothing(self, *_args: object, **_kwargs: object) -> None:
        return None

    synchronize = wait = _nothing


class _Within:
    """`with torch.cuda.stream(...)`; without a stream it changes nothing."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            self.stream.__enter__()

    def __exit__(self, *told: object) -> None:
        if self.stream is not None:
            self.stream.__exit__(*told)


def changes(place: Place) -> list[tuple[Any, str, Any]]:
    """What is changed so that the program's devices and streams are followed."""
    kind = type("Stream", (Stream,), {"place": place})

    def current(device: Any = None) -> Stream:
        index = place.index(device)
        found: Stream = kind(index, stream_id=place.stream(index))
        return found

    def default(device: Any = None) -> Stream:
        found: Stream = kind(device, stream_id=DEFAULT)
        return found

    def choose(stream: Stream | None) -> None:
        if stream is not None:
            place.go(stream.device_index)
            place.current[stream.device_index] = stream.stream_id

    def defer(_tensor: torch.Tensor, _stream: object) -> None:
        place.is_deferring = True

    cuda = torch.cuda
    return [
        (cuda, "current_device", lambda: place.device),
        (cuda, "set_device", place.choose),
        (cuda, "_exchange_device", place.choose),
        (cuda, "_maybe_exchange_device", place.choose),
        (cuda, "Stream", kind),
        (cuda, "Event", Event),
        (cuda, "current_stream", current),
        (cuda, "default_stream", default),
        (cuda, "set_stream", choose),
        (cuda, "stream", _Within),
        (cuda, "StreamContext", _Within),
        (torch.Tensor, "record_stream", defer),
    ]
