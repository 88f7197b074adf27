"""The model of a recipe, made on the device as transformers makes it, without weights."""

from __future__ import annotations

from typing import Any

import torch

from capienza.errors import InputError, MissingPartError, template
from capienza.trace.cards.recipe import Recipe

NO_LIBRARY = template(
    "trace.no-library", "{name} is not installed, and the card's program needs it", "pip install {name}"
)
UNKNOWN_MODEL = template(
    "trace.unknown-model",
    "transformers {version} makes no causal language model of model_type {model_type}: {reason}",
    "use a release of transformers that knows it, or trace a program of your own with predict_peak",
)


def causal_model(recipe: Recipe, device: str) -> Any:
    """The model on its device, in the recipe's format. Raises `InputError` for a model that transformers lacks."""
    transformers = library("transformers")
    entries = {
        name: value for name, value in recipe.config.items() if name not in ("model_type", "quantization_config")
    }
    dtype = getattr(torch, recipe.dtype)
    try:
        config = transformers.AutoConfig.for_model(recipe.config["model_type"], **entries)
        if config.model_type in transformers.models.auto.modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
            made = transformers.AutoModelForCausalLM
        else:
            made = transformers.AutoModelForImageTextToText
        with torch.device(device):
            return made.from_config(config, dtype=dtype, attn_implementation=recipe.attention)
    except (ValueError, KeyError, TypeError, ImportError) as error:
        reason = (str(error).strip().splitlines() or [""])[0][:200]
        told = UNKNOWN_MODEL(
            version=transformers.__version__, model_type=str(recipe.config["model_type"]), reason=reason
        )
        raise InputError(told) from error


def library(name: str) -> Any:
    """An optional library. Raises `MissingPartError` when it is not installed."""
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingPartError(NO_LIBRARY(name=name)) from error
