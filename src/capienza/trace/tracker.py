"""The mode through which every operation of a traced program passes.

It stands before `FakeTensorMode`: it lets that make the result, then looks at the storages of what came out. A storage
not seen before is born; a weak reference to it tells when it dies, also when only autograd's graph held it. Sources of
the mechanics: torch/_subclasses/fake_tensor.py, torch/storage.py (a storage's Python object lives as long as it does).
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass

from capienza.errors import Message, template
from capienza.trace import guesses, quantised, shadow
from capienza.trace.guesses import Guesses, Routing
from capienza.trace.kernels import rule_of, scratch
from capienza.trace.kernels_call import PERSISTENT, Card
from capienza.trace.recording import Recording
from capienza.trace.repeats import Repeats
from capienza.trace.scene import SCRATCH, WORKSPACE, Scene
from capienza.trace.streams import Place
from capienza.trace.watch import TraceLimit, Watch

aten = torch.ops.aten
PRIM_DEVICE = torch.ops.prim.device.default
KNOWN_TYPES = frozenset({torch.Tensor, FakeTensor, torch.nn.Parameter})
TAKES_A_MASK = frozenset({aten.index.Tensor, aten.index_put.default, aten.index_put_.default})
TOLD_EVERY = 256
UNSEEN = template(
    "trace.unseen-scratch",
    "{what}: its size is not known before a run ({source})",
    "measure the run on the intended card",
)
TOLD = frozenset({"_capienza_shadow", "_capienza_routed", "_capienza_below", "_capienza_assumed"})
Progress = Callable[[int, str, str], None]
"""Told now and then: operations so far, phase, module."""
Handler = Callable[["Tracker", Any, tuple[Any, ...], dict[str, Any]], Any]
HANDLERS: dict[Any, Handler] = {}
"""Operations that are answered here, or get their shapes here."""
LIBRARIES: dict[str, Callable[[Tracker], dict[Any, Callable[..., Any]]]] = {"bitsandbytes": quantised.kernels}
"""Libraries whose operations are made of others that are to be seen, by the name of their operations."""
COMPOSITE = "CompositeImplicitAutograd"


class _Life(weakref.ref):  # type: ignore[type-arg]
    """A storage that lives: its block, and its key in the table."""

    __slots__ = ("block", "key")

    block: int
    key: int


class _Opened(NamedTuple):
    """An operation that is made of others: they are seen in its place."""

    run: Callable[..., Any]


class _Handlers(dict[Any, Handler | _Opened | None]):
    """What answers each operation that was met, or None. Looked for when it is first met."""

    def __init__(self, tracker: Tracker) -> None:
        super().__init__(HANDLERS)
        self.tracker = tracker
        self.asked: set[str] = set()

    def __missing__(self, func: Any) -> Handler | _Opened | None:
        library = func.namespace
        if library in LIBRARIES and library not in self.asked:
            self.asked.add(library)
            self.update((one, _Opened(run)) for one, run in LIBRARIES[library](self.tracker).items())
        return self.setdefault(func, _composite(func))


def _composite(func: Any) -> _Opened | None:
    """In inference mode, and inside other operations, autograd does not take composite operations apart."""
    has_kernel, name = torch._C._dispatch_has_kernel_for_dispatch_key, func.name()
    if not has_kernel(name, COMPOSITE) or has_kernel(name, "CPU"):
        return None
    key = torch._C.DispatchKey.CUDA if has_kernel(name, "CUDA") else torch._C.DispatchKey.CompositeImplicitAutograd
    return _Opened(functools.partial(func._op_dk, key))


class Tracker(TorchDispatchMode):
    """Writes every storage of one kind of device into a recording."""

    def __init__(
        self,
        device_type: str,
        scene: Scene,
        routing: Routing = "balanced",
        most_ops: int = 0,
        watch: Watch | None = None,
        progress: Progress | None = None,
        card: Card | None = None,
    ) -> None:
        super().__init__()
        self.device_type = device_type
        self.scene = scene
        self.place = Place()
        self.recording: Recording = scene.recording
        self.guesses = Guesses(routing)
        self.lives: dict[int, _Life] = {}
        self.op_names: list[str] = []
        self.op_ends: list[int] = []
        self.most_ops = most_ops
        self.progress = progress
        self.card = card
        """Whose kernels run; None where nothing is known of them."""
        self.workspaces: set[str] = set()
        self.watch = watch or Watch()
        self.refused: Message | None = None
        """Why another thread had to end the trace."""
        self.current: tuple[Any, str] | None = None
        self.assumed: dict[str, Message] = {}
        self.unknown: dict[str, Message] = {}
        """What the trace cannot count, by its code."""
        self._handlers = _Handlers(self)
        self._repeats = Repeats()
        self._kinds: dict[Any, int] = {}

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """One operation."""
        if func is PRIM_DEVICE:
            return args[0].fake_device if isinstance(args[0], FakeTensor) else func(*args)
        for kind in types:
            if kind not in KNOWN_TYPES and not issubclass(kind, torch.nn.Parameter | FakeTensor):
                return NotImplemented
        named = dict(kwargs) if kwargs else {}
        handler = self._handlers[func]
        if isinstance(handler, _Opened):
            with self:
                return handler.run(*args, **named)
        self.scene.look()
        self.current = func, self.scene.module
        self._count(func)
        if handler is not None:
            out = handler(self, func, args, named)
        else:
            if func in TAKES_A_MASK:
                args = self.without_masks(args)
            out = self._repeats.run(func, args, named)
            self._values(func, args, named, out)
        self.keep(out, func)
        if self.card is not None and rule_of(func) is not None:
            self._scratch(func, args, named, self.card)
        self.op_ends.append(len(self.recording.events.get(0, ())))
        return out

    def keep(self, out: Any, func: Any) -> None:
        """Every storage of a result: born now, or known, and then perhaps of another size."""
        if isinstance(out, torch.Tensor):
            self.see(out, func)
        elif isinstance(out, list | tuple):
            for one in out:
                if isinstance(one, torch.Tensor):
                    self.see(one, func)

    def see(self, tensor: torch.Tensor, func: Any) -> int | None:
        """The block of a tensor's storage, born now if it was not known; None on another kind of device."""
        device = tensor.fake_device if isinstance(tensor, FakeTensor) else tensor.device
        if device.type != self.device_type:
            return None
        storage = tensor.untyped_storage()
        key = storage._cdata
        life = self.lives.get(key)
        if life is not None:
            if getattr(func, "__name__", "").startswith(("resize", "set_")):
                self.resize(storage, life)
            return life.block
        life = _Life(storage, self._died)
        life.key = key
        index, scene = device.index or 0, self.scene
        life.block = self.recording.allocate(
            storage.nbytes(), index, scene.module_now(), scene.category(), str(func), self.place.stream(index)
        )
        self.lives[key] = life
        return life.block

    def resize(self, storage: torch.UntypedStorage, life: _Life | None = None) -> None:
        """A known storage may have another size now: what it held is given back after the new is taken."""
        life = life or self.lives.get(storage._cdata)
        if life is None:
            return
        recording, block, size = self.recording, life.block, storage.nbytes()
        if recording.sizes[block] == size:
            return
        index, category = recording.devices[block], recording.categories[block]
        life.block = recording.allocate(
            size, index, self.scene.module_now(), category, "resize_", self.place.stream(index)
        )
        recording.free(block)

    def block_of(self, tensor: torch.Tensor) -> int | None:
        """The block that a tensor lies in, if it is known."""
        life = self.lives.get(tensor.untyped_storage()._cdata)
        return None if life is None else life.block

    def like(self, value: torch.Tensor, device: torch.device) -> torch.Tensor:
        """A fake tensor of the shape of a real one, which becomes its companion."""
        made: torch.Tensor = aten.empty.memory_format(list(value.shape), dtype=value.dtype, device=device)
        if shadow.is_small(made):
            shadow.give(made, value)
        return made

    def without_masks(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Indexing by a mask becomes indexing by the places that are taken, as the real kernel makes it."""
        indices = args[1]
        if not any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in indices):
            return args
        places: list[torch.Tensor | None] = []
        for index in indices:
            if index is None or index.dtype not in (torch.bool, torch.uint8):
                places.append(index)
                continue
            found = HANDLERS[aten.nonzero.default](self, aten.nonzero.default, (index,), {})
            self.keep(found, aten.nonzero.default)
            places.extend(found.unbind(1))
        return args[0], places, *args[2:]

    def _scratch(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], card: Card) -> None:
        """What the kernel takes besides its results: back at once, or kept from its first time on."""
        first = next(shadow.tensors_in(args), None)
        if first is None or not isinstance(first, FakeTensor) or first.fake_device.type != self.device_type:
            return
        scene, recording, device = self.scene, self.recording, first.fake_device.index or 0
        deterministic = torch.are_deterministic_algorithms_enabled()
        rows = scratch(func, args, kwargs, card, in_backward=scene.in_backward(), deterministic=deterministic)
        taken = []
        for row in rows:
            if row.bytes is None:
                self.unknown[row.name] = UNSEEN(what=row.name, source=row.source)
            elif row.lifetime == PERSISTENT:
                if row.key not in self.workspaces:
                    self.workspaces.add(row.key)
                    recording.allocate(row.bytes, device, "", WORKSPACE, row.name)
            elif row.bytes:
                taken.append(recording.allocate(row.bytes, device, scene.module_now(), SCRATCH, row.name))
        for block in taken:
            recording.free(block)

    def _count(self, func: Any) -> None:
        self.op_names.append(func)
        done = len(self.op_names)
        if self.most_ops and done > self.most_ops:
            raise self.watch.end()
        if self.watch.is_over:
            raise TraceLimit
        if self.progress is not None and done % TOLD_EVERY == 0:
            self.progress(done, self.scene.phase, self.scene.module)

    def _died(self, life: _Life) -> None:
        self.recording.free(life.block)
        if self.lives.get(life.key) is life:
            del self.lives[life.key]

    def _values(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        """Keep companions up to date."""
        kind = self._kinds.get(func)
        if kind is None:
            kind = self._kinds[func] = _kind(func)
        if kind == WRITES:
            self.written(func, args, kwargs)
        elif kind == MAKES or (kind == MAPS and _may_be_known(out) and _may_map(func, args)):
            self._mapped(func, args, kwargs, out)

    def written(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """What an operation in place did to companions."""
        written = (args[place] if place < len(args) else kwargs.get(name) for place, name in _writes(func))
        targets = [one for one in shadow.tensors_in(written) if shadow.of(one) is not None]
        if targets and (func in shadow.RANDOM or shadow.run(func, args, kwargs) is shadow.UNKNOWN):
            for one in targets:
                shadow.forget(one)
            if func in guesses.MARKS:
                guesses.hand_on(func, args, args[0])

    def _mapped(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        outs = [out] if isinstance(out, torch.Tensor) else out
        if not isinstance(outs, list | tuple) or not all(isinstance(one, torch.Tensor) for one in outs):
            return
        found = shadow.run(func, args, kwargs) if all(map(shadow.is_small, outs)) else shadow.UNKNOWN
        if found is shadow.UNKNOWN:
            if func in guesses.COUNTS:
                self._shared_out(func, args[0], out)
            else:
                guesses.hand_on(func, args, out)
            return
        values: Any = [found] if isinstance(found, torch.Tensor) else found
        for one, value in zip(outs, values, strict=True):
            shadow.give(one, value)

    def _shared_out(self, func: Any, mask: torch.Tensor, out: torch.Tensor) -> None:
        """The tokens of each expert, as routing is assumed to share them out."""
        counts = self.guesses.shared_out(mask, out.numel())
        if counts is not None:
            self.guesses.note(str(func), self.scene.module, f"{sum(counts)} shared out to {len(counts)}")
            with torch._C._DisableTorchDispatch():
                shadow.give(out, torch.tensor(counts).reshape(out.shape).to(out.dtype))


MAPS, MAKES, WRITES, NOTHING = range(4)


def _kind(func: Any) -> int:
    """What an operation does to values: maps them, makes them, writes over them; or nothing that can be known."""
    if func._schema.is_mutable:
        return WRITES
    if func in shadow.RANDOM:
        return NOTHING
    if func in shadow.FACTORIES or func in shadow.SHAPED:
        return MAKES
    return MAPS


def _may_be_known(out: Any) -> bool:
    """Large tensors of real numbers never are; of the others it may at least be known where they come from."""
    return not isinstance(out, torch.Tensor) or out.dtype in shadow.WHOLE or shadow.is_small(out)


def _may_map(func: Any, args: tuple[Any, ...]) -> bool:
    """Can the result be known, or assumed? A quick look at the first tensor."""
    if func in guesses.MARKS or func in guesses.CHOICES or func is guesses.SAME:
        return True
    for one in args:
        if isinstance(one, torch.Tensor):
            return type(one) is not FakeTensor or one.dtype == torch.bool or not TOLD.isdisjoint(one.__dict__)
        if isinstance(one, list | tuple):
            return bool(one) and isinstance(one[0], torch.Tensor) and shadow.of(one[0]) is not None
    return False


def plain(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """The tensors that hold the storage of one that is made of others, as a distributed one is."""
    made_of: Any = tensor
    if is_traceable_wrapper_subclass(made_of):
        for name in made_of.__tensor_flatten__()[0]:
            inner = getattr(made_of, name)
            if isinstance(inner, torch.Tensor):
                yield from plain(inner)
    else:
        yield tensor


@functools.cache
def _writes(func: Any) -> tuple[tuple[int, str], ...]:
    """The arguments that an operation writes to, by place and name."""
    arguments = enumerate(func._schema.arguments)
    return tuple((place, one.name) for place, one in arguments if one.alias_info and one.alias_info.is_write)
