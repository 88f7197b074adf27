"""Models with random weights from the shapes in `models.json`, made where they will run; LoRA in plain torch."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SHAPES: dict[str, Any] = json.loads((Path(__file__).parent / "models.json").read_text(encoding="utf-8"))
# What a model is shrunk to where only the program is tried; the names differ from family to family.
TINY = {
    "num_hidden_layers": 2, "n_layer": 2, "num_layers": 2,
    "hidden_size": 64, "n_embd": 64, "d_model": 64, "word_embed_proj_dim": 64,
    "intermediate_size": 128, "ffn_dim": 128, "d_ff": 128,
    "num_attention_heads": 4, "n_head": 4, "num_heads": 4, "num_key_value_heads": 2,
    "head_dim": 16, "d_kv": 16, "query_pre_attn_scalar": 16, "vocab_size": 1000,
}  # fmt: skip
LORA_TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def config(name: str, *, is_tiny: bool, layers: int | None = None) -> dict[str, Any]:
    """The hyper-parameters of a model: as published, with fewer layers where asked, or shrunk."""
    fields = dict(SHAPES[name]["config"])
    if layers is not None:
        fields["num_hidden_layers"] = layers
    if is_tiny:
        fields |= {key: size for key, size in TINY.items() if key in fields}
        if fields.get("model_type") == "gpt2":
            fields |= {"bos_token_id": 0, "eos_token_id": 0}
    return fields


@contextmanager
def default_dtype(dtype: Any) -> Iterator[None]:
    """The type of new weights, whichever name this release of transformers gives its argument."""
    import torch

    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def model(name: str, dtype: str, device: str, *, is_tiny: bool = False, layers: int | None = None) -> Any:
    """A model with random weights on `device`: nothing is made in main memory first."""
    import torch

    with torch.device(device), default_dtype(getattr(torch, dtype)):
        if SHAPES[name]["head"] == "image":
            import torchvision

            return torchvision.models.resnet18(num_classes=10) if is_tiny else getattr(torchvision.models, name)()
        import transformers

        fields = config(name, is_tiny=is_tiny, layers=layers)
        heads = {"causal": transformers.AutoModelForCausalLM, "seq2seq": transformers.AutoModelForSeq2SeqLM}
        return heads[SHAPES[name]["head"]].from_config(transformers.AutoConfig.for_model(**fields))


def plain_lora(built: Any, rank: int, alpha: int) -> None:
    """Freeze a model and put adapters beside its projections, in torch alone; adapters in the type of the weights."""
    import torch

    class Adapted(torch.nn.Module):
        def __init__(self, base: torch.nn.Linear) -> None:
            super().__init__()
            kind = {"device": base.weight.device, "dtype": base.weight.dtype, "bias": False}
            self.base, self.scale = base, alpha / rank
            self.down = torch.nn.Linear(base.in_features, rank, **kind)
            self.up = torch.nn.Linear(rank, base.out_features, **kind)
            torch.nn.init.zeros_(self.up.weight)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.base(x) + self.up(self.down(x)) * self.scale

    built.requires_grad_(requires_grad=False)
    for module in list(built.modules()):
        for target in LORA_TARGETS:
            if isinstance(getattr(module, target, None), torch.nn.Linear):
                setattr(module, target, Adapted(getattr(module, target)))


def peft_lora(built: Any, rank: int, alpha: int) -> Any:
    """The same adapters as peft makes them."""
    import peft

    asked = peft.LoraConfig(r=rank, lora_alpha=alpha, target_modules=list(LORA_TARGETS), task_type="CAUSAL_LM")
    return peft.get_peft_model(built, asked)


def quantised(built: Any, device: str) -> Any:
    """Every projection in 4 bits (nf4, double quantisation), one after the other: the load holds both for a while."""
    import bitsandbytes
    import peft
    import torch

    for module in list(built.modules()):
        for target in LORA_TARGETS:
            dense = getattr(module, target, None)
            if not isinstance(dense, torch.nn.Linear):
                continue
            small = bitsandbytes.nn.Linear4bit(
                dense.in_features, dense.out_features, bias=False, compute_dtype=dense.weight.dtype,
                compress_statistics=True, quant_type="nf4", device="meta",
            )  # fmt: skip
            weight = bitsandbytes.nn.Params4bit(
                dense.weight.data, requires_grad=False, compress_statistics=True, quant_type="nf4", module=small
            )
            small.weight = weight.to(device)
            setattr(module, target, small)
            del dense, weight
    built.is_loaded_in_4bit = True
    return peft.prepare_model_for_kbit_training(built, use_gradient_checkpointing=False)
