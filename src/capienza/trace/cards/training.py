"""A training as transformers' `Trainer` runs it: updates, then an evaluation, a checkpoint and an export.

Followed are `Trainer.training_step`, `compute_loss`, `_inner_training_loop` and `evaluation_loop` (transformers 5.24)
as far as they hold memory: the outputs go when the loss is there, gradients are clipped by their norm, an evaluation
without metrics keeps the losses alone. A checkpoint is copied to main memory tensor by tensor and takes nothing here.
"""

from __future__ import annotations

import contextlib
import inspect
from typing import Any

import torch

from capienza.trace.cards.diffusion import denoiser, loss_of
from capienza.trace.cards.libraries import library
from capienza.trace.cards.model import kind_of, model_of
from capienza.trace.cards.recipe import Recipe
from capienza.trace.cards.rows import rows_of
from capienza.trace.quantised import quantise_linears
from capienza.trace.run import phase

MOST_MICROBATCHES = 2
"""Of an update's microbatches: the second finds the gradients of the first there, and so do all after it."""
IGNORED = -100
"""A label that is no target."""


class Training:
    """The state of a run."""

    def __init__(self, recipe: Recipe, device: str, steps: int) -> None:
        self.recipe, self.device, self.steps = recipe, device, steps
        self.model = _prepared(recipe, _loaded(recipe, device))
        self.model.train()
        self.optimizer = _optimizer(recipe, self.model)
        self.scaler = torch.amp.GradScaler(device) if recipe.autocast == "float16" else None
        self.updates = 0
        # The Trainer counts them only for a model that takes what it does not know of.
        parameters = inspect.signature(model_forward(self.model)).parameters.values()
        self.counts_items = any(one.kind is one.VAR_KEYWORD for one in parameters)

    def update(self) -> None:
        """One update; the last one is followed by the rest of the cycle."""
        recipe = self.recipe
        for _ in range(min(recipe.accumulation, MOST_MICROBATCHES)):
            loss = self.loss(recipe.sequences) / recipe.accumulation
            (loss if self.scaler is None else self.scaler.scale(loss)).backward()
            del loss
        if self.scaler is not None:
            self.scaler.unscale_(self.optimizer)
        if recipe.max_grad_norm:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), recipe.max_grad_norm)
        if self.scaler is None:
            self.optimizer.step()
        else:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        self.optimizer.zero_grad()
        self.updates += 1
        if self.updates == self.steps:
            self.finish()

    def loss(self, sequences: int) -> Any:
        """The loss of rows of the required length, every one full."""
        if self.recipe.is_diffusion:
            with self.cast():
                return loss_of(self.model, self.recipe, sequences, self.device)
        inputs = rows_of(self.recipe, sequences, self.device)
        with self.cast():
            # The Trainer divides by the tokens of all microbatches of an update, and says how many they are.
            more = {"num_items_in_batch": inputs["labels"].ne(IGNORED).sum()} if self.counts_items else {}
            outputs = self.model(**inputs, **more)
        if self.recipe.widens_outputs:
            outputs = library("accelerate").utils.convert_to_fp32(outputs)
        return outputs.loss

    def cast(self) -> Any:
        """Mixed precision, where the recipe has it."""
        if self.recipe.autocast is None:
            return contextlib.nullcontext()
        return torch.autocast(self.device, getattr(torch, self.recipe.autocast))

    def finish(self) -> None:
        """Evaluation, checkpoint, export."""
        with phase("eval"), torch.no_grad():
            self.model.eval()
            if self.recipe.eval_sequences:
                self.loss(self.recipe.eval_sequences)
        with phase("checkpoint"):
            pass
        with phase("export"):
            if self.recipe.merges:
                self.model = self.model.merge_and_unload()


def _loaded(recipe: Recipe, device: str) -> Any:
    """The model in its format; a quantised one comes to the device layer by layer, as its files are read."""
    if recipe.is_diffusion:
        return denoiser(recipe, device)
    if recipe.four_bit is None:
        return model_of(recipe, device)
    library("bitsandbytes")
    kind, double_quant = recipe.four_bit
    model = model_of(recipe, "meta")
    _warm_up(model, kind, device)
    model = quantise_linears(model, kind, double_quant=double_quant, device=device)
    return _widened(recipe, model)


