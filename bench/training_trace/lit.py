"""The program of a LitGPT row: `fit` of the release's own `litgpt.finetune.lora`, with rows of the longest length.

Source: Lightning-AI/litgpt, config_hub/finetune (alpaca2k cut at 512 tokens); the longest row comes first, and a
validation of two batches before the training. The model is made without weights.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import torch

UPDATES = 2
NAMES = {
    "falcon-7b": "falcon-7b", "gemma-2b": "Gemma-2b", "gemma-7b": "Gemma-7b", "llama-3-8b": "Llama-3-8B",
    "llama-3.2-1b": "Llama-3.2-1B", "llama-3.2-3b": "Llama-3.2-3B",
}  # fmt: skip
SWITCHES = {
    "q": "lora_query", "k": "lora_key", "v": "lora_value", "o": "lora_projection", "mlp": "lora_mlp",
    "lm_head": "lora_head",
}  # fmt: skip


class Loader(list[Any]):
    """Batches of full rows, as the collator pads them, on the card."""

    def __init__(self, tokens: int, sequences: int, count: int) -> None:
        ids = torch.ones(sequences, tokens, dtype=torch.int64)
        super().__init__([{"input_ids": ids.cuda(), "labels": ids.cuda()} for _ in range(count)])
        self.dataset = [{"input_ids": [1] * tokens}]


def program(row: dict[str, Any]) -> tuple[Any, Any, int]:
    """`build`, `step`, and how often."""
    import litgpt.finetune.lora

    if row["method"].startswith("qlora"):
        import bitsandbytes  # noqa: F401 - it has to be there before the trace begins
    litgpt.finetune.lora.Tokenizer = lambda _folder: None
    return partial(build, row), partial(fit, row), 1


def build(row: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Fabric, model and optimizer, as `main` makes them."""
    import lightning
    from lightning.fabric.plugins import BitsandbytesPrecision
    from litgpt import lora, utils

    told = row["lora"]
    switches = {switch: name in told["targets"] for name, switch in SWITCHES.items()}
    config = lora.Config.from_name(
        NAMES[row["model"]], lora_r=told["r"], lora_alpha=told["alpha"], lora_dropout=told["dropout"], **switches
    )
    is_quantised = row["method"].startswith("qlora")
    how = {"plugins": BitsandbytesPrecision("nf4", torch.bfloat16)} if is_quantised else {"precision": "bf16-true"}
    fabric = lightning.Fabric(accelerator="cuda", devices=1, **how)
    fabric.launch()
    with fabric.init_module(empty_init=False):
        model = lora.GPT(config)
    lora.mark_only_lora_as_trainable(model)
    model = fabric.setup_module(model)
    make = utils.instantiate_bnb_optimizer if is_quantised else utils.instantiate_torch_optimizer
    optimizer = fabric.setup_optimizers(make("AdamW", model.parameters()))
    return fabric, model, optimizer


def fit(row: dict[str, Any], made: tuple[Any, Any, Any]) -> None:
    """The release's own loop."""
    from litgpt.args import EvalArgs, TrainArgs
    from litgpt.finetune import lora

    fabric, model, optimizer = made
    tokens, sequences = row["seq_len"], row["microbatch"]
    train = TrainArgs(
        save_interval=None, log_interval=1, micro_batch_size=sequences, lr_warmup_steps=10, epochs=1,
        global_batch_size=sequences * min(2, row["grad_accum"]), max_seq_length=tokens, max_steps=UPDATES,
    )  # fmt: skip
    schedule = lora.get_lr_scheduler(optimizer, warmup_steps=10, max_steps=100)
    with tempfile.TemporaryDirectory() as folder:
        lora.fit(
            fabric, model, optimizer, schedule, Loader(tokens, sequences, 2 * UPDATES), Loader(tokens, sequences, 2),
            1, Path(folder), Path(folder), train, EvalArgs(interval=100, max_new_tokens=100, max_iters=2), None,
        )  # fmt: skip
