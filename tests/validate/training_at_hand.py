"""The measured training cases beside the project, and small cases of our own making."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

SHARED = Path(__file__).parents[2] / ".." / "shared"
LLAMA_3_8B = {
    "layers": 32, "hidden": 4096, "intermediate": 14336, "heads": 32, "kv_heads": 8, "head_dim": 128, "vocab": 128256,
    "tie": False, "params": 8030261248,
}  # fmt: skip


def shared(*parts: str) -> Path:
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip("the folder of shared cases is not beside the project")
    return path


def training_cases() -> list[dict[str, Any]]:
    return [json.loads(line) for line in shared("cases", "training.jsonl").read_text().splitlines()]


def reading(kind: str, amount: float | None, phase: str = "training") -> dict[str, Any]:
    return {"value": amount, "unit": "B", "counter": kind, "counter_kind": kind, "phase": phase, "bytes": amount}


def case(**changes: Any) -> dict[str, Any]:
    """A LoRA run of Llama 3 8B with the HF Trainer, everything stated."""
    row: dict[str, Any] = {
        "id": "made-up", "framework": "HF Trainer",
        "framework_version": "torch 2.4.1, transformers 4.48.1, peft 0.13.2",
        "model": "Meta-Llama-3-8B", "arch": LLAMA_3_8B, "method": "lora",
        "lora": {"r": 16, "alpha": 16, "targets": ["q_proj", "v_proj"], "adapter_dtype": "fp32", "dropout": 0.0},
        "weight_dtype": "bf16", "mixed_precision": "none (pure bf16)", "optimizer": "AdamW (foreach)",
        "gradient_checkpointing": "none", "attention": "sdpa", "seq_len": 1024, "microbatch": 2, "grad_accum": 1,
        "packed": True, "loss_impl": "HF full logits fp32", "compile": False, "parallelism": "1 GPU", "num_gpus": 1,
        "gpu": "A100-SXM4-80GB", "outcome": "ok", "tier": "gold", "notes": "",
        "measured": [reading("torch_allocated_peak", 30e9)],
    }  # fmt: skip
    return row | changes
