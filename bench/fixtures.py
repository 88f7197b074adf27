"""Make the inputs of the benchmarks in `.bench/`: a model folder, a card, files of offers. Nothing is downloaded.

    python bench/fixtures.py

The model folder has the shape of Llama-3.1-8B: its configuration, index and four shards with true headers (291 bf16
tensors, 16,060,522,496 B). The data are holes in sparse files, so the folder takes 100 kB of disk. The offers are
invented, over GPU names of the package's own tables; the seed fixes every byte.
"""

from __future__ import annotations

import csv
import json
import random
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".bench"
MODEL_ID = "bench/llama-3.1-8b"
HUB = FOLDER / "hub"
MODEL = HUB / MODEL_ID
CARD = FOLDER / "card.yaml"
TABLES = ROOT / "src" / "capienza" / "catalog" / "data"

NUM_LAYERS = 32
HIDDEN, INTERMEDIATE, VOCABULARY, KV_WIDTH = 4096, 14336, 128256, 1024
MODEL_BYTES = 16_060_522_496
MAX_SHARD_BYTES = 5_000_000_000
NUM_GPU_NAMES = 60
SEED = 20261130

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 128000,
    "eos_token_id": [128001, 128008, 128009],
    "hidden_act": "silu",
    "hidden_size": HIDDEN,
    "initializer_range": 0.02,
    "intermediate_size": INTERMEDIATE,
    "max_position_embeddings": 131072,
    "mlp_bias": False,
    "model_type": "llama",
    "num_attention_heads": 32,
    "num_hidden_layers": NUM_LAYERS,
    "num_key_value_heads": 8,
    "pretraining_tp": 1,
    "rms_norm_eps": 1e-05,
    "rope_scaling": {
        "factor": 8.0,
        "high_freq_factor": 4.0,
        "low_freq_factor": 1.0,
        "original_max_position_embeddings": 8192,
        "rope_type": "llama3",
    },
    "rope_theta": 500000.0,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.43.0.dev0",
    "use_cache": True,
    "vocab_size": VOCABULARY,
}

CARD_TEXT = f"""\
capienza: 1
name: bench
model: {{path: ./hub/{MODEL_ID}}}
task: inference
engine: {{name: vllm, version: "0.11.2", options: {{gpu_memory_utilization: 0.90}}}}
tokens: {{short: 512, usual: 4096, required: {{prompt: 30720, output: 2048}}}}
concurrency: 8
reserve: {{amount: 6 GiB, reason: first hypothesis}}
margin: {{amount: 2 GiB, reason: spread of three observed runs}}
quality: none
placement: {{gpus: 1, tensor_parallel: 1}}
host: {{ram: 64 GiB, storage: 200 GB, interconnect: none, managed_application: none, others_use: 0 GiB}}
budget: {{cap: 300 USD}}
calendar:
  timezone: Europe/Rome
  start: 2026-12-07
  deadline: 2026-12-12
  steps: [{{name: run, hours: 30, basis: hypothetical}}]
"""

Row = dict[str, str | int]


def tensors() -> Iterator[tuple[str, tuple[int, ...]]]:
    """Name and shape of every tensor, in the order of the layers."""
    yield "model.embed_tokens.weight", (VOCABULARY, HIDDEN)
    for layer in range(NUM_LAYERS):
        stem = f"model.layers.{layer}"
        yield f"{stem}.input_layernorm.weight", (HIDDEN,)
        yield f"{stem}.mlp.down_proj.weight", (HIDDEN, INTERMEDIATE)
        yield f"{stem}.mlp.gate_proj.weight", (INTERMEDIATE, HIDDEN)
        yield f"{stem}.mlp.up_proj.weight", (INTERMEDIATE, HIDDEN)
        yield f"{stem}.post_attention_layernorm.weight", (HIDDEN,)
        yield f"{stem}.self_attn.k_proj.weight", (KV_WIDTH, HIDDEN)
        yield f"{stem}.self_attn.o_proj.weight", (HIDDEN, HIDDEN)
        yield f"{stem}.self_attn.q_proj.weight", (HIDDEN, HIDDEN)
        yield f"{stem}.self_attn.v_proj.weight", (KV_WIDTH, HIDDEN)
    yield "model.norm.weight", (HIDDEN,)
    yield "lm_head.weight", (VOCABULARY, HIDDEN)


