"""A small training with its complete cycle, each phase marked: load, forward, backward, update, eval, save, export.

    CAPIENZA_RUN=run python examples/runs/training.py        # readings in run/; without the variable nothing is kept

It needs torch and transformers, no GPU and no network. `cpu_allocator` is for runs in main memory only: on a GPU the
allocator keeps its own statistics, and that line is left out.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from capienza import measure

TOKENS, MICROBATCH, STEPS = 128, 2, 2
MODEL = Path(__file__).with_name("tiny-llama")


def corpus(vocabulary: int) -> list[dict[str, list[int]]]:
    """Rows of the required length, every one full."""
    rows = [[(13 * row + 7 * place) % vocabulary for place in range(TOKENS)] for row in range(MICROBATCH * STEPS)]
    return [{"input_ids": row, "labels": row} for row in rows]


def train(folder: str) -> None:
    """Two updates, an evaluation and a checkpoint through the Trainer, then the export alone."""
    import torch
    import transformers

    torch.set_num_threads(1)
    transformers.set_seed(0)
    transformers.utils.logging.disable_progress_bar()
    with measure.phase("load"):
        config = transformers.AutoConfig.from_pretrained(MODEL)
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    rows = corpus(config.vocab_size)
    trainer = transformers.Trainer(
        model=model,
        args=transformers.TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=MICROBATCH,
            per_device_eval_batch_size=MICROBATCH,
            max_steps=STEPS,
            eval_strategy="steps",
            eval_steps=STEPS,
            save_strategy="steps",
            save_steps=STEPS,
            optim="adamw_torch_fused",
            use_cpu=True,
            dataloader_pin_memory=False,
            disable_tqdm=True,
            report_to=[],
        ),
        train_dataset=rows,
        eval_dataset=rows[:MICROBATCH],
        callbacks=[measure.trainer_callback()],
    )
    trainer.train()
    # The Trainer is still there, and with it the states of the optimizer.
    with measure.phase("export"):
        model.save_pretrained(folder)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch, measure.cpu_allocator():
        train(scratch)
    sys.exit()
