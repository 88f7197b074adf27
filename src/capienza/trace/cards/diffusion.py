"""A diffusion model of diffusers as a program of a card: what of it is made, and what a step puts in.

A latent image of `image_size` pixels has a side of an eighth of it (the autoencoder's factor in both families). Text
has the card's tokens. The autoencoder and the text encoders are not there: scripts compute their outputs before, or
move them to main memory. The loss is the mean square of what is predicted less what is wanted, in fp32.
Sources: diffusers 0.38 examples/dreambooth, models/unets/unet_2d_condition.py, transformers/transformer_flux2.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from capienza.errors import UsageError, template
from capienza.trace.cards.libraries import library
from capienza.trace.cards.recipe import Recipe

NO_SIZE = template(
    "trace.no-latent-size", "the card states no training.image_size, so no latent image can be made", "add it"
)
FACTOR = 8
PATCH = 2
"""Side of the patches that Flux.2's latents are folded into: four of its channels become one of a patch."""


def _unet(config: Mapping[str, Any], rows: int, side: int, tokens: int, make: Callable[..., Any]) -> dict[str, Any]:
    channels, width = config.get("in_channels", 4), config.get("cross_attention_dim", 1280)
    return {
        "sample": make(rows, channels, side, side),
        "timestep": torch.zeros(rows, dtype=torch.int64),
        "encoder_hidden_states": make(rows, tokens, width),
    }


def _flux2(config: Mapping[str, Any], rows: int, side: int, tokens: int, make: Callable[..., Any]) -> dict[str, Any]:
    patches = (side // PATCH) ** 2
    return {
        "hidden_states": make(rows, patches, config.get("in_channels", 128)),
        "encoder_hidden_states": make(rows, tokens, config.get("joint_attention_dim", 15360)),
        "timestep": torch.zeros(rows),
        "img_ids": torch.zeros(rows, patches, 4, dtype=torch.int64),
        "txt_ids": torch.zeros(rows, tokens, 4, dtype=torch.int64),
        "guidance": torch.ones(rows) if config.get("guidance_embeds", True) else None,
    }


CLASSES: dict[str, Callable[..., dict[str, Any]]] = {
    "UNet2DConditionModel": _unet,
    "Flux2Transformer2DModel": _flux2,
}
"""Classes whose inputs are made here, by the name that their configuration writes."""


def denoiser(recipe: Recipe, device: str) -> Any:
    """The model on its device, in the recipe's format, without weights."""
    diffusers = library("diffusers")
    config = {name: value for name, value in recipe.config.items() if not name.startswith("_")}
    made = getattr(diffusers, recipe.config["_class_name"])(**config)
    return made.to(getattr(torch, recipe.dtype)).to(device)


def loss_of(model: Any, recipe: Recipe, sequences: int, device: str) -> Any:
    """The loss of a batch. Raises `UsageError` where the card leaves the size of the images open."""
    if recipe.image_size is None:
        raise UsageError(NO_SIZE())
    dtype = torch.float32 if recipe.autocast else getattr(torch, recipe.dtype)

    def make(*shape: int) -> torch.Tensor:
        return torch.zeros(*shape, dtype=dtype)

    made = CLASSES[recipe.config["_class_name"]](
        recipe.config, sequences, recipe.image_size // FACTOR, recipe.tokens, make
    )
    inputs = {name: value if value is None else value.to(device) for name, value in made.items()}
    predicted = model(**inputs, return_dict=False)[0]
    wanted = torch.zeros_like(predicted)
    return ((predicted.float() - wanted.float()) ** 2).mean()
