"""Training and generating programs of every causal language model of transformers, as a user would write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import transformers
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from truth.odd_configs import PART
from truth.shrink import small_config

BATCH, TOKENS, PROMPT = 2, 64, 16
MODEL_TYPES = tuple(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
Program = tuple[Callable[[], Any], Callable[[Any], None]]


class EndlessGenerationError(BaseException):
    """`generate` asked for more tokens than it was told to make; no broad `except Exception` may swallow it."""


def _model(model_type: str, dtype: torch.dtype) -> Any:
    config = small_config(model_type)
    if model_type in PART:
        key, class_name = PART[model_type]
        model_class = getattr(transformers, class_name)
        return model_class._from_config(getattr(config, key), dtype=dtype)
    return transformers.AutoModelForCausalLM.from_config(config, dtype=dtype)


def _inputs(model_type: str, tokens: torch.Tensor, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """What a training step is given: the tokens as labels, and what a type cannot do without."""
    labels = tokens.unsqueeze(-1) if model_type in PART else tokens  # one codebook
    inputs = {"input_ids": tokens, "labels": labels}
    if model_type == "git":  # its loss leaves out the places of an image
        inputs["pixel_values"] = torch.zeros(BATCH, 3, 32, 32, dtype=dtype, device=tokens.device)
    return inputs


def _tokens(length: int) -> torch.Tensor:
    """Token ids (batch, length), none of them special."""
    return torch.arange(BATCH * length).reshape(BATCH, length) % 800 + 95


def program(
    model_type: str,
    dtype: torch.dtype = torch.float32,
    *,
    foreach: bool = True,
    checkpointing: bool = False,
    device: str = "cpu",
) -> Program:
    """Build a model with AdamW; one step is forward, backward, optimizer step on (2, 64) tokens."""

    def build() -> Any:
        with torch.device(device):
            model = _model(model_type, dtype).to(device).train()
            if checkpointing:
                model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
            inputs = _inputs(model_type, _tokens(TOKENS), dtype)
        return model, torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=foreach), inputs

    def step(state: Any) -> None:
        model, optimizer, inputs = state
        loss = model(**inputs, use_cache=False).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return build, step


def generation(
    model_type: str, dtype: torch.dtype = torch.float32, *, new_tokens: int = 16, device: str = "cpu"
) -> Program:
    """Build a model; one step generates `new_tokens` greedily with a cache from (2, 16) tokens."""

    def build() -> Any:
        with torch.device(device):
            model = _model(model_type, dtype).to(device).eval()
            return model, _tokens(PROMPT)

    def step(state: Any) -> None:
        model, tokens = state
        calls = 0

        def guard(_: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
            nonlocal calls
            calls += 1
            if calls > new_tokens:
                raise EndlessGenerationError
            return scores

        model.generation_config.eos_token_id = None  # it must run to the end, whatever random weights say
        model.generation_config.pad_token_id = 0
        model.generation_config.decoder_start_token_id = 1
        model.generate(
            tokens,
            attention_mask=torch.ones_like(tokens),
            max_new_tokens=new_tokens,
            do_sample=False,
            num_beams=1,
            num_return_sequences=1,
            use_cache=True,
            logits_processor=transformers.LogitsProcessorList([guard]),
        )

    return build, step
