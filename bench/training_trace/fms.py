"""The program of an fms-acceleration row: transformers' own `Trainer` over the release's own model, PEFT and bnb.

Source: foundation-model-stack/fms-acceleration, scripts/benchmarks (scenarios*.yaml, defaults.yaml): packed rows,
gradient checkpointing as the Trainer enables it, AdamW, bf16, no evaluation, no checkpoint. The model is made without
weights; embedding and head have the rows that the tuner gives them for its tokenizer.
"""

from __future__ import annotations

import importlib
import logging
import tempfile
from functools import partial
from typing import Any

import torch

UPDATES = 3
CONFIGS: dict[str, dict[str, Any]] = {
    "bigcode/gpt_bigcode-santacoder": {"model_type": "gpt_bigcode", "multi_query": True, "n_positions": 2048},
    "ibm/PowerLM-3b": {"model_type": "granite", "attention_bias": True, "mlp_bias": True},
    "NousResearch/Llama-2-70b-hf": {"model_type": "llama"},
}
TOKENS_ADDED = {"bigcode/gpt_bigcode-santacoder": -122, "NousResearch/Llama-2-70b-hf": 1}
"""sft_trainer resizes the embedding to the tokenizer: a padding token more, or what santacoder's does not use less."""
OLDER_NAMES = {
    "hidden": "n_embd", "layers": "n_layer", "heads": "n_head", "intermediate": "n_inner", "vocab": "vocab_size",
}  # fmt: skip
NAMES = {
    "hidden": "hidden_size", "layers": "num_hidden_layers", "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads", "intermediate": "intermediate_size", "vocab": "vocab_size",
}  # fmt: skip


class Rows(torch.utils.data.Dataset):
    """Rows of one length, as packing makes them; the collator adds what it adds."""

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens

    def __len__(self) -> int:
        return 1024

    def __getitem__(self, _index: int) -> dict[str, list[int]]:
        ids = [1] * self.tokens
        return {"input_ids": ids, "labels": ids, "attention_mask": ids}


def program(row: dict[str, Any]) -> tuple[Any, Any, int]:
    """`build`, `step`, and how often."""
    for name in ("transformers", "accelerate", "peft"):
        logging.getLogger(name).setLevel(logging.ERROR)
    if row["method"].startswith("qlora"):
        # Releases that call their native library directly have to be there before the trace begins.
        importlib.import_module("bitsandbytes")
    return partial(build, row), lambda trainer: trainer.train() and None, 1


def build(row: dict[str, Any]) -> Any:
    """The trainer, with the model on the card."""
    import transformers

    model = prepared(row, model_of(row))
    with tempfile.TemporaryDirectory() as folder:
        is_mixed = not row["mixed_precision"].startswith("none")
        arguments = transformers.TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=row["microbatch"],
            gradient_accumulation_steps=row["grad_accum"],
            gradient_checkpointing=True,
            bf16=is_mixed,
            max_steps=UPDATES,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            adam_epsilon=1e-4,
            weight_decay=0.01,
            warmup_steps=10,
            include_tokens_per_second=False,
            optim="adamw_torch",
        )
        return transformers.Trainer(
            model=model,
            args=arguments,
            train_dataset=Rows(row["seq_len"]),
            data_collator=transformers.default_data_collator,
        )


def model_of(row: dict[str, Any]) -> Any:
    """The model as its checkpoint's configuration makes it, in the format that is loaded."""
    import transformers

    known, arch = CONFIGS[row["model"]], row["arch"]
    names = OLDER_NAMES if known["model_type"] == "gpt_bigcode" else NAMES
    entries = {names[key]: value for key, value in arch.items() if key in names} | {
        key: value for key, value in known.items() if key != "model_type"
    }
    entries["vocab_size"] += TOKENS_ADDED.get(row["model"], 0)
    config = transformers.AutoConfig.for_model(known["model_type"], **entries, tie_word_embeddings=arch["tie"])
    is_quantised = row["method"].startswith("qlora")
    with torch.device("meta" if is_quantised else "cuda"):
        return transformers.AutoModelForCausalLM.from_config(
            config, torch_dtype=torch.bfloat16, attn_implementation="flash_attention_2"
        )


def prepared(row: dict[str, Any], model: Any) -> Any:
    """With its adapters over the quantised base, as the row's framework prepares it."""
    if row["method"].startswith("qlora"):
        from capienza.trace.quantised import quantise_linears

        model = quantise_linears(model, "nf4", double_quant=True)
        if "norms kept bf16" not in row["notes"]:
            model = widened(model)
    if row["lora"] is None:
        return model
    import peft

    lora = row["lora"]
    config = peft.LoraConfig(
        r=lora["r"], lora_alpha=lora["alpha"], lora_dropout=lora["dropout"], target_modules=lora["targets"],
        task_type="CAUSAL_LM",
    )  # fmt: skip
    made = peft.get_peft_model(model, config)
    made.enable_input_require_grads()
    return made


def widened(model: Any) -> Any:
    """PEFT's preparation for quantised bases takes the rest up to fp32, TRL all but the norms back to bf16."""
    import peft

    model = peft.prepare_model_for_kbit_training(model, use_gradient_checkpointing=True)
    for name, parameter in model.named_parameters():
        if parameter.dtype == torch.float32 and "norm" not in name and "ln_" not in name:
            parameter.data = parameter.data.to(torch.bfloat16)
    return model
