"""Measure small trainings and generations on one GPU, one case a run; see README.md beside this file.

python bench/gpu/run_cases.py --out cases.jsonl [--cpu] [--minutes 7] [--work .bench/gpu] [--only NAME ...]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
CONFIGS = HERE.parents[1] / "examples" / "configs"
TINY = HERE.parents[1] / "examples" / "runs" / "tiny-llama"
CASES: list[dict[str, Any]] = [
    {"name": "qwen05-full-bf16", "config": "Qwen--Qwen2.5-0.5B", "task": "train", "tokens": 1024, "microbatch": 2},
    {
        "name": "qwen05-full-bf16-checkpointing", "config": "Qwen--Qwen2.5-0.5B", "task": "train", "tokens": 1024,
        "microbatch": 2, "checkpointing": True,
    },
    {
        "name": "qwen05-full-fp32", "config": "Qwen--Qwen2.5-0.5B", "task": "train", "tokens": 1024, "microbatch": 1,
        "dtype": "float32",
    },
    {"name": "qwen7-full-bf16", "config": "Qwen--Qwen2.5-7B", "task": "train", "tokens": 512, "microbatch": 1},
    {
        "name": "llama8-generate", "config": "meta-llama--Llama-3.1-8B", "task": "generate", "tokens": 4096,
        "output": 64, "microbatch": 4,
    },
]  # fmt: skip
TINY_CASES: list[dict[str, Any]] = [
    {"name": "tiny-full-fp32", "config": TINY, "task": "train", "tokens": 64, "microbatch": 2, "dtype": "float32"},
    {
        "name": "tiny-generate", "config": TINY, "task": "generate", "tokens": 64, "output": 4, "microbatch": 2,
        "dtype": "float32",
    },
]  # fmt: skip
KINDS = {"allocated": "torch_allocated_peak", "reserved": "torch_reserved_peak", "device": "device_used_peak"}
SHORT = {
    "layers": "num_hidden_layers", "hidden": "hidden_size", "intermediate": "intermediate_size",
    "heads": "num_attention_heads", "kv_heads": "num_key_value_heads", "vocab": "vocab_size",
    "tie": "tie_word_embeddings",
}  # fmt: skip
SHAPE = (*SHORT.values(), "head_dim", "max_position_embeddings", "model_type")
FORMATS = {"bfloat16": "bf16", "float32": "fp32"}
ENDED = {"completed": "ok", "out_of_memory": "oom"}
CARD = """capienza: 1
name: {name}
model: {{path: {path}, revision: random-weights}}
task: {task}
weights: {{format: {format}}}
engine: {{name: transformers, version: "{version}"}}
placement: {{gpus: 1}}
"""
TRAINING = """tokens: {{required: {tokens}}}
microbatch: {microbatch}
accumulation: 1
training: {{method: full, optimizer: adamw_torch, gradient_checkpointing: {checkpointing}}}
"""
GENERATION = """tokens: {{required: {{prompt: {tokens}, output: {output}}}}}
concurrency: {microbatch}
"""


def card_text(case: dict[str, Any]) -> str:
    """The card that the run is of."""
    training = case["task"] == "train"
    head = CARD.format(
        name=case["name"],
        path=json.dumps(str(case["config"])),
        task="fine-tuning" if training else "inference",
        format=FORMATS[case["dtype"]],
        version=version("transformers"),
    )
    return head + (TRAINING if training else GENERATION).format(**case)


def run(case: dict[str, Any], work: Path) -> dict[str, Any] | None:
    """Measure one case in processes of its own; what `run.json` says, None where nothing was measured."""
    folder = work / case["name"]
    folder.mkdir(parents=True, exist_ok=True)
    card, runs = folder / "card.yaml", folder / "runs"
    card.write_text(card_text(case), encoding="utf-8")
    before = set(runs.glob("*"))
    program = [sys.executable, str(HERE / f"{case['task']}.py"), json.dumps(case, default=str)]
    options = ["--runs", str(runs), "--evidence", str(work / "evidence")]
    command = [str(Path(sys.executable).parent / "capienza"), "measure", str(card), *options, "--", *program]
    subprocess.run(command, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False)
    for made in set(runs.glob("*")) - before:
        summary = made / "run.json"
        if summary.is_file():
            environment = json.loads((made / "environment.json").read_text(encoding="utf-8"))
            return json.loads(summary.read_text(encoding="utf-8")) | {"environment": environment}
    return None


def arch(folder: Path, *, is_training: bool) -> dict[str, Any]:
    """The shape of a model, in the words of the cases."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    names = {name: config[name] for name in SHAPE if name in config}
    words = {word: config.get(name) for word, name in SHORT.items()} if is_training else names
    return words | {"architecture": config["architectures"][0], "config_source": folder.name}


