"""The program of a torchao row: a vision transformer of timm, trained as benchmark_low_bit_adam.py trains it.

Source: pytorch/ao, benchmarks/benchmark_low_bit_adam.py and the low_bit_optim README (giant ViT, pure bf16, activations
checkpointed, batch 32). The script's loader cuts every image to a square of 224, so the model is made for that; the row
states the tokens of the model's own larger image.
"""

from __future__ import annotations

from functools import partial
from typing import Any
from unittest import mock

import torch

UPDATES = 2
CLASSES, SIDE = 45, 224


def program(row: dict[str, Any]) -> tuple[Any, Any, int]:
    """`build`, `step`, and how often."""
    with mock.patch.object(torch.library, "register_fake", return_value=lambda function: function):
        import torchvision  # noqa: F401 - timm finds it imported; built for CUDA, its fake kernels do not load here
    import timm  # noqa: F401
    from torchao.prototype import low_bit_optim  # noqa: F401

    return partial(build, row), partial(step, row), UPDATES


def build(row: dict[str, Any]) -> tuple[torch.nn.Module, Any]:
    """Model and optimizer."""
    import timm
    from torchao.prototype.low_bit_optim import CPUOffloadOptimizer

    model = timm.create_model(row["model"].removeprefix("timm "), pretrained=False, num_classes=CLASSES, img_size=SIDE)
    model.set_grad_checkpointing()
    model.bfloat16()
    model.cuda().train()
    make: Any = partial(torch.optim.AdamW, fused=True)
    if "CPUOffload" in row["optimizer"]:
        is_offloaded = "offload_gradients" in row["optimizer"]
        make = partial(CPUOffloadOptimizer, optimizer_class=make, offload_gradients=is_offloaded)
    return model, make(model.parameters(), lr=1e-4)


def step(row: dict[str, Any], made: tuple[torch.nn.Module, Any]) -> None:
    """One update."""
    model, optimizer = made
    images = torch.zeros(row["microbatch"], 3, SIDE, SIDE, dtype=torch.bfloat16)
    labels = torch.zeros(row["microbatch"], dtype=torch.int64)
    torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda()).backward()
    optimizer.step()
    optimizer.zero_grad()
