"""Small GGUF models made up for tests; the measured llama.cpp cases as metadata, and what was logged for them."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from capienza.architecture.gguf import describe_gguf
from capienza.architecture.model import Architecture, Layer
from capienza.formats.tensor import Tensor

SHARED = Path(__file__).parents[2] / ".." / "shared"
ROW_BYTES = {"f16": (1, 2), "bf16": (1, 2), "f32": (1, 4), "q8_0": (32, 34), "q5_1": (32, 24), "q4_0": (32, 18)}
SSM = {"ssm__conv_kernel": 4, "ssm__inner_size": 96, "ssm__state_size": 16, "ssm__time_step_rank": 6}
GROUPED = SSM | {"ssm__group_count": 2}
# What the start-up lines print, by the metadata key it was read from.
PRINTED = {
    "block_count": "n_layer",
    "embedding_length": "n_embd",
    "attention.head_count": "n_head",
    "attention.head_count_kv": "n_head_kv",
    "attention.key_length": "n_embd_head_k",
    "attention.value_length": "n_embd_head_v",
    "attention.sliding_window": "n_swa",
    "ssm.conv_kernel": "ssm_d_conv",
    "ssm.inner_size": "ssm_d_inner",
    "ssm.state_size": "ssm_d_state",
    "ssm.group_count": "ssm_n_group",
}


def shared(*parts: str) -> Path:
    """A shared file; the test is skipped, aloud, without it."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"shared/{'/'.join(parts)} is not here")
    return path


def rows(name: str) -> list[dict[str, Any]]:
    """The rows of one file of cases."""
    return [json.loads(line) for line in shared("cases", name).read_text().splitlines()]


