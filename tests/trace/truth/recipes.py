"""Ways to train one small Llama, as users write them: adapters, optimizers, checkpointing, accumulation, clipping."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
import transformers
from torch.utils.checkpoint import checkpoint

ROWS, TOKENS, SEED_TOKENS = 2, 64, 95
Program = tuple[Callable[[], Any], Callable[[Any], None]]
Parameters = Iterable[torch.nn.Parameter]


def _llama(dtype: torch.dtype = torch.float32, **changed: Any) -> Any:
    config = transformers.LlamaConfig(
        num_hidden_layers=2, hidden_size=128, intermediate_size=256, num_attention_heads=4, num_key_value_heads=2,
        vocab_size=1000, **changed,
    )  # fmt: skip
    return transformers.AutoModelForCausalLM.from_config(config, dtype=dtype).train()


def _adam(parameters: Parameters, **options: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW([one for one in parameters if one.requires_grad], lr=1e-4, **options)


def _muon(parameters: Parameters) -> torch.optim.Optimizer:
    return torch.optim.Muon([one for one in parameters if one.dim() == 2], lr=1e-3)


def _adafactor(parameters: Parameters) -> torch.optim.Optimizer:
    return transformers.Adafactor(parameters, lr=1e-3, scale_parameter=False, relative_step=False)


def _bitsandbytes(name: str) -> Callable[[Parameters], torch.optim.Optimizer]:
    def optimizer(parameters: Parameters) -> torch.optim.Optimizer:
        import bitsandbytes

        made: torch.optim.Optimizer = getattr(bitsandbytes.optim, name)(parameters)
        return made

    return optimizer


OPTIMIZERS: dict[str, Callable[[Parameters], torch.optim.Optimizer]] = {
    "adamw foreach": lambda parameters: _adam(parameters, foreach=True),
    "adamw fused": lambda parameters: _adam(parameters, fused=True),
    "adamw loop": lambda parameters: _adam(parameters, foreach=False),
    "adamw amsgrad": lambda parameters: _adam(parameters, amsgrad=True),
    "sgd momentum": lambda parameters: torch.optim.SGD(parameters, lr=1e-3, momentum=0.9, nesterov=True),
    "sgd fused": lambda parameters: torch.optim.SGD(parameters, lr=1e-3, momentum=0.9, fused=True),
    "rmsprop": lambda parameters: torch.optim.RMSprop(parameters, momentum=0.9, centered=True),
    "adagrad": torch.optim.Adagrad,
    "adafactor torch": lambda parameters: torch.optim.Adafactor(parameters, foreach=True),
    "adafactor torch loop": lambda parameters: torch.optim.Adafactor(parameters, foreach=False),
    "adafactor transformers": _adafactor,
    "muon": _muon,
    "lion": _bitsandbytes("Lion"),
}


def _lora(model: Any, **options: Any) -> Any:
    import peft

    return peft.get_peft_model(model, peft.LoraConfig(r=8, target_modules="all-linear", **options))


def _peft(config: str, **options: Any) -> Callable[[Any], Any]:
    def adapted(model: Any) -> Any:
        import peft

        return peft.get_peft_model(model, getattr(peft, config)(task_type="CAUSAL_LM", **options))

    return adapted


MODELS: dict[str, Callable[[], Any]] = {
    "lora": lambda: _lora(_llama()),
    "lora dropout": lambda: _lora(_llama(), lora_dropout=0.1),
    "lora bfloat16": lambda: _lora(_llama(torch.bfloat16)),
    "dora": lambda: _lora(_llama(), use_dora=True),
    "rslora, head saved": lambda: _lora(_llama(), use_rslora=True, modules_to_save=["lm_head"]),
    "ia3": lambda: _peft("IA3Config")(_llama()),
    "prompt tuning": lambda: _peft("PromptTuningConfig", num_virtual_tokens=8)(_llama()),
    "prefix tuning": lambda: _peft("PrefixTuningConfig", num_virtual_tokens=8)(_llama()),
    "merged": lambda: _lora(_llama()).merge_and_unload(),
}
CHECKPOINTING = {
    "reentrant": {"use_reentrant": True},
    "not reentrant": {"use_reentrant": False},
}


def optimizer(name: str) -> Program:
    """A model of one layer's kind under one optimizer."""

    def build() -> Any:
        model = _llama()
        return model, OPTIMIZERS[name](list(model.parameters()))

    return build, _update


def model(name: str) -> Program:
    """A model with adapters."""

    def build() -> Any:
        made = MODELS[name]()
        if name == "merged":
            made.requires_grad_(True)
        return made, _adam(made.parameters())

    return build, _update


def recomputed(name: str, dropout: float = 0.1) -> Program:
    """Recomputation of every layer, with chance in it."""

    def build() -> Any:
        made = _llama(attention_dropout=dropout)
        made.gradient_checkpointing_enable(gradient_checkpointing_kwargs=CHECKPOINTING[name])
        if name == "reentrant":
            made.enable_input_require_grads()
        return made, _adam(made.parameters())

    return build, _update


def sequential(name: str) -> Program:
    """Recomputation by hand, of plain layers with dropout."""

    def build() -> Any:
        layers = [
            torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.Dropout(0.2), torch.nn.GELU()) for _ in range(6)
        ]
        made = torch.nn.ModuleList(layers)
        return made, _adam(made.parameters())

    def step(state: Any) -> None:
        made, update = state
        rows = torch.ones(64, 256, requires_grad=True)
        for layer in made:
            rows = checkpoint(layer, rows, **CHECKPOINTING[name])
        rows.square().mean().backward()
        update.step()
        update.zero_grad()

    return build, step


def accumulated(name: str) -> Program:
    """Four backward passes an update; gradients clipped by norm or value; kept at zero instead of dropped."""

    def build() -> Any:
        made = _llama()
        return made, _adam(made.parameters())

    def step(state: Any) -> None:
        made, update = state
        for _ in range(4):
            ids = _ids()
            (made(input_ids=ids, labels=ids, use_cache=False).loss / 4).backward()
        if name == "by norm":
            torch.nn.utils.clip_grad_norm_(made.parameters(), 1.0)
        elif name == "by norm, one by one":
            torch.nn.utils.clip_grad_norm_(made.parameters(), 1.0, foreach=False)
        elif name == "by value":
            torch.nn.utils.clip_grad_value_(made.parameters(), 1.0)
        update.step()
        update.zero_grad(set_to_none=name != "kept")

    return build, step


def _ids() -> torch.Tensor:
    return torch.arange(ROWS * TOKENS).reshape(ROWS, TOKENS) % 800 + SEED_TOKENS


def _update(state: Any) -> None:
    made, update = state
    ids = _ids()
    made(input_ids=ids, labels=ids, use_cache=False).loss.backward()
    update.step()
    update.zero_grad()


CLIPPED = ("not clipped", "by norm", "by norm, one by one", "by value", "kept")
RECIPES: dict[str, Callable[..., Program]] = {
    "optimizer": optimizer, "model": model, "recomputed": recomputed, "sequential": sequential,
    "accumulated": accumulated,
}  # fmt: skip
JOBS = [
    *(("optimizer", {"name": name}) for name in OPTIMIZERS),
    *(("model", {"name": name}) for name in MODELS),
    *(("recomputed", {"name": name}) for name in CHECKPOINTING),
    *(("sequential", {"name": name}) for name in CHECKPOINTING),
    *(("accumulated", {"name": name}) for name in CLIPPED),
]