def _warm_up(model: Any, kind: str, device: str) -> None:
    """Take the memory of all weights once, as `caching_allocator_warmup` does before a load: codes without scales."""
    linears = [
        module.weight
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear) and name != "lm_head"
    ]
    codes = sum(weight.numel() for weight in linears)
    total = sum(one.numel() * one.element_size() for one in model.parameters())
    rest = total - sum(weight.numel() * weight.element_size() for weight in linears)
    if device == "cuda":
        torch.empty(rest + (codes if kind == "int8" else codes // 2), dtype=torch.uint8, device=device)


def _widened(recipe: Recipe, model: Any) -> Any:
    """The model as it is prepared for training beside a quantised base.

    TRL takes head and embedding back to bf16 after PEFT has taken all that is not quantised up to fp32.
    """
    if recipe.widens == "none":
        return model
    model = library("peft").prepare_model_for_kbit_training(
        model, use_gradient_checkpointing=recipe.gradient_checkpointing
    )
    if recipe.widens == "norms":
        for name, parameter in model.named_parameters():
            if parameter.dtype == torch.float32 and "norm" not in name:
                parameter.data = parameter.data.to(getattr(torch, recipe.dtype))
    return model


def _prepared(recipe: Recipe, model: Any) -> Any:
    """The model with its adapters, and what is recomputed."""
    if recipe.method != "full":
        peft = library("peft")
        targets = list(recipe.targets) if isinstance(recipe.targets, tuple) else recipe.targets
        config = peft.LoraConfig(
            use_dora=recipe.is_dora,
            modules_to_save=list(recipe.modules_to_save) or None,
            r=recipe.rank,
            lora_alpha=recipe.alpha,
            lora_dropout=recipe.dropout,
            target_modules=targets,
            task_type=None if recipe.is_diffusion else kind_of(recipe).adapter_task,
        )
        model = peft.get_peft_model(model, config)
        for name, parameter in model.named_parameters():
            if "lora_" in name and recipe.adapter_dtype is not None:
                parameter.data = parameter.data.to(getattr(torch, recipe.adapter_dtype))
    if recipe.is_diffusion:
        if recipe.gradient_checkpointing:
            getattr(model, "get_base_model", lambda: model)().enable_gradient_checkpointing()
        return model
    if recipe.gradient_checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": recipe.is_reentrant})
        if recipe.method != "full":
            model.enable_input_require_grads()
    # As TrainingArguments.use_cache does unless it is asked for.
    model.config.use_cache = False
    return model


def _optimizer(recipe: Recipe, model: Any) -> torch.optim.Optimizer:
    name, parameters = recipe.optimizer, [one for one in model.parameters() if one.requires_grad]
    if name in ("adamw", "adamw_fused", "adamw_loop"):
        foreach = {"adamw": True, "adamw_loop": False}.get(name)
        return torch.optim.AdamW(parameters, foreach=foreach, fused=name == "adamw_fused")
    if name == "sgd":
        return torch.optim.SGD(parameters, lr=1e-3, momentum=recipe.momentum)
    if name == "rmsprop":
        return torch.optim.RMSprop(parameters, momentum=recipe.momentum)
    if name == "adagrad":
        return torch.optim.Adagrad(parameters)
    made: torch.optim.Optimizer
    if name == "adafactor":
        made = library("transformers").Adafactor(parameters, scale_parameter=False, relative_step=False, lr=1e-3)
        return made
    optimizers = library("bitsandbytes").optim
    kinds = {
        "adamw_8bit": "AdamW8bit",
        "adamw_32bit": "AdamW32bit",
        "paged_adamw_32bit": "PagedAdamW32bit",
        "paged_adamw_8bit": "PagedAdamW8bit",
        "lion_8bit": "Lion8bit",
        "lion_32bit": "Lion32bit",
        "paged_lion_8bit": "PagedLion8bit",
        "paged_lion_32bit": "PagedLion32bit",
    }
    chosen: Any = getattr(optimizers, kinds[name])(parameters)
    if name.endswith("8bit"):
        chosen.mng = _with_wide_embeddings(optimizers.GlobalOptimManager, model)
    made = chosen
    return made


def _with_wide_embeddings(manager: Any, model: Any) -> Any:
    """What the Trainer asks of bitsandbytes: the states of an embedding stay in 32 bits (`create_optimizer`).

    A manager of this optimizer's own: the common one would keep the model when the trace is over.
    """
    made = object.__new__(manager)
    made.initialize()
    for module in model.modules():
        if isinstance(module, torch.nn.Embedding):
            made.register_module_override(module, "weight", {"optim_bits": 32})
    return made


def model_forward(model: Any) -> Any:
    """The model's own forward pass, without the adapters around it."""
    return getattr(model, "get_base_model", lambda: model)().forward
