"""Tensor tables of public geometries, made up without any weights, and the dry runs of llama.cpp on them.

`data/llamacpp_dry_runs.jsonl`: own runs of llama.cpp at 0c1e57098 in its dry mode on metadata-only files with pretend
CUDA devices (tools/llamacpp_oracle of the shared folder): bytes of model, context and compute on each device.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from capienza.formats.blocks import tensor_bytes
from capienza.formats.tensor import Tensor
from capienza.predict.inference.llamacpp.model import LlamaModel, llama_model
from capienza.predict.inference.llamacpp.runtime import LlamaRuntime

RUNS = Path(__file__).parent / "data" / "llamacpp_dry_runs.jsonl"
TYPES = {"f16": "fp16", "f32": "fp32"}


def metadata(name, blocks, width, heads, kv_heads, forward, vocabulary, context, **keys):
    own = {
        "vocab_size": vocabulary, "block_count": blocks, "embedding_length": width, "feed_forward_length": forward,
        "context_length": context, "attention.head_count": heads, "attention.head_count_kv": kv_heads,
    }  # fmt: skip
    own |= {key.replace("__", "."): value for key, value in keys.items()}
    return {"general.architecture": name} | {f"{name}.{key}": value for key, value in own.items()}


def dense(
    blocks, width, query, key, forward, vocabulary, *, tied=False, bias=False, key_norm=0, experts=(), embedding="q4_k",
    weights="q4_k", output="q6_k", norm="ffn_norm",
):  # fmt: skip
    """(name, shape with the row length last, format) of a plain transformer; experts: how many, how wide."""
    table = [("token_embd.weight", (vocabulary, width), embedding), ("output_norm.weight", (width,), "fp32")]
    table += [] if tied else [("output.weight", (vocabulary, width), output)]
    for block in range(blocks):
        start = f"blk.{block}."
        rows = [("attn_norm.weight", (width,), "fp32"), (f"{norm}.weight", (width,), "fp32")]
        sizes = {"q": query, "k": key, "v": key}
        rows += [(f"attn_{letter}.weight", (size, width), weights) for letter, size in sizes.items()]
        rows += [("attn_output.weight", (width, query), weights)]
        rows += [(f"attn_{letter}.bias", (size,), "fp32") for letter, size in sizes.items() if bias]
        rows += [(f"attn_{letter}_norm.weight", (key_norm,), "fp32") for letter in "qk" if key_norm]
        if experts:
            count, size = experts
            rows += [("ffn_gate_inp.weight", (count, width), "fp32")]
            rows += [(f"ffn_{part}_exps.weight", (count, size, width), weights) for part in ("gate", "up")]
            rows += [("ffn_down_exps.weight", (count, width, size), weights)]
        else:
            rows += [(f"ffn_{part}.weight", (forward, width), weights) for part in ("gate", "up")]
            rows += [("ffn_down.weight", (width, forward), weights)]
        table += [(start + name, shape, kind) for name, shape, kind in rows]
    return table


def every(blocks, *rows):
    return [(f"blk.{block}.{name}", shape, kind) for block in range(blocks) for name, shape, kind in rows]


def without(table, *parts):
    return [row for row in table if not any(part in row[0] for part in parts)]


def gated_delta(name, blocks, width, heads, kv_heads, forward, vocabulary, inner, rank, experts=()):
    """Qwen3.5: every fourth block attends, the others keep a state."""
    state, groups, head = 128, 16, 256
    channels = inner + 2 * groups * state
    table = [
        ("token_embd.weight", (vocabulary, width), "q4_k"),
        ("output_norm.weight", (width,), "fp32"),
        ("output.weight", (vocabulary, width), "q6_k"),
    ]
    for block in range(blocks):
        rows = [("attn_norm.weight", (width,), "fp32"), ("post_attention_norm.weight", (width,), "fp32")]
        if experts:
            count, size = experts
            rows += [("ffn_gate_inp.weight", (count, width), "fp32"), ("ffn_gate_inp_shexp.weight", (width,), "fp32")]
            rows += [(f"ffn_{part}_exps.weight", (count, size, width), "q4_k") for part in ("gate", "up")]
            rows += [("ffn_down_exps.weight", (count, width, size), "q4_k")]
            rows += [(f"ffn_{part}_shexp.weight", (size, width), "q8_0") for part in ("gate", "up")]
            rows += [("ffn_down_shexp.weight", (width, size), "q8_0")]
        else:
            rows += [(f"ffn_{part}.weight", (forward, width), "q4_k") for part in ("gate", "up")]
            rows += [("ffn_down.weight", (width, forward), "q4_k")]
        if (block + 1) % 4 == 0:
            sizes = {"q": 2 * head * heads, "k": head * kv_heads, "v": head * kv_heads}
            rows += [(f"attn_{letter}.weight", (size, width), "q4_k") for letter, size in sizes.items()]
            rows += [("attn_output.weight", (width, head * heads), "q4_k")]
            rows += [(f"attn_{letter}_norm.weight", (head,), "fp32") for letter in "qk"]
        else:
            rows += [("attn_qkv.weight", (channels, width), "q4_k"), ("attn_gate.weight", (inner, width), "q4_k")]
            rows += [("ssm_conv1d.weight", (channels, 4), "fp32"), ("ssm_dt.bias", (rank,), "fp32")]
            rows += [("ssm_a", (rank,), "fp32"), ("ssm_norm.weight", (state,), "fp32")]
            rows += [(f"ssm_{part}.weight", (rank, width), "q8_0") for part in ("beta", "alpha")]
            rows += [("ssm_out.weight", (width, inner), "q4_k")]
        table += [(f"blk.{block}.{name}", shape, kind) for name, shape, kind in rows]
    keys = {
        "attention.key_length": head, "attention.value_length": head, "rope.dimension_count": 64,
        "ssm.conv_kernel": 4, "ssm.inner_size": inner, "ssm.state_size": state, "ssm.time_step_rank": rank,
        "ssm.group_count": groups, "full_attention_interval": 4,
    }  # fmt: skip
    if experts:
        keys |= {"expert_count": experts[0], "expert_used_count": 8, "expert_feed_forward_length": experts[1]}
    stated = metadata(name, blocks, width, heads, kv_heads, forward, vocabulary, 262144)
    return stated | {f"{name}.{key}": value for key, value in keys.items()}, table


def falcon_h1():
    blocks, width, inner, state, rank = 24, 2048, 3072, 256, 48
    channels = inner + 2 * state
    table = without(dense(blocks, width, 1024, 256, 4096, 65536, weights="q8_0", embedding="q8_0", output="q8_0"))
    table += every(
        blocks,
        ("ssm_in.weight", (inner + channels + rank, width), "q8_0"),
        ("ssm_conv1d.weight", (channels, 4), "fp32"),
        ("ssm_conv1d.bias", (channels,), "fp32"),
        ("ssm_dt.bias", (rank,), "fp32"),
        ("ssm_a", (rank, 1), "fp32"),
        ("ssm_d", (rank, 1), "fp32"),
        ("ssm_out.weight", (width, inner), "q8_0"),
    )
    stated = metadata(
        "falcon-h1", blocks, width, 8, 2, 4096, 65536, 131072, attention__key_length=128, attention__value_length=128,
        ssm__conv_kernel=4, ssm__inner_size=inner, ssm__state_size=state, ssm__time_step_rank=rank, ssm__group_count=1,
    )  # fmt: skip
    return stated, table


def phi4():
    table = without(dense(40, 5120, 5120, 1280, 17920, 100352), "ffn_gate", "ffn_up", "attn_q", "attn_k", "attn_v")
    table += every(40, ("ffn_up.weight", (2 * 17920, 5120), "q4_k"), ("attn_qkv.weight", (5120 + 2560, 5120), "q4_k"))
    return metadata("phi3", 40, 5120, 40, 10, 17920, 100352, 16384, rope__dimension_count=128), table


def gemma2():
    table = dense(26, 2304, 2048, 1024, 9216, 256000, tied=True, embedding="q6_k")
    table += every(26, *((f"{name}.weight", (2304,), "fp32") for name in ("post_attention_norm", "post_ffw_norm")))
    stated = metadata(
        "gemma2", 26, 2304, 8, 4, 9216, 256000, 8192, attention__key_length=256, attention__value_length=256,
        attention__sliding_window=4096, attn_logit_softcapping=50.0, final_logit_softcapping=30.0,
    )  # fmt: skip
    return stated, table


def glm4_air():
    table = dense(46, 4096, 12288, 1024, 10944, 151552, bias=True, norm="post_attention_norm")
    table = [
        row
        for row in table
        if row[0].startswith("blk.0.") or not row[0].endswith(("gate.weight", "up.weight", "down.weight"))
    ]
    table = [(name, shape, "q8_0" if shape[-1] % 256 and kind != "fp32" else kind) for name, shape, kind in table]
    experts = every(
        46,
        ("ffn_gate_inp.weight", (128, 4096), "fp32"),
        ("exp_probs_b.bias", (128,), "fp32"),
        ("ffn_gate_exps.weight", (128, 1408, 4096), "q4_k"),
        ("ffn_up_exps.weight", (128, 1408, 4096), "q4_k"),
        ("ffn_down_exps.weight", (128, 4096, 1408), "q8_0"),
        ("ffn_gate_shexp.weight", (1408, 4096), "q4_k"),
        ("ffn_up_shexp.weight", (1408, 4096), "q4_k"),
        ("ffn_down_shexp.weight", (4096, 1408), "q8_0"),
    )
    table += [row for row in experts if not row[0].startswith("blk.0.")]
    stated = metadata(
        "glm4moe", 46, 4096, 96, 8, 10944, 151552, 131072, attention__key_length=128, attention__value_length=128,
        rope__dimension_count=64, expert_count=128, expert_used_count=8, expert_feed_forward_length=1408,
        expert_shared_count=1, leading_dense_block_count=1, expert_gating_func=2, expert_weights_norm=True,
        expert_weights_scale=1.0,
    )  # fmt: skip
    return stated, table


def _tables():
    """Every geometry that the dry runs are of."""
    moe = {"attention__key_length": 128, "attention__value_length": 128, "expert_used_count": 8, "expert_count": 128}
    return {
        "llama3.2-3b": lambda: (
            metadata("llama", 28, 3072, 24, 8, 8192, 128256, 131072, rope__dimension_count=128),
            [
                *dense(28, 3072, 3072, 1024, 8192, 128256, tied=True, embedding="q6_k"),
                ("rope_freqs.weight", (64,), "fp32"),
            ],
        ),
        "yi-34b": lambda: (
            metadata("llama", 60, 7168, 56, 8, 20480, 64000, 4096, rope__dimension_count=128),
            dense(60, 7168, 7168, 1024, 20480, 64000),
        ),
        "qwen3-30b-a3b": lambda: (
            metadata(
                "qwen3moe", 48, 2048, 32, 4, 6144, 151936, 262144, **moe, expert_feed_forward_length=768
            ),
            dense(
                48, 2048, 4096, 512, 6144, 151936, key_norm=128, experts=(128, 768), weights="q8_0", embedding="q8_0",
                output="q8_0",
            ),
        ),
        "gemma2-2b": gemma2,
        "phi4-14b": phi4,
        "glm4.5-air": glm4_air,
        "smollm3-3b": lambda: (
            metadata("smollm3", 36, 2048, 16, 4, 11008, 128256, 65536, rope__dimension_count=128),
            dense(36, 2048, 2048, 512, 11008, 128256, tied=True, embedding="q6_k"),
        ),
        "granite-8b": lambda: (
            metadata(
                "granite", 40, 4096, 32, 8, 12800, 49152, 131072, rope__dimension_count=128, attention__scale=0.01,
                embedding_scale=12.0, residual_scale=0.22, logit_scale=16.0,
            ),
            dense(40, 4096, 4096, 1024, 12800, 49152, tied=True),
        ),
        "falcon-h1-1.5b": falcon_h1,
        "qwen3.6-27b": lambda: gated_delta("qwen35", 64, 5120, 24, 4, 17408, 248320, 6144, 48),
        "qwen3.6-35b-a3b": lambda: gated_delta("qwen35moe", 40, 2048, 16, 2, 512, 248320, 4096, 32, (256, 512)),
    }  # fmt: skip


@cache
def model(name: str) -> LlamaModel:
    """One geometry as the predictor takes it."""
    stated, rows = _tables()[name]()
    tensors = [Tensor(row, shape, kind, tensor_bytes(shape, kind)) for row, shape, kind in rows]
    return llama_model(stated, tensors, name)


def runs() -> list[dict]:
    """The dry runs: model, config, and bytes of model, context and compute by device."""
    return [json.loads(line) for line in RUNS.read_text().splitlines()]


def runtime_of(config: dict, **more) -> LlamaRuntime:
    """The runtime of one dry run."""
    said = {
        "devices": tuple(f"CUDA{index}" for index in range(config.get("n", 1))),
        "n_ctx": config["c"],
        "n_batch": config.get("b", 2048),
        "n_ubatch": config.get("ub", 512),
        "n_seq_max": config.get("np", 1),
        "kv_unified": bool(config.get("unified")),
        "cache_type_k": TYPES.get(config.get("ctk", "f16"), config.get("ctk")),
        "cache_type_v": TYPES.get(config.get("ctv", "f16"), config.get("ctv")),
        "flash_attn": config.get("fa", "auto"),
        "n_gpu_layers": config.get("ngl", -1),
        "tensor_split": tuple(map(float, config["ts"].split(","))) if "ts" in config else None,
        "kv_offload": bool(config.get("kvo", 1)),
        "n_cpu_moe": config.get("cmoe", 0),
        "n_outputs": config.get("nout", 2048),
        "snapshots": config.get("rs", 0),
        "use_mmap": False,
        "is_dry_run": True,
        "f16_copies": bool(config.get("fa16")),
    }
    return LlamaRuntime(**said | more)