def bf16_bytes(shape: tuple[int, ...]) -> int:
    count = 2
    for size in shape:
        count *= size
    return count


def make_model(folder: Path) -> None:
    """Configuration, index and sparse shards."""
    folder.mkdir(parents=True, exist_ok=True)
    shards: list[list[tuple[str, tuple[int, ...]]]] = [[]]
    used = total = 0
    for name, shape in tensors():
        size = bf16_bytes(shape)
        if used + size > MAX_SHARD_BYTES:
            shards.append([])
            used = 0
        shards[-1].append((name, shape))
        used += size
        total += size
    assert total == MODEL_BYTES, total
    weight_map: dict[str, str] = {}
    for number, shard in enumerate(shards, start=1):
        file = f"model-{number:05}-of-{len(shards):05}.safetensors"
        write_shard(folder / file, shard)
        weight_map |= dict.fromkeys((name for name, _ in shard), file)
    assert len(weight_map) == 291, len(weight_map)
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")
    (folder / "config.json").write_text(json.dumps(CONFIG, indent=2) + "\n")


def write_shard(path: Path, shard: list[tuple[str, tuple[int, ...]]]) -> None:
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    position = 0
    for name, shape in shard:
        end = position + bf16_bytes(shape)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [position, end]}
        position = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + position)


def gpu_names() -> list[tuple[str, str]]:
    """Names as sellers write them, with the size in GB that goes with them."""
    with (TABLES / "gpus.csv").open(newline="", encoding="utf-8") as file:
        rows = [(row["marketing_name"], row["nominal_gb"]) for row in csv.DictReader(file) if row["nominal_gb"]]
    return random.Random(SEED).sample(sorted(rows), NUM_GPU_NAMES)


def offers(count: int) -> Iterator[Row]:
    """Invented offers in the flat form; the first `n` of `offers(m)` are `offers(n)`."""
    chance = random.Random(SEED)
    names = gpu_names()
    for number in range(count):
        gpu, gb = chance.choice(names)
        cards, days = chance.choice((1, 1, 1, 2, 4, 8)), chance.choice((1, 3, 5, 7, 14))
        yield {
            "id": f"offer-{number:06}",
            "provider": f"provider-{chance.randrange(24)}",
            "gpu": gpu,
            "memory": f"{gb} GB",
            "lots": chance.choice((1, 1, 2)),
            "cards": cards,
            "days": days,
            "total": f"{cards * days * chance.randrange(300, 9000) / 100:.2f} USD",
            "region": chance.choice(("eu-west", "eu-south", "us-east")),
            "document.id": f"sheet-{chance.randrange(400)}",
            "document.version": "2026-11",
            "document.retrieved": "2026-11-29",
        }


def nested(row: Row) -> dict[str, object]:
    """The dotted columns of a table as the inner keys that YAML and JSON have."""
    made: dict[str, object] = {}
    inner: dict[str, object] = {}
    for key, value in row.items():
        outer, dot, name = key.partition(".")
        if dot:
            made[outer] = inner
            inner[name] = value
        else:
            made[key] = value
    return made


def write_yaml(path: Path, rows: Iterator[Row]) -> None:
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(f"- {json.dumps(nested(row), ensure_ascii=False)}\n")


def write_jsonl(path: Path, rows: Iterator[Row]) -> None:
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(nested(row), ensure_ascii=False) + "\n")


def write_csv(path: Path, rows: Iterator[Row]) -> None:
    first = next(rows)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(first), lineterminator="\n")
        writer.writeheader()
        writer.writerow(first)
        writer.writerows(rows)


OFFER_FILES: dict[str, tuple[int, Callable[[Path, Iterator[Row]], None]]] = {
    "offers-1000.yaml": (1_000, write_yaml),
    "offers-20001.yaml": (20_001, write_yaml),
    "offers-100000.csv": (100_000, write_csv),
    "offers-100000.jsonl": (100_000, write_jsonl),
}


def make_all() -> None:
    """Everything, anew."""
    make_model(MODEL)
    CARD.write_text(CARD_TEXT)
    for name, (count, write) in OFFER_FILES.items():
        write(FOLDER / name, offers(count))


if __name__ == "__main__":
    make_all()
    print(f"made in {FOLDER}")
