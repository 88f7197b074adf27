"""The trace beside two measured fine-tunings of vision transformers: timm's, as torchao's benchmark runs them.

    python bench/vision_rows.py

Of the 12 rows of shared/cases/training.jsonl that this benchmark gave, those with PyTorch's own AdamW on one GPU. The
others need torchao's, bitsandbytes' or lpmm's optimizers, or DeepSpeed. ViT-H was compiled: its eager trace is shown
beside it and no error is counted. Followed is benchmarks/benchmark_low_bit_adam.py of pytorch/ao: 45 classes, images
of 224 x 224 (the row's 1,370 tokens are those of the model's own size), AdamW fused, gradients freed after the step.
The environment is that of `timm_set.py`; its releases are shown, and are not those of the runs (torch 2.4).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from timm_set import ROOT, VENV, install

GB = 1e9
CARD = "RTX 4070 Ti SUPER"


class Row(NamedTuple):
    """One run; `measured` as the benchmark prints it, in GB of 10^9 bytes."""

    model: str
    batch: int
    is_bf16: bool
    is_checkpointed: bool
    is_compiled: bool
    measured: float


ROWS = {
    "ao-vitg-none": Row("vit_giant_patch14_dinov2.lvd142m", 32, True, True, False, 9.82),
    "ao-vith-fused": Row("vit_huge_patch14_224", 8, False, False, True, 12.23),
}


def main() -> None:
    """Trace each in the environment with timm, and print what it would hold."""
    if len(sys.argv) > 1:
        child(ROWS[sys.argv[1]])
        return
    print(install())
    for name, row in ROWS.items():
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}
        command = [str(VENV / "bin" / "python"), str(Path(__file__)), name]
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900, check=False)
        lines = [line for line in ended.stdout.splitlines() if line.startswith("{")]
        if not lines:
            print(f"{name}: not traced: {(ended.stderr.strip().splitlines() or ['it said nothing'])[-1]}")
            continue
        allocated = json.loads(lines[-1])["allocated_bytes"] / GB
        told = "compiled: no error" if row.is_compiled else f"error {allocated / row.measured - 1:+.2%}"
        print(f"{name}: measured {row.measured:.2f} GB, traced {allocated:.2f} GB; {told}")


def child(row: Row) -> None:
    """One trace, in the environment with timm."""
    import torch
    from timm_child import import_torchvision

    from capienza.trace import predict_peak

    torch.set_num_threads(1)
    import_torchvision()
    found = predict_peak(partial(build, row), partial(step, row), steps=2, device=CARD)
    print(json.dumps({"allocated_bytes": found.gpus[0].allocated_bytes}))


def build(row: Row) -> tuple[Any, Any]:
    """Model and optimizer."""
    import timm
    import torch

    more = {"img_size": 224} if "dinov2" in row.model else {}
    model = timm.create_model(row.model, pretrained=False, num_classes=45, **more)
    model.set_grad_checkpointing(row.is_checkpointed)
    model = (model.bfloat16() if row.is_bf16 else model).cuda().train()
    return model, torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0, fused=True)


def step(row: Row, state: tuple[Any, Any]) -> None:
    """One update."""
    import torch

    model, optimizer = state
    images = torch.zeros(row.batch, 3, 224, 224, dtype=torch.bfloat16 if row.is_bf16 else torch.float32)
    with torch.autocast("cuda", dtype=torch.bfloat16, enabled=not row.is_bf16):
        labels = torch.zeros(row.batch, dtype=torch.int64).cuda()
        loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


if __name__ == "__main__":
    main()
