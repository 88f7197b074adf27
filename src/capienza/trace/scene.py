"""Where a traced program is: in which phase, in which module, and what a new storage is likely to be.

Phases come by themselves: what is built is `load`; then `forward` until autograd runs, `backward` until an optimizer
steps, and so on round. A program that says `phase("eval")` overrides that inside. In the backward pass the module is
the one whose forward pass made the node that runs (nodes and forward operations share their sequence numbers).
"""

from __future__ import annotations

import contextlib
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn.modules import module as hooks
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from capienza.ledger.phase import Phase
from capienza.trace.quantised import parts
from capienza.trace.recording import Recording

PARAMETER, GRADIENT, STATE, BUFFER = "parameter", "gradient", "optimizer_state", "buffer"
INPUT, FORWARD, BACKWARD, RECOMPUTED = "input", "forward", "backward", "recomputed"
UPDATE, LOADING, CACHE = "update", "loading", "kv_cache"
SCRATCH, WORKSPACE = "kernel_scratch", "workspaces"
UNSHARDED, COMMUNICATION = "unsharded_weights", "communication_buffers"
_UPDATES = (Phase.OPTIMIZER_STEP_FIRST, Phase.OPTIMIZER_STEP_STEADY)


class Scene:
    """The present moment of a traced program; `watching` lets it follow modules and optimizers."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.phase: str = ""
        self.has_begun = False
        """The state is built, and the first step runs."""
        self.told: list[str] = []
        self.purposes: list[str] = []
        """What is made now is for the last of these."""
        self.stack: list[str] = []
        self.roots: list[torch.nn.Module] = []
        self.optimizers: list[torch.optim.Optimizer] = []
        self.mark: Callable[[torch.Tensor, str, str | None], None] = lambda _tensor, _category, _module: None
        """Say what the storage of a tensor is for, and of which module where that is known."""
        self._names: dict[int, str] = {}
        self._numbers: list[int] = [-1]
        self._makers: list[str] = [""]
        self._stepped: set[int] = set()
        self._updating = 0
        """Optimizers whose step runs."""
        self._is_new = False
        """No operation of this step has run yet."""
        self.enter(Phase.LOAD)

    @property
    def module(self) -> str:
        """The module that runs its forward pass; empty outside all of them."""
        return self.stack[-1] if self.stack else ""

    def enter(self, phase: str) -> None:
        """Go over to a phase."""
        if phase != self.phase:
            self.phase = phase
            self.recording.enter(phase)

    def next_step(self) -> None:
        """A step of the program begins: its first operation belongs to its forward pass."""
        self.has_begun = self._is_new = True
        self._updating = 0

    def look(self) -> None:
        """Notice that a step or autograd has begun to run, and which numbers the nodes of this module get."""
        if not self.in_backward():
            if self._is_new and not self.told:
                self.enter(Phase.FORWARD)
                self._is_new = False
            self._number()
        elif not self.told and self.phase != Phase.LOAD:
            self.enter(Phase.BACKWARD)

    def in_backward(self) -> bool:
        """Does autograd run?"""
        return bool(torch._C._current_graph_task_id() >= 0)

    def module_now(self) -> str:
        """The module to which a storage that is born now belongs."""
        if self.stack or not self.in_backward():
            return self.module
        node: torch.autograd.graph.Node | None = torch._C._current_autograd_node()
        if node is None:
            return ""
        return self._makers[bisect_right(self._numbers, node._sequence_nr()) - 1]

    def category(self) -> str:
        """What a storage that is born now is taken for, until something is known of it."""
        if self.purposes:
            return self.purposes[-1]
        if self.in_backward():
            return RECOMPUTED if torch.is_grad_enabled() else BACKWARD
        if self.phase == Phase.LOAD:
            return LOADING
        if self.phase in _UPDATES and self._updating:
            return UPDATE
        return FORWARD if self.stack else INPUT

    @contextlib.contextmanager
    def said(self, phase: str) -> Iterator[None]:
        """The program says in which phase it is."""
        before = self.phase
        self.told.append(phase)
        # One that is said again right after is a span of its own.
        self.phase = phase
        self.recording.enter(phase)
        try:
            yield
        finally:
            self.told.pop()
            if before != Phase.LOAD or not self.has_begun:
                self.enter(before)

    @contextlib.contextmanager
    def making(self, purpose: str) -> Iterator[None]:
        """What is made inside is for that."""
        self.purposes.append(purpose)
        try:
            yield
        finally:
            self.purposes.pop()

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Follow every module and optimizer."""
        handles = [
            hooks.register_module_forward_pre_hook(self._entered),
            hooks.register_module_forward_hook(self._left, always_call=True),
            register_optimizer_step_pre_hook(self._updates),
            register_optimizer_step_post_hook(self._updated),
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def label(self) -> None:
        """Say of every storage that is known by name what it is."""
        for root in self.roots:
            for name, module in root.named_modules():
                for parameter in module._parameters.values():
                    if parameter is not None:
                        self.mark(parameter, PARAMETER, name)
                        if parameter.grad is not None:
                            self.mark(parameter.grad, GRADIENT, name)
                for buffer in module._buffers.values():
                    if buffer is not None:
                        self.mark(buffer, BUFFER, name)
                for part in parts(module):
                    self.mark(part, PARAMETER, name)
        for optimizer in self.optimizers:
            self._label(optimizer)

    def _number(self) -> None:
        maker = self.module
        if maker != self._makers[-1]:
            number = torch._C._autograd._get_sequence_nr()
            if number == self._numbers[-1]:
                self._makers[-1] = maker
            else:
                self._numbers.append(number)
                self._makers.append(maker)

    def _entered(self, module: torch.nn.Module, _args: Any) -> None:
        name = self._names.get(id(module))
        if name is None:
            name = self._name(module)
        if not self.stack and not self.told and self.phase != Phase.LOAD and not self.in_backward():
            self.enter(Phase.FORWARD)
        self.stack.append(name)

    def _left(self, _module: torch.nn.Module, _args: Any, _output: Any) -> None:
        if self.stack:
            self.stack.pop()

    def _name(self, root: torch.nn.Module) -> str:
        """Name a module that stands alone, and all in it."""
        self.roots.append(root)
        for name, module in root.named_modules():
            self._names[id(module)] = name or type(root).__name__
        return self._names[id(root)]

    def _updates(self, optimizer: torch.optim.Optimizer, _args: Any, _kwargs: Any) -> None:
        self._updating += 1
        if id(optimizer) not in self._stepped:
            self.optimizers.append(optimizer)
        if not self.told:
            is_first = id(optimizer) not in self._stepped
            self.enter(Phase.OPTIMIZER_STEP_FIRST if is_first else Phase.OPTIMIZER_STEP_STEADY)
        self._stepped.add(id(optimizer))
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                self.mark(parameter, PARAMETER, None)
                if parameter.grad is not None:
                    self.mark(parameter.grad, GRADIENT, None)

    def _updated(self, optimizer: torch.optim.Optimizer, _args: Any, _kwargs: Any) -> None:
        self._updating = max(0, self._updating - 1)
        self._label(optimizer)

    def _label(self, optimizer: torch.optim.Optimizer) -> None:
        for states in optimizer.state.values():
            if isinstance(states, dict):
                for value in states.values():
                    if isinstance(value, torch.Tensor):
                        self.mark(value, STATE, None)
