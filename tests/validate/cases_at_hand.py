"""The measured serving cases beside the project, scored once, and small cases of our own making."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pytest

from capienza.validate.inference_rows import inference_row
from capienza.validate.scored import Scored

CASES = Path(__file__).parents[2] / ".." / "shared" / "cases" / "inference.jsonl"
ARCH = {
    "architecture": "LlamaForCausalLM", "num_hidden_layers": 32, "hidden_size": 4096, "intermediate_size": 14336,
    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 128256,
    "tie_word_embeddings": False, "max_position_embeddings": 8192, "attention_bias": False,
}  # fmt: skip


def rows() -> list[dict[str, Any]]:
    if not CASES.exists():
        pytest.skip("the folder of shared cases is not beside the project")
    return [json.loads(line) for line in CASES.read_text().splitlines()]


@functools.cache
def all_scored() -> tuple[Scored, ...]:
    return tuple(scored for row in rows() for scored in inference_row(row))


def gib(value: float) -> dict[str, Any]:
    return {"value": value, "unit_logged": "GiB"}


def count(value: float) -> dict[str, Any]:
    return {"value": value, "unit_logged": "count"}


def case(**changes: Any) -> dict[str, Any]:
    """A start of Llama 3 8B on vLLM with every line logged."""
    row: dict[str, Any] = {
        "id": "made-up", "engine": "vLLM", "engine_version": "0.6.6 (V0)", "model": "Meta-Llama-3-8B", "arch": ARCH,
        "weight_format": "bf16", "dtype": "bfloat16", "kv_cache_dtype": "auto", "gpu": "A100-SXM4-40GB", "tp": 1,
        "gpu_memory_utilization": 0.9, "max_model_len": 8192, "max_num_seqs": 256,
        "measured": {
            "weights": gib(14.96), "kv_cache": gib(19.0), "gpu_blocks": count(9728), "total_gpu_memory": gib(39.39),
            "max_concurrency": {"value": 19.0, "unit_logged": "x"},
        },
    }  # fmt: skip
    return row | changes


def of(row: dict[str, Any]) -> dict[str, Scored]:
    return {scored.quantity: scored for scored in inference_row(row)}
