"""The text side of a vision-language config: it is described, and the note says what is not counted."""

from __future__ import annotations

from typing import Literal

from capienza.architecture import registry
from capienza.architecture.model import Architecture
from capienza.architecture.reading import MISSING, Config
from capienza.errors import phrase, template

TEXT_SIDE = template(
    "architecture.text-side-only",
    "only the text side of {model_type} is described: the parameters of its vision or audio side and of the"
    " projection are not counted, so the weights are at least this",
    "The headers of the model's own files tell the rest.",
)


NESTED = phrase("the model type of a text model")


def describe_text_side(
    config: Config,
    default_type: str,
    *,
    says_tied: Literal["whole", "text", "either"] = "whole",
    tied: bool | None = None,
    flat: bool = False,
    whole_tied: bool | None = None,
) -> Architecture:
    """The architecture of `text_config`, with a note. Names are those of the text model alone.

    `default_type` is its model type where it states none. `says_tied` is the part that transformers asks whether
    the head is tied; where the whole file says nothing the text part decides, where that says nothing either
    `tied`, or the text's own class when it is None. With `flat`, older files that keep the text's keys at the
    top are read as well. `whole_tied` is what the whole file's class takes where the file is silent, whatever
    the text part says.
    """
    if config.nested:
        config.not_understood(
            "model_type", config.text("model_type"), NESTED, phrase("the weights would come out too small")
        )
    text = config.section("text_config")
    if text is None and flat:
        text = Config({**config.mapping, "model_type": default_type}, config.file, parent=config)
    if text is None:
        config.refuse("text_config", MISSING(key="text_config"))
    mapping = {**text.mapping, "model_type": text.text("model_type", default_type)}
    head = _tied_head(config, text, says_tied, whole_tied)
    if head is None:
        head = tied
    if head is not None:
        mapping["tie_word_embeddings"] = head
    config.notes.append(TEXT_SIDE(model_type=config.text("model_type")))
    return registry.build(Config(mapping, text.file, prefix=text.prefix, parent=text))


def _tied_head(config: Config, text: Config, says_tied: str, whole_tied: bool | None) -> bool | None:
    """What the parts state about the head; None when neither does."""
    key = "tie_word_embeddings"
    whole, part = ((view.flag(key, False) if view.has(key) else None) for view in (config, text))
    whole = whole_tied if whole is None else whole
    if says_tied == "text" or whole is None:
        return part
    return whole or (says_tied == "either" and bool(part))
