"""Two training steps of one image model, traced: a child of `timm_set.py`, run in the environment with timm.

Reads {"model", "batch", "device", "context_bytes", "steps", "most_seconds"} from the command line and prints a line of
JSON for each optimizer. The step is the one of PyTorch's tutorials: zero_grad, forward, cross entropy, backward, step;
fp32; random images of the model's own input size made on the card.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from typing import Any
from unittest import mock

import torch

OPTIMIZERS = {
    "SGD": partial(torch.optim.SGD, lr=0.1),
    "SGD momentum": partial(torch.optim.SGD, lr=0.1, momentum=0.9),
    "Adam": torch.optim.Adam,
}


def main() -> None:
    """Trace with each optimizer, and print what each would hold, or why that cannot be said."""
    asked = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    import_torchvision()
    for optimizer in OPTIMIZERS:
        print(json.dumps({"optimizer": optimizer, **traced(asked, optimizer)}), flush=True)


def import_torchvision() -> None:
    """Import it without its fake kernels, which cannot be declared where its real ones do not load.

    timm wants torchvision for its image transforms; no model runs one of its kernels. Its wheel is built for CUDA and
    does not load beside a build of PyTorch for CPUs.
    """
    with mock.patch.object(torch.library, "register_fake", return_value=lambda function: function):
        import torchvision  # noqa: F401 - for timm, which finds it imported


def traced(asked: dict[str, Any], optimizer: str) -> dict[str, Any]:
    """The figures of one trace in bytes, or the reason why there are none."""
    from capienza.allocator.replay import replay
    from capienza.errors import CapienzaError
    from capienza.trace import predict_peak
    from capienza.trace.machine import machine_of

    size: list[int] = []
    try:
        found = predict_peak(
            partial(build, asked["model"], optimizer, size),
            partial(step, asked["batch"], size),
            steps=asked["steps"],
            device=asked["device"],
            most_seconds=asked["most_seconds"],
        )
    except CapienzaError as error:
        return {"why": str(error), "input": size}
    gpu = found.gpus[0]
    # Near the card's limit PyTorch gives cached memory back rather than fail: no process holds more than the card has.
    room_bytes = machine_of(asked["device"]).total_bytes - asked["context_bytes"]
    recording = found.traced.recording
    on_card = replay(recording.events[0], capacity_bytes=room_bytes, phases=recording.phases)
    return {
        "input": size,
        "allocated_bytes": gpu.allocated_bytes,
        "reserved_bytes": gpu.reserved_bytes if on_card.out_of_memory else on_card.peaks.reserved_bytes,
        "fits": on_card.out_of_memory is None,
        "requested_by_phase": {phase.phase: phase.requested_bytes for phase in gpu.phases},
        "operations": len(found.traced.op_names),
        "seconds": found.traced.seconds,
        "guesses": len(found.guesses),
        "unknown": [str(message) for message in found.unknown],
        "warnings": [str(message) for message in found.warnings],
    }


def build(name: str, optimizer: str, size: list[int]) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    """A model without trained weights and its optimizer; its input size is left in `size`."""
    import timm

    model = timm.create_model(name, pretrained=False)
    size[:] = model.pretrained_cfg["input_size"]
    model = model.to("cuda").train()
    return model, OPTIMIZERS[optimizer](model.parameters())


def step(batch: int, size: list[int], state: tuple[torch.nn.Module, torch.optim.Optimizer]) -> None:
    """One update."""
    model, optimizer = state
    images = torch.randn(batch, *size, device="cuda")
    optimizer.zero_grad()
    scores = model(images)
    labels = torch.randint(scores.shape[1], (batch,), device="cuda")
    torch.nn.functional.cross_entropy(scores, labels).backward()
    optimizer.step()


if __name__ == "__main__":
    main()
