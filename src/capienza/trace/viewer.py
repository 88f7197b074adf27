"""A trace as a memory snapshot, which PyTorch's memory viewer (pytorch.org/memory_viz) opens."""

from __future__ import annotations

from pathlib import Path

from capienza.allocator.settings import Settings
from capienza.allocator.writing import make_snapshot, write_snapshot
from capienza.trace.holders import categories
from capienza.trace.recording import Recording

VIEWER = {
    "weights": "parameter",
    "gradients": "gradient",
    "optimizer_states": "optimizer_state",
    "activations": "activation",
    "inputs": "input",
    "buffers": "parameter",
}
"""The viewer's own categories."""
TEMPORARY = "temporary"


def keep_snapshot(recording: Recording, device: int, settings: Settings, path: Path) -> None:
    """Write the events of one device, each with its operation and modules. Raises `UnreachableError`."""
    blocks = {born: block for block, born in enumerate(recording.born) if recording.devices[block] == device}
    named = categories(recording, device)

    def frames(event: int) -> tuple[str, ...]:
        block = blocks.get(event)
        return () if block is None else (recording.ops[block], *_outwards(recording.modules[block]))

    def category(event: int) -> str | None:
        block = blocks.get(event)
        return None if block is None else VIEWER.get(named[block], TEMPORARY)

    snapshot = make_snapshot(
        recording.events[device], settings, phases=recording.phases, frames=frames, category=category
    )
    write_snapshot(path, snapshot)


def _outwards(module: str) -> tuple[str, ...]:
    """A module, and those that it lies in."""
    parts = module.split(".")
    return tuple(".".join(parts[:end]) for end in range(len(parts), 0, -1)) if module else ()
