"""A measured case as a line of the cases file: readings per phase, each with its counter; on disk at once."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import program_models
from programs import Program

KINDS = {
    "allocated": ("torch_allocated_peak", "torch.cuda.max_memory_allocated"),
    "active": ("torch_active_peak", "torch.cuda.memory_stats active_bytes.all.peak"),
    "reserved": ("torch_reserved_peak", "torch.cuda.max_memory_reserved"),
}
DEVICE = ("device_used_peak", "cudaMemGetInfo at the end of the phase, while reserved stands at its peak of the phase")
WHOLE = "whole run"
FORMATS = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
NAMES = {
    "layers": ("num_hidden_layers", "n_layer", "num_layers"), "hidden": ("hidden_size", "n_embd", "d_model"),
    "intermediate": ("intermediate_size", "ffn_dim", "d_ff"), "heads": ("num_attention_heads", "n_head", "num_heads"),
    "kv_heads": ("num_key_value_heads",), "head_dim": ("head_dim", "d_kv"), "vocab": ("vocab_size",),
    "tie": ("tie_word_embeddings",), "model_type": ("model_type",),
}  # fmt: skip
TORCH_NAMES = {"sgd": "torch SGD", "momentum": "torch SGD momentum 0.9", "adamw": "torch AdamW (foreach default)",
               "adafactor": "torch Adafactor"}  # fmt: skip


def append(path: Path, *found: dict[str, Any]) -> None:
    """Whole lines, on disk before anything else begins."""
    with path.open("a", encoding="utf-8") as file:
        file.write("".join(json.dumps(line) + "\n" for line in found))
        file.flush()
        os.fsync(file.fileno())


def lines(path: Path) -> list[dict[str, Any]]:
    """Every whole line that was written; one cut off by a crash is left out."""
    if not path.is_file():
        return []
    found = []
    for text in path.read_text(encoding="utf-8").splitlines():
        try:
            found.append(json.loads(text))
        except ValueError:
            continue
    return found


def readings(phases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The highest reading of each counter in each phase; a counter that was not read gives no line."""
    found: dict[tuple[str, str, str], int] = {}
    for one in phases:
        for phase in (one["phase"], WHOLE):
            for name, (kind, counter) in KINDS.items():
                value = one.get("peak", {}).get(name)
                if value is not None:
                    found[phase, kind, counter] = max(value, found.get((phase, kind, counter), 0))
            if one.get("is_device_peak"):
                found[phase, *DEVICE] = max(one["device"], found.get((phase, *DEVICE), 0))
    return [
        {"value": value, "unit": "B", "counter": counter, "counter_kind": kind, "phase": phase, "bytes": value}
        for (phase, kind, counter), value in found.items()
    ]


def arch(program: Program, parameters: int | None) -> dict[str, Any]:
    """The shape of the model, in the words of the cases (a generation's: those of its configuration)."""
    shape = program_models.SHAPES[program.model]
    fields = program_models.config(program.model, is_tiny=program.is_tiny, layers=program.layers)
    if program.task == "generate":
        return fields | {"architecture": shape["architecture"], "config_source": shape["source"]}
    found = {word: fields[key] for word, keys in NAMES.items() for key in keys if key in fields}
    return found | {"params": parameters, "config_source": shape["source"]}


def row(name: str, program: Program, done: dict[str, Any]) -> dict[str, Any]:
    """The case as a line; `done` holds phases, outcome, settings and context of the run."""
    settings, is_gpu = done["settings"], done["settings"]["device"] == "cuda"
    packages = f"torch {settings['torch']}, transformers {settings['transformers']}"
    common = {
        "id": f"own-card-{name}-{done['at']}",
        "source": "own run, bench/gpu/measure_card.py, random weights",
        "program": name,
        "model": program.model,
        "arch": arch(program, done.get("parameters")),
        "num_gpus": 1 if is_gpu else 0,
        "gpu": settings["gpu"] if is_gpu else "none: main memory, no measurement of a GPU",
        "outcome": done["outcome"],
        "notes": done.get("notes", ""),
        "run": {key: done.get(key) for key in (
            "phases", "context", "base", "before_in_process", "settings", "allocator_settings", "error", "attention",
            "seconds", "is_tiny",
        )},
    }  # fmt: skip
    if program.task == "generate":
        peaks = [one for one in readings(done["phases"]) if one["phase"] == WHOLE]
        allocated = [one["bytes"] for one in peaks if one["counter_kind"] == "torch_allocated_peak"]
        return common | {
            "engine": "HF transformers", "engine_version": packages, "weight_format": FORMATS[program.dtype],
            "dtype": program.dtype, "kv_cache_dtype": "auto", "block_size": None, "tp": 1, "pp": 1,
            "attention": done.get("attention"),
            "flags": {"batch": program.microbatch, "prompt_tokens": program.tokens, "generated_tokens": program.output},
            "measured": {"peak_torch_allocated": {"value": max(allocated) / 2**30, "unit_logged": "GiB"}}
            if allocated else {},
            "phases": readings(done["phases"]), "consistency": {},
        }  # fmt: skip
    return common | {
        "framework": "PyTorch loop with transformers" if not program.is_vision else "PyTorch loop with torchvision",
        "framework_version": packages,
        "method": program.method.split("-")[0],
        "lora": {"r": program.rank, "alpha": 2 * program.rank, "targets": list(program_models.LORA_TARGETS),
                 "made_by": "plain torch" if program.method == "lora-plain" else "peft"} if program.rank else None,
        "weight_dtype": "nf4" if program.method == "qlora" else FORMATS[program.dtype],
        "mixed_precision": f"autocast {FORMATS[program.autocast]}{' with GradScaler' if program.scaler else ''}"
        if program.autocast else "none",
        "optimizer": TORCH_NAMES[program.optimizer],
        "gradient_checkpointing": "full (every decoder layer)" if program.checkpointing else False,
        "attention": f"sdpa, {program.attention}" if program.attention else done.get("attention"),
        "seq_len": None if program.is_vision else program.tokens,
        "microbatch": program.microbatch, "grad_accum": 1, "packed": not program.padded,
        "loss_impl": "torch cross_entropy" if program.is_vision else "transformers' own", "compile": False,
        "parallelism": "1 GPU", "measured": readings(done["phases"]), "completeness": 1.0,
        "tier": "gold" if is_gpu and not program.is_tiny else "bronze",
    }  # fmt: skip
