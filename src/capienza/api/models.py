"""The model of a card, opened."""

from __future__ import annotations

from capienza.artifacts.model import NOT_FOUND, NOT_FOUND_NEAR, nearest
from capienza.card.model import Card
from capienza.errors import UnreachableError, template, with_suggestion
from capienza.predict.model import Model, load_model

MODEL_MISSING = template(
    "card.model-not-found",
    "there is no file or folder {found}",
    "Write a folder, a .safetensors, .gguf or config.json file, relative to the folder of the card.",
)


def model_of(card: Card) -> Model:
    """The model of a card. One that is not at the path the card gives is an error of the card, at its key.

    Raises what `load_model` raises.
    """
    try:
        return load_model(card.model)
    except UnreachableError as error:
        is_missing = error.message.code in (NOT_FOUND.code, NOT_FOUND_NEAR.code)
        if not is_missing or card.file is None or card.model.path is None:
            raise
        raise _missing(card.file, card.model.path) from None


def _missing(file: str, path: str) -> UnreachableError:
    import os
    from pathlib import Path

    from capienza.card.load import place_of

    near = nearest(path, only_models=True)
    meant = near and Path(os.path.relpath(Path(path).with_name(near), Path(file).parent)).as_posix()
    message = with_suggestion(MODEL_MISSING(found=os.path.normpath(path)), meant and f"./{meant}")
    return UnreachableError(message, place_of(file, "model.path"))
