"""A batch as a collator makes it on the host, and its way to the device: tokens, images or sounds, with labels.

An image has the size that the card says, else that of the model's configuration; a sound has the length that the model
is made for (Whisper's: two frames of the spectrum for each of its positions).
"""

from __future__ import annotations

from typing import Any

import torch

from capienza.errors import InputError, UsageError, template
from capienza.trace.cards.model import kind_of
from capienza.trace.cards.recipe import Recipe

NO_IMAGE_SIZE = template(
    "trace.no-image-size", "config.json states no image_size, and the card none", "add training.image_size to the card"
)
OTHER_SOUND = template(
    "trace.other-sound",
    "sounds of {model_type} are not made here: its configuration has no {accepted}",
    "trace a program of your own with predict_peak",
)
IMAGES_BESIDE_TEXT = template(
    "trace.images-beside-text",
    "{model_type} takes images beside its text, which only its own processor makes",
    "write training.images: 0 to trace it on text alone, or trace a program of your own with predict_peak",
)
SPECTRUM = ("num_mel_bins", "max_source_positions")
FRAMES_A_POSITION = 2


def rows_of(recipe: Recipe, sequences: int, device: str) -> dict[str, torch.Tensor]:
    """Full rows. Raises `UsageError` or `InputError` for what cannot be made of card and configuration."""
    kind = kind_of(recipe)
    made = {"tokens": _tokens, "images": _images, "sounds": _sounds}[kind.takes](recipe, sequences)
    return {name: value.to(device) for name, value in made.items()}


def _tokens(recipe: Recipe, sequences: int) -> dict[str, torch.Tensor]:
    if recipe.has_images:
        raise UsageError(IMAGES_BESIDE_TEXT(model_type=str(recipe.config["model_type"])))
    ids = torch.zeros(sequences, recipe.tokens, dtype=torch.int64)
    labels = ids[:, 0] if kind_of(recipe).one_label_a_row else ids
    return {"input_ids": ids, "labels": labels.clone(), "attention_mask": torch.ones_like(ids)}


def _images(recipe: Recipe, sequences: int) -> dict[str, torch.Tensor]:
    stated: Any = recipe.image_size or recipe.config.get("image_size")
    if not isinstance(stated, int | list) or not stated:
        raise UsageError(NO_IMAGE_SIZE())
    height, width = (stated[0], stated[-1]) if isinstance(stated, list) else (stated, stated)
    channels = int(recipe.config.get("num_channels", 3))
    pixels = torch.zeros(sequences, channels, height, width, dtype=_dtype(recipe))
    return {"pixel_values": pixels, "labels": torch.zeros(sequences, dtype=torch.int64)}


def _sounds(recipe: Recipe, sequences: int) -> dict[str, torch.Tensor]:
    if not all(isinstance(recipe.config.get(name), int) for name in SPECTRUM):
        raise InputError(OTHER_SOUND(model_type=str(recipe.config["model_type"]), accepted=SPECTRUM))
    bins, positions = (int(recipe.config[name]) for name in SPECTRUM)
    frames = torch.zeros(sequences, bins, FRAMES_A_POSITION * positions, dtype=_dtype(recipe))
    return {"input_features": frames, "labels": torch.zeros(sequences, recipe.tokens, dtype=torch.int64)}


def _dtype(recipe: Recipe) -> torch.dtype:
    """A processor makes fp32; without mixed precision the program has to bring it to the model's format."""
    found: torch.dtype = torch.float32 if recipe.autocast else getattr(torch, recipe.dtype)
    return found
