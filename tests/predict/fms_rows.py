"""The runs of fms-acceleration on one A100, as recipes: what the rows state, and what the bytes show they ran.

PowerLM has biases on attention and MLP; the GPTQ checkpoints of Mixtral and Llama 2 70B have one group a row; the
tuner fits embedding and head to the tokenizer (a padding token more, or what santacoder's tokenizer does not use less).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from capienza.architecture.model import Architecture
from capienza.architecture.registry import describe
from capienza.recipe.recipe import Adapters, Checkpointing, Evaluation, Loss, Optimizer, Precision, Recipe

Row = dict[str, Any]


def fms_rows(shared: Path) -> list[Row]:
    """Rows on one GPU that say what was allocated when training had returned."""
    lines = (shared / "cases" / "training.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return [row for row in rows if row["id"].startswith("fms-") and row["num_gpus"] == 1 and after_bytes(row)]


def after_bytes(row: Row) -> int:
    """What the row says was allocated when training had returned; 0 where it does not."""
    return next((one["bytes"] for one in row["measured"] if one["phase"].startswith("after train")), 0)


def architecture_of(row: Row) -> Architecture:
    """The row's model."""
    arch, model = row["arch"], row["model"]
    if "gpt_bigcode" in model:
        return describe(
            {
                "model_type": "gpt_bigcode", "n_embd": arch["hidden"], "n_layer": arch["layers"],
                "n_head": arch["heads"], "n_inner": arch["intermediate"], "vocab_size": arch["vocab"],
                "n_positions": 2048, "multi_query": True,
            }
        )  # fmt: skip
    config = {
        "hidden_size": arch["hidden"], "intermediate_size": arch["intermediate"],
        "num_hidden_layers": arch["layers"], "num_attention_heads": arch["heads"],
        "num_key_value_heads": arch["kv_heads"], "vocab_size": arch["vocab"], "tie_word_embeddings": arch["tie"],
    }  # fmt: skip
    if "PowerLM" in model:
        config |= {"model_type": "granite", "attention_bias": True, "mlp_bias": True}
    elif "Mixtral" in model:
        config |= {"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2}
    else:
        config["model_type"] = "mistral" if "Mistral" in model else "llama"
    return describe(config)


def recipe_of(row: Row) -> Recipe:
    """How the row's run went."""
    model, loss = row["model"], row["loss_impl"]
    is_gptq, is_qlora = "GPTQ" in row["method"], row["method"].startswith("qlora")
    quantised = "nf4_double" if is_qlora else None
    if is_gptq:
        quantised = "gptq-int4" if "Mixtral" in model or "70B" in model else "gptq-int4-g128"
    adapters = row["lora"] and Adapters(
        rank=16, alpha=16, dropout=0.1, targets=tuple(row["lora"]["targets"]), dtype="fp32"
    )
    added = -122 if "santacoder" in model else 2 if "Llama-3" in model else 0 if "PowerLM" in model else 1
    return Recipe(
        framework="trl",
        framework_version=row["framework_version"],
        objective="sft",
        method="qlora" if is_qlora else "lora" if adapters else "full",
        tokens=row["seq_len"],
        microbatch=row["microbatch"],
        accumulation=1,
        is_packed=True,
        has_padding_mask=True,
        attention="flash_attention_2",
        kernels="transformers" if loss.startswith("HF") else "foak",
        is_compiled=False,
        precision=Precision(
            base="fp16" if is_gptq else "bf16",
            trained="fp32" if adapters else "bf16",
            quantised=quantised,
            autocast="fp16" if is_gptq else "bf16" if is_qlora else None,
            has_scaler=is_gptq,
            widens_norms="prepare_model_for_kbit" in row["notes"],
            widens_outputs=is_gptq or is_qlora,
        ),
        optimizer=Optimizer(family="adamw", run="foreach"),
        checkpointing=Checkpointing(kind="full", is_reentrant=True),
        loss=Loss(
            kind="full" if loss.startswith("HF") else "fused_linear" if "liger" in loss else "fused",
            shifts="liger" not in loss,
        ),
        evaluation=Evaluation(microbatch=0),
        adapters=adapters or None,
        added_tokens=added,
        libraries=(("transformers", row["framework_version"].split("transformers ")[1].split(",")[0]),),
    )
