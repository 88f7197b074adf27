"""Whole models against published totals: safetensors indexes, and weights that engines logged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from formats_models import Parameter, decoder, gpt_oss

from capienza.formats.scheme import scheme_from_config, scheme_named, stored
from capienza.units import GIB

CASES = Path(__file__).parents[2] / ".." / "shared" / "cases" / "inference.jsonl"
GPT_OSS = {
    "modules_to_not_convert": [
        "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"
    ],
    "quant_method": "mxfp4",
}  # fmt: skip


@pytest.mark.parametrize(
    ("layers", "experts", "parameters", "published"),
    [(24, 32, 20_914_757_184, 13_761_264_768), (36, 128, 116_829_156_672, 65_248_815_744)],
    ids=["gpt-oss-20b", "gpt-oss-120b"],
)
def test_gpt_oss_is_exact(layers: int, experts: int, parameters: int, published: int) -> None:
    """The `total_size` of both safetensors indexes (openai/gpt-oss-20b and -120b)."""
    model = gpt_oss(layers, experts)
    scheme = scheme_from_config(GPT_OSS, "config.json")
    plain = sum(t.bytes for n, s, r in model for t in stored(n, s, r, None, "bf16"))
    assert plain == 2 * parameters
    assert (
        sum(t.bytes for n, s, r in model for t in stored(n, s, r, scheme, "bf16", transposed=len(s) == 3)) == published
    )


def case(identity: str) -> dict[str, Any]:
    if not CASES.exists():
        pytest.skip(f"measured cases are not here: {CASES}")
    for line in CASES.read_text(encoding="utf-8").splitlines():
        row: dict[str, Any] = json.loads(line)
        if row["id"] == identity:
            return row
    pytest.fail(f"no case {identity}")


def model_of(arch: dict[str, Any]) -> list[Parameter]:
    """The parameters of a case's architecture."""
    experts = arch.get("num_experts") or 0
    return decoder(
        layers=arch["num_hidden_layers"],
        hidden=arch["hidden_size"],
        intermediate=arch["moe_intermediate_size" if experts else "intermediate_size"],
        heads=arch["num_attention_heads"],
        kv_heads=arch["num_key_value_heads"],
        head_dim=arch.get("head_dim"),
        vocab=arch["vocab_size"],
        tied=arch["tie_word_embeddings"],
        qk_norm=bool(arch.get("qk_norm")),
        experts=experts,
    )


def sharded(parameter: Parameter, ranks: int) -> Parameter:
    """Megatron's split: vocabulary and output features by rows, the two closing projections by columns."""
    name, shape, role = parameter
    if role == "norm":
        return parameter
    side = 1 if name.endswith(("o_proj.weight", "down_proj.weight")) else 0
    return name, tuple(size // ranks if index == side else size for index, size in enumerate(shape)), role


@pytest.mark.parametrize(
    ("identity", "name", "tolerance"),
    [
        ("vllm-6509-codellama34b-awq", "awq-int4-g128", 0.002),
        ("vllm-file-llama70b-awq-tp2-48gb", "awq-int4-g128", 0.002),
        ("vllm-file-mistral7b-gptq-triton", "gptq-int4-g128", 0.005),
        ("vllm-25928-qwen3-30b-fp8", "fp8_block", 0.002),
        ("vllm-39682-qwen3-30b-fp8-tp2", "fp8", 0.002),
        # With slots for one adapter; the log's growth also holds allocator rounding and leftovers of loading.
        ("vllm-unsloth-qwen3-8b-bnb-t4", "nf4_double", 0.02),
        ("vllm-unsloth-mistral-v0.3-bnb-4090", "nf4_double", 0.02),
    ],
)
def test_weights_that_vllm_logged(identity: str, name: str, tolerance: float) -> None:
    row = case(identity)
    logged = row["measured"]["weights"]["value"] * GIB
    scheme = scheme_named(name)
    # vLLM holds the table of rotary angles beside the weights: positions x head_dim x 2 B (reference section 3).
    arch = row["arch"]
    head_dim = arch.get("head_dim") or arch["hidden_size"] // arch["num_attention_heads"]
    angles = arch["max_position_embeddings"] * head_dim * 2
    ours = sum(t.bytes for p in model_of(arch) for t in stored(*sharded(p, row["tp"]), scheme, "fp16"))
    # Slots for adapters: rank x (in + out) x 2 B for each linear module (reference section 3).
    linear = [shape for _, shape, role in model_of(arch) if role in {"attention", "mlp"}]
    slots = 2 * (row.get("lora") or {}).get("rank", 0) * sum(rows + columns for rows, columns in linear)
    assert (ours + angles + slots) / logged == pytest.approx(1, abs=tolerance)
