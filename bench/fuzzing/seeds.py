"""Sound inputs of every kind that the program reads: what the campaign damages.

Small on purpose: a damaged length then reaches past the end, and one input costs a millisecond.
"""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from typing import Any, NamedTuple

from fuzzing.gguf_writer import (
    ARRAY,
    F32,
    GGML_F32,
    GGML_Q4_0,
    GGML_Q8_0,
    STRING,
    U32,
    Array,
    GgufTable,
    Mark,
    write_gguf,
)
from fuzzing.trees import Pairs, Tree, as_json, as_yaml, tree_of

CARD_FILE = "card.yaml"
KINDS = ("safetensors", "gguf", "config", "card", "offers")

HIDDEN, LAYERS, VOCABULARY, INTERMEDIATE, HEADS, KV_HEADS = 64, 2, 96, 128, 4, 2


class Seed(NamedTuple):
    """A sound input: files of one folder, the one that is damaged, and what is known about that one.

    `tree` is there for texts (JSON, YAML) and headers, `marks` for binary files: where their numbers are.
    """

    kind: str
    name: str
    files: dict[str, bytes]
    target: str
    tree: Tree = None
    marks: tuple[Mark, ...] = ()
    table: GgufTable | None = None


LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": HIDDEN,
    "intermediate_size": INTERMEDIATE,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "rope_scaling": {"rope_type": "llama3", "factor": 8.0},
}  # fmt: skip
BASE = {key: value for key, value in LLAMA.items() if key not in ("architectures", "model_type", "rope_scaling")}
EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 32}
LATENT = {"q_lora_rank": 16, "kv_lora_rank": 32, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 16}
CONFIGS: dict[str, dict[str, Any]] = {
    "llama": LLAMA,
    "qwen2": BASE | {"model_type": "qwen2", "use_sliding_window": True, "sliding_window": 128, "max_window_layers": 1},
    "qwen3": BASE | {"model_type": "qwen3", "head_dim": 32, "attention_bias": False},
    "qwen3_moe": BASE | EXPERTS | {"model_type": "qwen3_moe", "num_experts": 8, "decoder_sparse_step": 1,
                                   "head_dim": 16, "mlp_only_layers": []},
    "mixtral": BASE | {"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2,
                       "sliding_window": None},
    "gemma3_text": BASE | {"model_type": "gemma3_text", "head_dim": 16, "sliding_window": 512,
                           "query_pre_attn_scalar": 16, "layer_types": ["sliding_attention", "full_attention"]},
    "gemma3": {"model_type": "gemma3", "architectures": ["Gemma3ForConditionalGeneration"], "mm_tokens_per_image": 4,
               "text_config": BASE | {"model_type": "gemma3_text", "head_dim": 16, "sliding_window": 512},
               "vision_config": {"model_type": "siglip_vision_model", "hidden_size": 32, "intermediate_size": 64,
                                 "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 28, "patch_size": 14}},
    "deepseek_v3": BASE | EXPERTS | LATENT | {"model_type": "deepseek_v3", "num_key_value_heads": 4,
                                              "n_routed_experts": 8, "n_shared_experts": 1, "n_group": 2,
                                              "first_k_dense_replace": 1, "topk_group": 1,
                                              "num_nextn_predict_layers": 1},
    "gpt_oss": BASE | {"model_type": "gpt_oss", "head_dim": 16, "num_local_experts": 4, "num_experts_per_tok": 2,
                       "sliding_window": 128, "layer_types": ["sliding_attention", "full_attention"]},
    "gpt2": {"model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_layer": 2, "n_positions": 128, "vocab_size": 96,
             "torch_dtype": "float16"},
    "llama-fp8": LLAMA | {"quantization_config": {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [32, 32],
                                                  "activation_scheme": "dynamic"}},
    "llama-gptq": LLAMA | {"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 32,
                                                   "desc_act": True, "sym": True}},
    "llama-bnb": LLAMA | {"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True,
                                                  "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True}},
    "llama-ct": LLAMA | {"quantization_config": {"quant_method": "compressed-tensors", "format": "pack-quantized",
                         "ignore": ["lm_head"], "config_groups": {"group_0": {"targets": ["Linear"], "weights": {
                             "num_bits": 4, "type": "int", "group_size": 32, "strategy": "group",
                             "symmetric": True}}}}},
}  # fmt: skip


def lay_out(files: dict[str, bytes], folder: Path) -> None:
    """Write the files, and nothing else, in the folder."""
    for old in sorted(folder.rglob("*"), reverse=True):
        old.rmdir() if old.is_dir() else old.unlink()
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def text_of(name: str, tree: Tree) -> str:
    """The tree as the file of that name holds it."""
    rows = tree if isinstance(tree, list) and not isinstance(tree, Pairs) else [tree]
    if name == "offers.yaml":
        return "".join(f"- {as_json(row)}\n" for row in rows)
    if name.endswith(".jsonl"):
        return "".join(as_json(row) + "\n" for row in rows)
    return as_yaml(tree) if name.endswith(".yaml") else as_json(tree)


Row = tuple[str, str, list[int]]
"""Name, format and shape of a tensor."""
DTYPE_BYTES = {"BF16": 2, "F8_E4M3": 1, "F32": 4}


def safetensors_rows() -> list[Row]:
    kv = HIDDEN * KV_HEADS // HEADS
    rows: list[Row] = [("model.embed_tokens.weight", "BF16", [VOCABULARY, HIDDEN])]
    for layer in range(LAYERS):
        shapes = {
            "input_layernorm": [HIDDEN],
            "post_attention_layernorm": [HIDDEN],
            "mlp.gate_proj": [INTERMEDIATE, HIDDEN],
            "mlp.up_proj": [INTERMEDIATE, HIDDEN],
            "mlp.down_proj": [HIDDEN, INTERMEDIATE],
            "self_attn.q_proj": [HIDDEN, HIDDEN],
            "self_attn.k_proj": [kv, HIDDEN],
            "self_attn.v_proj": [kv, HIDDEN],
            "self_attn.o_proj": [HIDDEN, HIDDEN],
        }
        rows += [(f"model.layers.{layer}.{name}.weight", "BF16", shape) for name, shape in shapes.items()]
    return [*rows, ("model.norm.weight", "BF16", [HIDDEN]), ("lm_head.weight", "BF16", [VOCABULARY, HIDDEN])]


def fp8_rows() -> list[Row]:
    """The same model with block-wise FP8 projections, as `llama-fp8` of `CONFIGS` says."""
    rows: list[Row] = []
    for name, dtype, shape in safetensors_rows():
        if "_proj" in name:
            rows += [(name, "F8_E4M3", shape), (f"{name}_scale_inv", "F32", [side // 32 for side in shape])]
        else:
            rows.append((name, dtype, shape))
    return rows


def safetensors_header(rows: list[Row]) -> tuple[dict[str, Any], int]:
    """The header as it is written, and the bytes of data that it describes."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    position = 0
    for name, dtype, shape in rows:
        end = position + DTYPE_BYTES[dtype] * math.prod(shape)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [position, end]}
        position = end
    return header, position


def pack_safetensors(header: bytes, data_bytes: int) -> bytes:
    """A file from the text of its header."""
    return struct.pack("<Q", len(header)) + header + bytes(data_bytes)


def encoded(value: Any) -> bytes:
    return json.dumps(value).encode()


def safetensors_seeds() -> list[Seed]:
    made = []
    for name, rows, config in (
        ("whole", safetensors_rows(), CONFIGS["llama"]),
        ("fp8", fp8_rows(), CONFIGS["llama-fp8"]),
    ):
        header, data_bytes = safetensors_header(rows)
        files = {"config.json": encoded(config), "model.safetensors": pack_safetensors(encoded(header), data_bytes)}
        made.append(Seed("safetensors", name, files, "model.safetensors", tree_of(header), (Mark(0, 8),)))
    return [*made, sharded_seed()]


def sharded_seed() -> Seed:
    rows = safetensors_rows()
    files = {"config.json": encoded(LLAMA)}
    weight_map: dict[str, str] = {}
    total = 0
    for number, part in enumerate((rows[:10], rows[10:]), start=1):
        shard = f"model-{number:05}-of-00002.safetensors"
        header, data_bytes = safetensors_header(part)
        files[shard] = pack_safetensors(encoded(header), data_bytes)
        weight_map |= dict.fromkeys((row[0] for row in part), shard)
        total += data_bytes
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    name = "model.safetensors.index.json"
    return Seed("safetensors", "index", files | {name: encoded(index)}, name, tree_of(index))


def gguf_seeds() -> list[Seed]:
    metadata: list[tuple[str, int, Any]] = [
        ("general.architecture", STRING, "llama"),
        ("general.name", STRING, "seed"),
        ("general.alignment", U32, 32),
        ("llama.block_count", U32, LAYERS),
        ("llama.context_length", U32, 4096),
        ("llama.embedding_length", U32, HIDDEN),
        ("llama.feed_forward_length", U32, INTERMEDIATE),
        ("llama.attention.head_count", U32, HEADS),
        ("llama.attention.head_count_kv", U32, KV_HEADS),
        ("llama.attention.layer_norm_rms_epsilon", F32, 1e-5),
        ("llama.rope.dimension_count", U32, 16),
        ("tokenizer.ggml.model", STRING, "gpt2"),
        ("tokenizer.ggml.tokens", ARRAY, Array(STRING, [f"token{number}" for number in range(VOCABULARY)])),
        ("tokenizer.ggml.token_type", ARRAY, Array(U32, [1] * VOCABULARY)),
    ]
    tensors: list[tuple[str, list[int], int]] = [("token_embd.weight", [HIDDEN, VOCABULARY], GGML_Q8_0)]
    for block in range(LAYERS):
        stem = f"blk.{block}"
        tensors += [
            (f"{stem}.attn_norm.weight", [HIDDEN], GGML_F32),
            (f"{stem}.attn_q.weight", [HIDDEN, HIDDEN], GGML_Q4_0),
            (f"{stem}.attn_k.weight", [HIDDEN, HIDDEN // 2], GGML_Q4_0),
            (f"{stem}.attn_v.weight", [HIDDEN, HIDDEN // 2], GGML_Q4_0),
            (f"{stem}.attn_output.weight", [HIDDEN, HIDDEN], GGML_Q4_0),
            (f"{stem}.ffn_norm.weight", [HIDDEN], GGML_F32),
            (f"{stem}.ffn_gate.weight", [HIDDEN, INTERMEDIATE], GGML_Q4_0),
            (f"{stem}.ffn_up.weight", [HIDDEN, INTERMEDIATE], GGML_Q4_0),
            (f"{stem}.ffn_down.weight", [INTERMEDIATE, HIDDEN], GGML_Q4_0),
        ]
    tensors += [("output_norm.weight", [HIDDEN], GGML_F32), ("output.weight", [HIDDEN, VOCABULARY], GGML_Q8_0)]
    per_block = [row for row in metadata if row[0] != "llama.attention.head_count_kv"]
    per_block += [("llama.attention.head_count_kv", ARRAY, Array(U32, [KV_HEADS] * LAYERS))]
    made = []
    for name, version, rows in (("v3", 3, metadata), ("v2", 2, metadata), ("v3-arrays", 3, per_block)):
        table = GgufTable(version, rows, tensors)
        data, marks = write_gguf(table)
        made.append(Seed("gguf", name, {"model.gguf": data}, "model.gguf", None, tuple(marks), table))
    return made


def config_seeds() -> list[Seed]:
    return [
        Seed("config", name, {"config.json": encoded(config)}, "config.json", tree_of(config))
        for name, config in CONFIGS.items()
    ]


CARD: dict[str, Any] = {
    "capienza": 1,
    "name": "support-assistant",
    "model": {"path": "./model"},
    "task": "inference",
    "weights": {"format": "bf16"},
    "engine": {"name": "vllm", "version": "0.11.2", "options": {"gpu_memory_utilization": 0.9}},
    "tokens": {"short": 512, "usual": 4096, "required": {"prompt": 3072, "output": 1024}},
    "concurrency": 8,
    "reserve": {"amount": "6 GiB", "reason": "first hypothesis"},
    "margin": {"amount": "2 GiB", "reason": "spread of three observed runs"},
    "quality": {"corpus": "eval/corpus.jsonl",
                "metrics": [{"name": "exact_match", "min": 0.82, "max_regression": 0.01}]},
    "placement": {"gpus": 1, "tensor_parallel": 1},
    "host": {"ram": "64 GiB", "storage": "200 GB", "interconnect": "none", "managed_application": "none",
             "others_use": "0 GiB"},
    "budget": {"cap": "300 USD"},
    "calendar": {"timezone": "Europe/Rome", "start": "2026-12-07", "deadline": "2026-12-12",
                 "steps": [{"name": "run", "hours": 30, "basis": "hypothetical"}]},
    "preferences": [{"region": "eu"}],
}  # fmt: skip
TRAINING_CARD = {key: value for key, value in CARD.items() if key not in ("concurrency", "engine")} | {
    "task": "fine-tuning",
    "microbatch": 1,
    "accumulation": 16,
    "training": {"method": "lora", "rank": 16, "optimizer": "adamw"},
}


def card_seeds() -> list[Seed]:
    made = []
    for name, card in (("inference", CARD), ("training", TRAINING_CARD)):
        tree = tree_of(card)
        files = {CARD_FILE: as_yaml(tree).encode(), "model/config.json": encoded(LLAMA)}
        made.append(Seed("card", name, files, CARD_FILE, tree))
    return made


FLAT_OFFERS: list[dict[str, Any]] = [
    {"id": "rtx4090-1x3d", "provider": "example", "gpu": "RTX 4090", "memory": "24 GB", "lots": 1, "cards": 1,
     "days": 3, "total": "47.14 USD",
     "document": {"id": "rtx-4090-sheet", "version": "2026-11", "retrieved": "2026-11-29"}},
    {"id": "h100-hour", "provider": "example", "gpu": "H100 SXM", "memory": "80 GB", "cards": 8, "hourly": "24.00 USD",
     "per": "offer", "host": {"ram": "512 GiB", "disk": "2 TB", "vcpus": 96}, "region": "eu-south", "country": "IT",
     "fees": [{"kind": "setup", "amount": "50.00 USD", "unit": "once"}],
     "document": {"id": "h100-sheet", "version": "3", "retrieved": "2026-11-29"}},
]  # fmt: skip
FULL_OFFERS: list[dict[str, Any]] = [
    {"offer_id": "pkg-1", "provider": "synthetic", "retrieved_at": "2026-11-30T00:00:00Z",
     "valid_until": "2026-12-07T00:00:00Z",
     "gpu": {"name_raw": "H100 80GB", "key": None, "candidates": ["h100_pcie", "h100_sxm"], "memory_nominal_gb": 80,
             "memory_source": "seller", "share": "whole"},
     "gpus_total": 8, "gpus_per_node": 8, "nodes": 1,
     "price": {"kind": "total", "amount": "5376.00", "currency": "USD", "term_hours": 336, "tax_included": False},
     "fees": [{"kind": "egress", "amount": "0.02", "unit": "per_gb", "included": 1000}]},
    {"offer_id": "mig-1", "provider": "synthetic", "retrieved_at": "2026-11-30T00:00:00Z",
     "gpu": {"name_raw": "A100 MIG 3g.40gb", "key": "a100_sxm_80", "memory_reported_mib": 40192,
             "memory_source": "table", "share": "mig", "mig_profile": "3g.40gb"},
     "gpus_total": 1, "price": {"kind": "per_offer_hour", "amount": "0.60", "currency": "EUR"}},
]  # fmt: skip
CSV_OFFERS = """\
id,provider,gpu,memory,lots,cards,days,total,region,document.id,document.version,document.retrieved
rtx4090-1x3d,example,RTX 4090,24 GB,1,1,3,47.14 USD,eu-west,rtx-4090-sheet,2026-11,2026-11-29
rtx6000ada-1x3d,example,RTX 6000 Ada,48 GB,1,1,3,55.71 USD,eu-west,rtx-6000-ada-sheet,2026-11,2026-11-29
"""
FULL_CSV_OFFERS = """\
offer_id,provider,retrieved_at,gpu.name_raw,gpu.memory_nominal_gb,gpus_total,price.kind,price.amount,price.currency
full-1,example,2026-11-30T00:00:00Z,RTX 4090,24,1,per_gpu_hour,0.40,USD
"""


def offer_seeds() -> list[Seed]:
    made = []
    company = {CARD_FILE: as_yaml(tree_of(CARD)).encode(), "model/config.json": encoded(LLAMA)}
    for form, rows in (("flat", FLAT_OFFERS), ("full", FULL_OFFERS)):
        tree = tree_of(rows)
        for ending in ("yaml", "json", "jsonl"):
            name = f"offers.{ending}"
            files = company | {name: text_of(name, tree).encode()}
            made.append(Seed("offers", f"{form}-{ending}", files, name, tree))
    for name, text in (("flat-csv", CSV_OFFERS), ("full-csv", FULL_CSV_OFFERS)):
        made.append(Seed("offers", name, company | {"offers.csv": text.encode()}, "offers.csv"))
    return made


def all_seeds() -> dict[str, list[Seed]]:
    """The sound inputs by kind."""
    return {
        "safetensors": safetensors_seeds(),
        "gguf": gguf_seeds(),
        "config": config_seeds(),
        "card": card_seeds(),
        "offers": offer_seeds(),
    }
