"""The 24 programs that are measured on a card, and that a tracer can predict: name -> Program(build, step).

`build(device)` makes model, optimizer and one batch; `step(state, phase)` is one step of the program, with its phases
marked by `phase(name)`. Nothing in here asks which device it is.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, Protocol

import program_models


class Phase(Protocol):
    """Marks a part of a step."""

    def __call__(self, name: str) -> AbstractContextManager[Any]: ...


@dataclass(frozen=True)
class Program:
    """One configuration; `tokens` is the length of a sequence (the side of an image for a vision model)."""

    model: str
    task: str = "train"
    method: str = "full"
    optimizer: str = "adamw"
    dtype: str = "float32"
    tokens: int = 512
    microbatch: int = 1
    layers: int | None = None
    rank: int = 0
    autocast: str = ""
    scaler: bool = False
    checkpointing: bool = False
    attention: str = ""
    padded: int = 0
    output: int = 0
    needs: tuple[str, ...] = ()
    allocator: str = ""
    is_tiny: bool = False

    def tiny(self) -> Program:
        """The same program over a model of a few thousand weights."""
        return replace(
            self, is_tiny=True, tokens=32, microbatch=min(self.microbatch, 2), layers=None, rank=min(self.rank, 4),
            padded=min(self.padded, 8), output=min(self.output, 4),
        )  # fmt: skip

    def build(self, device: str) -> SimpleNamespace:
        """Model, optimizer and batch on the device."""
        import torch

        torch.manual_seed(0)
        model = program_models.model(self.model, self.dtype, device, is_tiny=self.is_tiny, layers=self.layers)
        if self.task == "generate":
            return SimpleNamespace(model=model.eval(), batch=self.batch(model, device))
        model = self.adapted(model, device)
        if self.checkpointing:
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        if hasattr(model, "config"):
            model.config.use_cache = False
        model.train()
        trained = [one for one in model.parameters() if one.requires_grad]
        kind, options = OPTIMIZERS[self.optimizer]
        kind_of_device = device.split(":")[0]
        return SimpleNamespace(
            model=model, optimizer=getattr(torch.optim, kind)(trained, **options), batch=self.batch(model, device),
            scaler=torch.amp.GradScaler(kind_of_device, init_scale=SCALE) if self.scaler else None,
            device=kind_of_device,
        )  # fmt: skip

    def adapted(self, model: Any, device: str) -> Any:
        """The model as it is trained: whole, or frozen with adapters."""
        if self.method == "lora-plain":
            program_models.plain_lora(model, self.rank, 2 * self.rank)
        if self.method == "qlora":
            model = program_models.quantised(model, device)
        return program_models.peft_lora(model, self.rank, 2 * self.rank) if self.method in {"lora", "qlora"} else model

    def batch(self, model: Any, device: str) -> dict[str, Any]:
        """One batch of random tokens or images; with padding on the left where asked."""
        import torch

        if self.is_vision:
            images = torch.randn(self.microbatch, 3, self.tokens, self.tokens, device=device)
            return {"images": images, "labels": torch.randint(10, (self.microbatch,), device=device)}
        shape = (self.microbatch, self.tokens)
        made = {"input_ids": torch.randint(model.config.vocab_size, shape, device=device)}
        if self.task == "train":
            made["labels"] = made["input_ids"]
        if self.padded:
            made["attention_mask"] = torch.ones(shape, dtype=torch.int64, device=device)
            made["attention_mask"][0, : self.padded] = 0
        return made

    @property
    def is_vision(self) -> bool:
        """Whether it reads images."""
        return program_models.SHAPES[self.model]["head"] == "image"

    def step(self, state: SimpleNamespace, phase: Phase) -> None:
        """One step of training, or one prompt with its answer."""
        if self.task == "generate":
            return self.answer(state, phase)
        with phase("forward"), self.around(state.device):
            loss = self.loss(state)
        with phase("backward"):
            (state.scaler.scale(loss) if state.scaler else loss).backward()
        del loss
        with phase("optimizer_step"):
            if state.scaler:
                state.scaler.step(state.optimizer)
                state.scaler.update()
            else:
                state.optimizer.step()
            state.optimizer.zero_grad(set_to_none=True)
        return None

    def around(self, device: str) -> ExitStack:
        """What a forward pass runs under: autocast, a forced attention kernel."""
        import torch

        stack = ExitStack()
        if self.autocast:
            stack.enter_context(torch.autocast(device, dtype=getattr(torch, self.autocast)))
        stack.enter_context(forced(self.attention))
        return stack

    def loss(self, state: SimpleNamespace) -> Any:
        """The scalar that is trained on."""
        import torch

        if self.is_vision:
            return torch.nn.functional.cross_entropy(state.model(state.batch["images"]), state.batch["labels"])
        return state.model(**state.batch).loss

    def answer(self, state: SimpleNamespace, phase: Phase) -> None:
        """Prefill, then one token after the other with transformers' own cache."""
        import torch

        with torch.no_grad():
            with phase("prefill"):
                out = state.model(**state.batch, use_cache=True, logits_to_keep=1)
            with phase("decode"):
                for _ in range(self.output - 1):
                    best = out.logits[:, -1:].argmax(-1)
                    # Newer releases of transformers hand the cache out under its new name.
                    name = "cache" if getattr(out, "cache", None) is not None else "past_key_values"
                    out = state.model(input_ids=best, use_cache=True, **{name: getattr(out, name)})


