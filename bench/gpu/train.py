"""A training loop with its complete cycle, each phase marked: `python train.py CASE_AS_JSON`."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from common import device_of, executed, loaded, watched

from capienza import measure

STEPS = 3


def train(case: dict[str, Any], folder: Path) -> None:
    import torch

    torch.manual_seed(0)
    model = loaded(case)
    if case["checkpointing"]:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    model.config.use_cache = False
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    shape = (case["microbatch"], case["tokens"])
    rows = torch.randint(model.config.vocab_size, shape, device=device_of(case))
    for step in range(STEPS):
        with measure.phase("forward", step=step):
            loss = model(input_ids=rows, labels=rows).loss
        with measure.phase("backward", step=step):
            loss.backward()
        with measure.phase("optimizer_step", step=step):
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        del loss
        executed(tokens=case["tokens"], microbatch=case["microbatch"])
    model.eval()
    with measure.phase("validation"), torch.no_grad():
        model(input_ids=rows, labels=rows)
    with measure.phase("checkpoint"):
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, folder / "checkpoint.pt")
    del optimizer
    with measure.phase("export"):
        model.save_pretrained(folder)


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    with tempfile.TemporaryDirectory() as scratch, watched(asked):
        train(asked, Path(scratch))