def geometries() -> ModuleType:
    """The tool that writes metadata-only files: `M` maps a name to (metadata, tensor table, row length first)."""
    path = shared("tools", "llamacpp_oracle", "synth_gguf.py")
    specification = importlib.util.spec_from_file_location("synth_gguf", path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def table(entries: list[tuple[str, tuple[int, ...], str]]) -> list[Tensor]:
    """A tensor table of that tool as the reader would return it."""
    return [Tensor(name, tuple(reversed(sizes)), kind, 0) for name, sizes, kind in entries]


def smallest_table(metadata: dict[str, Any]) -> list[Tensor]:
    """The fewest tensors that stand for a whole model."""
    name = metadata["general.architecture"]
    width, blocks = metadata[f"{name}.embedding_length"], metadata[f"{name}.block_count"]
    rows = metadata.get(f"{name}.vocab_size", 100)
    norms = [Tensor(f"blk.{index}.attn_norm.weight", (width,), "fp32", 0) for index in range(blocks)]
    return [Tensor("token_embd.weight", (rows, width), "fp16", 0), *norms]


def metadata_of(row: dict[str, Any]) -> tuple[dict[str, Any], bool] | None:
    """The metadata a row states, and whether it tells the width of K and V; None when it names no model.

    A value that is cut short in the log, and whatever else is missing, comes from the lines that print it. What no
    line prints is stood in for: one KV head of the printed width; an embedding of one element (no cache depends on
    it once the head sizes are known); for qwen35 value heads as wide as its key heads.
    """
    model = row["model"]
    name = model.get("arch")
    if name is None or model.get("n_layer") is None:
        return None
    stated = dict(model.get("gguf") or {})
    for key, printed in PRINTED.items():
        value = model.get(printed)
        if value and (isinstance(stated.get(key), str) or key not in stated):
            stated[key] = value
    latent_width = model.get("n_lora_kv", 0) + model.get("n_rot", 0)
    if row["runtime"].get("mla_attn"):  # ik_llama.cpp makes the latent form itself when it loads an older file
        latent = {"key_length_mla": 192, "value_length_mla": 128, "key_length": latent_width, "head_count_kv": 1}
        stated |= {f"attention.{key}": value for key, value in latent.items()}
    elif "attention.head_count_kv" not in stated and model.get("n_embd_k_gqa"):
        widths = {"head_count_kv": 1, "key_length": model["n_embd_k_gqa"], "value_length": model["n_embd_v_gqa"]}
        stated |= {f"attention.{key}": value for key, value in widths.items()}
    if name.startswith("qwen35") and "attention.key_length" in stated:
        stated.setdefault("attention.value_length", stated["attention.key_length"])
    known = "attention.head_count_kv" in stated
    stated.setdefault("embedding_length", 1)
    stated.setdefault("attention.head_count", stated.get("attention.head_count_kv", 1))
    return {"general.architecture": name} | {f"{name}.{key}": value for key, value in stated.items()}, known


def small_metadata(architecture: str, **keys: Any) -> dict[str, Any]:
    """Metadata of a small model; `__` in a name stands for a dot."""
    stated = {"block_count": 4, "embedding_length": 64, "attention.head_count": 4} | {
        key.replace("__", "."): value for key, value in keys.items()
    }
    return {"general.architecture": architecture} | {
        f"{architecture}.{key}": value for key, value in stated.items() if value is not None
    }


def described(architecture: str, extra: tuple[Tensor, ...] = (), **keys: Any) -> Architecture:
    """A small model with these keys and the fewest tensors, besides `extra`."""
    stated = small_metadata(architecture, **keys)
    return describe_gguf(stated, [*smallest_table(stated), *extra], "model.gguf")


def padded(cells: int) -> int:
    """llama.cpp rounds every cache up to 256 cells."""
    return -(-cells // 256) * 256


def row_bytes(kind: str, width: int) -> int:
    """Bytes of one cell."""
    block, size = ROW_BYTES[kind]
    assert width % block == 0
    return width // block * size


def tensor_bytes(kind: str, width: int, cells: int, *, cuda: bool) -> int:
    """Bytes of one cache tensor; CUDA completes one quantised row to 512 elements and aligns to 128."""
    size = row_bytes(kind, width) * cells
    if cuda and ROW_BYTES[kind][0] > 1 and width % 512:
        size += row_bytes(kind, 512 - width % 512)
    return -(-size // 128) * 128 if cuda else size


def cache_bytes(row: dict[str, Any], architecture: Architecture, *, cuda: bool) -> int:
    """Bytes of all K and V tensors of a row (reference page llamacpp-mechanics, section 3)."""
    runtime = row["runtime"]
    unified = str(runtime.get("kv_unified", True)).lower() == "true"
    sequences = runtime.get("n_seq_max", 1)
    streams = 1 if unified else sequences
    ik = row["engine"] == "ik_llama.cpp"  # it rounds to 32 cells, which the logged n_ctx already is
    full = runtime["n_ctx"] if ik else padded(runtime["n_ctx"] // streams)
    whole = ik or runtime.get("swa_full") or row.get("config", {}).get("swa_full")

    def cells(layer: Layer) -> int:
        window = layer.attention.window
        if window is None or whole:
            return full * streams
        return padded(min(full, window * (sequences if unified else 1) + runtime.get("n_ubatch", 512))) * streams

    total = 0
    for layer in architecture.layers:
        attention = layer.attention
        if attention is None or attention.shares_cache_of is not None:
            continue
        if attention.kind == "latent":
            widths = [(runtime["type_k"], attention.latent_width)]
            if runtime.get("mla_attn") == 1:  # a transposed copy of the latent part
                widths.append((runtime["type_k"], 512))
        else:
            kv_heads = attention.num_key_value_heads
            widths = [
                (runtime["type_k"], kv_heads * attention.key_head_dim),
                (runtime["type_v"], kv_heads * attention.value_head_dim),
            ]
        total += sum(tensor_bytes(kind, width, cells(layer), cuda=cuda) for kind, width in widths)
    return total


def state_bytes(row: dict[str, Any], architecture: Architecture) -> int:
    """Bytes of all recurrent states of a row: fp32, one row for each sequence and each step that can be undone."""
    runtime = row["runtime"]
    elements = sum(part.elements for layer in architecture.layers if layer.state for part in layer.state.parts)
    return 4 * elements * runtime.get("n_seq_max", 1) * (1 + runtime.get("n_rs_seq", 0))