def readings(done: dict[str, Any]) -> list[dict[str, Any]]:
    """Every peak that was read, each with its counter; main memory is never the kind of a GPU."""
    return [
        {
            "value": peak["value"], "unit": "B", "counter": f"{peak['counter']}: {peak['source']} ({peak['scope']})",
            "counter_kind": KINDS.get(peak["counter"], "unknown") if peak["scope"].startswith("gpu:") else "unknown",
            "phase": peak["phase"], "bytes": peak["value"],
        }
        for peak in done["peaks"]
    ]  # fmt: skip


def row(case: dict[str, Any], done: dict[str, Any]) -> dict[str, Any]:
    """The case as a line."""
    gpus = done["environment"].get("gpus") or []
    common = {
        "id": f"own-{case['name']}-{done['folder'][:16]}",
        "source": f"own run, bench/gpu, record folder {done['folder']}",
        "model": Path(case["config"]).name,
        "arch": arch(Path(case["config"]), is_training=case["task"] == "train"),
        "num_gpus": len(done["gpus_used"]),
        "gpu": gpus[0]["name"] if done["gpus_used"] else "none: main memory",
        "outcome": ENDED.get(done["outcome"], done["outcome"]),
        "notes": "random weights",
    }
    packages = f"torch {version('torch')}, transformers {version('transformers')}"
    if case["task"] == "train":
        return common | {
            "framework": "PyTorch loop with transformers", "framework_version": packages, "method": "full",
            "lora": None, "weight_dtype": FORMATS[case["dtype"]], "mixed_precision": "none",
            "optimizer": "torch AdamW (foreach default)",
            "gradient_checkpointing": "full (every decoder layer)" if case["checkpointing"] else False,
            "attention": "sdpa", "seq_len": case["tokens"], "microbatch": case["microbatch"], "grad_accum": 1,
            "packed": True, "loss_impl": "transformers' own", "compile": False, "parallelism": "1 GPU",
            "measured": readings(done), "completeness": 1.0, "tier": "gold" if done["gpus_used"] else "bronze",
        }  # fmt: skip
    return common | {
        "engine": "HF transformers", "engine_version": packages, "weight_format": FORMATS[case["dtype"]],
        "dtype": case["dtype"], "kv_cache_dtype": "auto", "block_size": None, "tp": 1, "pp": 1, "attention": "sdpa",
        "flags": {"batch": case["microbatch"], "prompt_tokens": case["tokens"], "generated_tokens": case["output"]},
        "measured": torch_peak(done), "phases": readings(done), "consistency": {},
    }  # fmt: skip


def torch_peak(done: dict[str, Any]) -> dict[str, Any]:
    """The highest allocated reading of the whole run; none where no GPU was used."""
    found = [peak["value"] for peak in done["peaks"] if peak["counter"] == "allocated" and done["gpus_used"]]
    if not found:
        return {}
    return {"peak_torch_allocated": {"value": max(found) / 2**30, "unit_logged": "GiB"}}


def append(path: Path, case: dict[str, Any]) -> None:
    """One line, on disk before the next run begins."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(case) + "\n")
        file.flush()
        os.fsync(file.fileno())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the file that the cases are appended to")
    parser.add_argument("--cpu", action="store_true", help="a tiny model in main memory, to see that it works")
    parser.add_argument("--minutes", type=float, default=7, help="no new run begins later than this")
    parser.add_argument("--work", type=Path, default=Path(".bench/gpu"), help="where raw readings and records stay")
    parser.add_argument("--only", nargs="*", help="names of the cases to run")
    options = parser.parse_args()
    missing = [name for name in ("torch", "transformers") if find_spec(name) is None]
    if missing:
        sys.exit(f"not installed: {', '.join(missing)}")
    cases = TINY_CASES if options.cpu else [case | {"config": CONFIGS / case["config"]} for case in CASES]
    end, measured = time.monotonic() + 60 * options.minutes, 0
    for case in cases:
        if options.only and case["name"] not in options.only:
            continue
        if time.monotonic() > end:
            print(f"left out, the time is up: {case['name']}", file=sys.stderr)
            continue
        full = {"dtype": "bfloat16", "output": 0, "checkpointing": False, "cpu": options.cpu} | case
        done = run(full, options.work)
        if done is None:
            print(f"not measured: {case['name']}", file=sys.stderr)
            continue
        append(options.out, row(full, done))
        measured += 1
    print(f"{measured} cases in {options.out}", file=sys.stderr)
    return 0 if measured else 1


if __name__ == "__main__":
    sys.exit(main())
