"""Gemma 4's draft models: Gemma's layers between projections from and to the model that they draft for."""

from __future__ import annotations

import msgspec

from capienza.architecture.gemma4_layers import GEMMA4, UNIFIED, gemma4_model
from capienza.architecture.model import Architecture, Parameter
from capienza.architecture.pieces import linear
from capienza.architecture.reading import MISSING, Config
from capienza.errors import phrase, template

DRAFTS = template(
    "architecture.draft-model",
    "{model_type} drafts for another model and reads its cache: it keeps none of its own, and cannot generate alone",
    "Size the model it drafts for; these weights come on top of it.",
)
VARIANTS = {"gemma4_text": GEMMA4, "gemma4_unified_text": UNIFIED}
ABSENT = ("hidden_size_per_layer_input", "vocab_size_per_layer_input")


def draft_model(config: Config, default_type: str, *, backbone: int) -> Architecture:
    """The whole draft model; `backbone` is the default width of the model it drafts for."""
    text = config.section("text_config")
    if text is None:
        config.refuse("text_config", MISSING(key="text_config"))
    kind = text.text("model_type", default_type)
    if kind not in VARIANTS:
        direction = phrase("another model inside may keep a cache of its own")
        text.not_understood("model_type", kind, ", ".join(sorted(VARIANTS)), direction)
    if VARIANTS[kind].options:
        _refuse_options(text)
    tied = config.flag("tie_word_embeddings", default=True)
    mapping = {**text.mapping, "model_type": config.text("model_type"), "tie_word_embeddings": tied}
    inside = gemma4_model(Config(mapping, text.file, prefix=text.prefix, parent=text), VARIANTS[kind], draft=True)
    hidden, other = inside.hidden_size, config.integer("backbone_hidden_size", backbone)
    more = [
        *linear("pre_projection", hidden, 2 * other, "other"),
        *linear("post_projection", other, hidden, "other"),
    ]
    buffers = list(inside.buffers)
    if config.flag("use_ordered_embeddings", default=False):
        more += linear("masked_embedding.centroids", config.integer("num_centroids", 2048), hidden, "other")
        buffers.append(Parameter("masked_embedding.token_ordering", (inside.vocab_size,), "other"))
    config.notes.append(DRAFTS(model_type=config.text("model_type")))
    return msgspec.structs.replace(
        inside,
        parameters=(*inside.parameters, *(Parameter(*piece) for piece in more)),
        buffers=tuple(buffers),
    )


def _refuse_options(text: Config) -> None:
    """Parts of Gemma 4 that a draft model cannot have; the class of the text would build the first by default."""
    for key in ABSENT:
        if text.integer(key, 256, minimum=0):
            text.broken_rule(key, text.raw(key), f"{key} == 0")
    for key in ("enable_moe_block", "use_double_wide_mlp"):
        if text.flag(key, default=False):
            text.broken_rule(key, True, f"{key} == false")