def numbered(phase: Phase) -> Phase:
    """The first step of an optimizer makes its states: it has a name of its own, and so have those after it."""
    steps = 0

    def named(name: str) -> AbstractContextManager[Any]:
        nonlocal steps
        if name == "optimizer_step":
            name, steps = f"{name}_{'steady' if steps else 'first'}", steps + 1
        return phase(name)

    return named


def forced(kernel: str) -> AbstractContextManager[Any]:
    """Only the named attention kernel may be taken; an empty name leaves the choice to torch."""
    if not kernel:
        return nullcontext()
    from torch.nn.attention import SDPBackend, sdpa_kernel

    return sdpa_kernel(getattr(SDPBackend, kernel))


# Low enough that no gradient overflows: a step that is left out would make no states.
SCALE = 2.0**10
# Each with torch's own defaults: foreach or not is torch's choice on a card.
OPTIMIZERS: dict[str, tuple[str, dict[str, float]]] = {
    "sgd": ("SGD", {"lr": 1e-3}),
    "momentum": ("SGD", {"lr": 1e-3, "momentum": 0.9}),
    "adamw": ("AdamW", {"lr": 1e-5}),
    "adafactor": ("Adafactor", {"lr": 1e-3}),
}
SDPA = Program("qwen3-0.6b", dtype="bfloat16", tokens=2048, layers=8)
SMALL = Program("qwen3-0.6b", dtype="bfloat16", tokens=1024, microbatch=2)
# The length of the seven published rows is not stated by their authors: 512 is our choice.
PROGRAMS: dict[str, Program] = {
    "xmem-qwen-1.5b-sgd": Program("deepseek-r1-distill-qwen-1.5b", optimizer="sgd"),
    "xmem-qwen-1.5b-adafactor": Program("deepseek-r1-distill-qwen-1.5b", optimizer="adafactor"),
    "xmem-llama-3b-sgd": Program("llama-3.2-3b", optimizer="sgd"),
    "xmem-llama-3b-adafactor": Program("llama-3.2-3b", optimizer="adafactor"),
    "xmem-gemma-2b-adafactor": Program("gemma-2-2b", optimizer="adafactor"),
    "xmem-qwen3-4b-sgd": Program("qwen3-4b", optimizer="sgd"),
    "xmem-qwen3-4b-adafactor": Program("qwen3-4b", optimizer="adafactor"),
    "gpt2": Program("gpt2", microbatch=8),
    "distilgpt2": Program("distilgpt2", optimizer="sgd", microbatch=16),
    "opt-125m-fp16-scaler": Program("opt-125m", autocast="float16", scaler=True, microbatch=8),
    "pythia-1b-autocast": Program("pythia-1b", autocast="bfloat16", microbatch=4),
    "qwen3-0.6b": SMALL,
    "t5-small": Program("t5-small", optimizer="adafactor", microbatch=16),
    "resnet50": Program("resnet50", optimizer="momentum", tokens=224, microbatch=64, needs=("torchvision",)),
    "lora-plain": replace(SMALL, method="lora-plain", rank=16),
    "lora-peft-checkpointing": Program(
        "llama-3.2-3b", dtype="bfloat16", tokens=2048, microbatch=2, method="lora", rank=16, checkpointing=True,
        needs=("peft",),
    ),
    "qlora": Program(
        "llama-3.2-3b", dtype="bfloat16", tokens=2048, method="qlora", rank=16, needs=("peft", "bitsandbytes")
    ),
    "sdpa-flash": replace(SDPA, attention="FLASH_ATTENTION"),
    "sdpa-efficient-padding": replace(SDPA, attention="EFFICIENT_ATTENTION", microbatch=2, padded=512),
    "sdpa-cudnn": replace(SDPA, attention="CUDNN_ATTENTION"),
    "sdpa-math": replace(SDPA, attention="MATH"),
    "checkpointing": replace(SMALL, tokens=2048, microbatch=4, checkpointing=True),
    "generate": Program("qwen3-0.6b", task="generate", dtype="bfloat16", tokens=2048, microbatch=4, output=64),
    "qwen3-0.6b-expandable": replace(SMALL, allocator="expandable_segments:True"),
}  # fmt: skip
