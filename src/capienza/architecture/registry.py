"""From a config to an architecture, through the one file that knows the model type.

A model type is a file of `families/`; only that file is imported. What has no file is refused by name.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import msgspec

from capienza.architecture.model import Architecture
from capienza.architecture.positions import stretched_positions
from capienza.architecture.reading import Config, shown
from capienza.errors import InputError, Message, Parameter, Place, phrase, template

CAUSAL_ENDINGS = (
    "LM",
    "LMHeadModel",
    "WithLMHead",
    "GenerationDecoder",
    "ConditionalGeneration",
    "VisionText2Text",
    "ProteinText2Text",
    "VisionEncoderDecoderModel",
    "OmniModel",
    "Omni_Reasoning_V3",
)
"""How the names of classes with a language-model head end."""
FAMILIES = os.path.join(os.path.dirname(__file__), "families")

NOT_AN_OBJECT = template(
    "architecture.not-an-object",
    "the configuration is not a JSON object",
    "Use the config.json published with the model.",
)
UNKNOWN_TYPE = template(
    "architecture.unknown-model-type",
    "model type {found} is not known; known types with a near name: {accepted}. Nothing is guessed: a generic"
    " formula counts too much cache for windowed, latent or recurrent layers, and too few weights for experts",
    "The weights can still be counted from the headers of the model's own files; the cache cannot.",
)
PER_LAYER = phrase("a model whose layers all read the same keys")
ASSUMED = template(
    "architecture.assumed-defaults",
    "not stated in {file}, so the default of transformers is taken: {values}",
    "State them in the config if the model differs; weights and cache would be wrong in the same direction.",
)
NOT_CAUSAL = template(
    "architecture.other-head",
    "the file names {found}; the model is described with a language-model head, so the head may differ",
    "Compare with the headers of the model's own files.",
)
NO_EXPERTS = template(
    "architecture.no-layer-with-experts",
    "{key} = {count} is stated, but none of the {layers} layers of {model_type} holds experts by the rest of the file:"
    " the weights are those of plain layers",
    "Compare with the headers of the model's own files: with experts the weights would be larger.",
)
OTHER_CLASS = template(
    "architecture.other-class",
    "architectures names {found}, model_type says {model_type}: the model is described as model_type says",
    "Correct the one that is wrong; an engine may go by either.",
)
EXPERT_KEYS = ("num_experts", "num_local_experts", "n_routed_experts")
_CLASS = re.compile(r"(?P<model>\w+?)(?:For[A-Z]\w*|LMHeadModel)")


def model_types() -> tuple[str, ...]:
    """The model types that are known, with underscores, in alphabetical order."""
    return tuple(sorted(name[:-3] for name in os.listdir(FAMILIES) if name.endswith(".py") and name[0] != "_"))


def describe(config: Mapping[str, Any], file: str = "config.json") -> Architecture:
    """What a model is, from its configuration.

    `file` is the name that errors give. Raises `InputError` for an unknown model type, and for a value that
    is missing, of another type, out of bounds or in contradiction with the others.
    """
    if not isinstance(config, Mapping):
        raise InputError(NOT_AN_OBJECT(), Place(file))
    view = Config(config, file)
    architecture = build(view)
    return msgspec.structs.replace(architecture, notes=(*architecture.notes, *_notes(view)))


def build(config: Config) -> Architecture:
    """The architecture of one view, whole file or text part, by its model type."""
    model_type = config.text("model_type")
    module = _module(model_type)
    known = module.isidentifier() and module[0] != "_"
    if not known or not os.path.isfile(os.path.join(FAMILIES, f"{module}.py")):
        config.refuse("model_type", UNKNOWN_TYPE(found=repr(model_type[:80]), accepted=_near(module)))
    family = _family(module)
    if config.raw("per_layer_config") and not getattr(family, "READS_PER_LAYER", False):
        direction = phrase("each layer may be smaller or larger than the common keys say")
        config.not_understood("per_layer_config", config.raw("per_layer_config"), PER_LAYER, direction)
    architecture: Architecture = family.build(config)
    _note_missing_experts(config, architecture)
    stretched = stretched_positions(config, architecture.max_position_embeddings)
    return msgspec.structs.replace(architecture, stretched_positions=stretched or architecture.stretched_positions)


def _module(model_type: str) -> str:
    """The name of a type's file: kosmos-2.5 is kosmos_2_5."""
    return model_type.replace("-", "_").replace(".", "_")


def _family(module: str) -> ModuleType:
    return importlib.import_module(f"capienza.architecture.families.{module}")


def _note_missing_experts(config: Config, architecture: Architecture) -> None:
    """The class builds such a model; the file that states experts hardly means it."""
    if any(layer.mlp is not None and layer.mlp.kind == "experts" for layer in architecture.layers):
        return
    for key in EXPERT_KEYS:
        count = config.mapping.get(key)
        if isinstance(count, int) and count > 1:
            words: dict[str, Parameter] = {"layers": len(architecture.layers), "model_type": architecture.model_type}
            config.notes.append(NO_EXPERTS(key=f"{config.prefix}{key}", count=shown(count), **words))


def _near(module: str) -> str:
    """Known types that resemble a name."""
    import difflib

    return ", ".join(difflib.get_close_matches(module[:80].lower(), model_types(), n=5, cutoff=0.4)) or "none"


def _notes(config: Config) -> list[Message]:
    """What the reader must know beside the figures."""
    notes = [*config.notes]
    if config.assumed:
        values = ", ".join(f"{key} = {value}" for key, value in config.assumed.items())
        notes.append(ASSUMED(file=config.file, values=values))
    classes = config.texts("architectures") or ()
    if classes and not any(name.endswith(CAUSAL_ENDINGS) for name in classes):
        notes.append(NOT_CAUSAL(found=", ".join(classes)[:200]))
    model_type = config.text("model_type")
    others = [name for name in classes if _is_of_another_type(name, model_type)]
    if others:
        notes.append(OTHER_CLASS(found=", ".join(others)[:200], model_type=model_type))
    return notes


def _is_of_another_type(class_name: str, model_type: str) -> bool:
    """Does the name of a class say another known model type, whose family describes it in another way?"""
    match = _CLASS.fullmatch(class_name)
    named = _letters(match["model"]) if match else ""
    if named == _letters(model_type):
        return False
    own = _family(_module(model_type)).build
    return any(_letters(known) == named and _family(known).build is not own for known in model_types())


def _letters(name: str) -> str:
    """A model type or class name without what the two spell differently."""
    return name.replace("_", "").replace("-", "").replace(".", "").lower().removesuffix("text")
