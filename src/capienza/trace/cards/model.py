"""The model of a recipe, made on the device as transformers makes it, without weights.

It is of the class that `architectures` names in config.json, where that can do the task; else one that can.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import torch

from capienza.errors import InputError, Message, template
from capienza.trace.cards.libraries import library
from capienza.trace.cards.recipe import Recipe

UNKNOWN_MODEL = template(
    "trace.unknown-model",
    "transformers {version} makes no causal language model of model_type {model_type}: {reason}",
    "use a release of transformers that knows it, or trace a program of your own with predict_peak",
)


OTHER_CLASS = template(
    "trace.other-class",
    "config.json names {found}; {made} was run in its place",
    "for another class trace a program of your own with predict_peak",
)
NO_CLASS = template(
    "trace.no-class",
    "config.json names no class; {made} was run, though the model also has one that sees both sides of a token",
    'name the class in config.json: "architectures": ["..."]',
)


class Kind(NamedTuple):
    """A kind of model: its class of transformers, its table there, its task in PEFT, what it does and what it takes."""

    auto: str
    table: str
    adapter_task: str | None
    generates: bool = False
    one_label_a_row: bool = False
    takes: Literal["tokens", "images", "sounds"] = "tokens"


CAUSAL = Kind("AutoModelForCausalLM", "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES", "CAUSAL_LM", generates=True)
WITH_IMAGES = Kind(
    "AutoModelForImageTextToText", "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES", "CAUSAL_LM", generates=True
)
MASKED = Kind("AutoModelForMaskedLM", "MODEL_FOR_MASKED_LM_MAPPING_NAMES", None)
KINDS = (
    CAUSAL,
    WITH_IMAGES,
    MASKED,
    Kind(
        "AutoModelForSequenceClassification",
        "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES",
        "SEQ_CLS",
        one_label_a_row=True,
    ),
    Kind("AutoModelForTokenClassification", "MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES", "TOKEN_CLS"),
    Kind(
        "AutoModelForImageClassification",
        "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES",
        None,
        one_label_a_row=True,
        takes="images",
    ),
    Kind("AutoModelForSpeechSeq2Seq", "MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES", None, takes="sounds"),
)


def kind_of(recipe: Recipe) -> Kind:
    """The kind of the class that config.json names; where that cannot do the task, one that can."""
    named = _named(recipe)
    for kind in KINDS:
        if named in _classes(kind, recipe) and (kind.generates or recipe.task == "training"):
            return kind
    other = (kind for kind in KINDS if recipe.task == "training" and _classes(kind, recipe))
    return CAUSAL if _classes(CAUSAL, recipe) else next(other, WITH_IMAGES)


def replaced(recipe: Recipe) -> Message | None:
    """What is to be said where another class is run than the model's own, or one was chosen."""
    named, made = _named(recipe), _classes(kind_of(recipe), recipe)
    if not made or named in made or recipe.config.get("auto_map"):
        return None
    if named is not None:
        return OTHER_CLASS(found=named, made=made[0])
    return NO_CLASS(made=made[0]) if _classes(MASKED, recipe) else None


def model_of(recipe: Recipe, device: str) -> Any:
    """The model on its device, in the recipe's format. Raises `InputError` for a model that transformers lacks."""
    transformers = library("transformers")
    entries = {
        name: value for name, value in recipe.config.items() if name not in ("model_type", "quantization_config")
    }
    dtype, kind = getattr(torch, recipe.dtype), kind_of(recipe)
    # A model that only sees may have no attention at all: transformers takes its own default, which is sdpa as well.
    attention = None if kind.takes != "tokens" and recipe.attention == "sdpa" else recipe.attention
    try:
        config = transformers.AutoConfig.for_model(recipe.config["model_type"], **entries)
        if kind.one_label_a_row and kind.takes == "tokens" and config.pad_token_id is None:
            # Without one only a single row is classified; no row here is padded.
            config.pad_token_id = config.vocab_size - 1
        with torch.device(device):
            return getattr(transformers, kind.auto).from_config(config, dtype=dtype, attn_implementation=attention)
    except (ValueError, KeyError, TypeError, ImportError) as error:
        reason = (str(error).strip().splitlines() or [""])[0][:200]
        told = UNKNOWN_MODEL(
            version=transformers.__version__, model_type=str(recipe.config["model_type"]), reason=reason
        )
        raise InputError(told) from error


def _named(recipe: Recipe) -> str | None:
    """The first class that config.json names."""
    named = recipe.config.get("architectures")
    return str(named[0]) if isinstance(named, list) and named else None


def _classes(kind: Kind, recipe: Recipe) -> tuple[str, ...]:
    """The classes that transformers has of this kind for the model."""
    tables = library("transformers.models.auto.modeling_auto")
    found = getattr(tables, kind.table).get(recipe.config["model_type"], ())
    return (found,) if isinstance(found, str) else tuple(found)
