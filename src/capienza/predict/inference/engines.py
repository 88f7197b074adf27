"""The engines whose memory is predicted, by the names that cards write; each is read when it is first asked for."""

from __future__ import annotations

import difflib
import importlib
from typing import Protocol, cast

from capienza.errors import InputError, Message, Place, template, with_suggestion
from capienza.predict.inference.checks import other_engines_options
from capienza.predict.inference.serving import Served, Serving

MODULES = {
    "vllm": "capienza.predict.inference.vllm.run",
    "sglang": "capienza.predict.inference.sglang",
    "tgi": "capienza.predict.inference.tgi",
    "tensorrt-llm": "capienza.predict.inference.tensorrt_llm",
    "transformers": "capienza.predict.inference.transformers_generate",
}
LLAMACPP = "llama.cpp"
"""It takes a GGUF file, and is asked in another way (`predict.llama_served`)."""
UNKNOWN_ENGINE = template(
    "predict.unknown-engine",
    "the memory of engine {found} is not predicted; known: {known}",
    "write one of them as engine.name",
)


class Engine(Protocol):
    """What the file of an engine offers."""

    def serve(self, serving: Serving) -> Served:
        """Figures of every stage. Raises `InputError` for a split or a format that the model cannot take."""
        ...


def engine_module(name: str) -> Engine:
    """The engine of that name. Raises `InputError` with the known names, and the near one, for another."""
    module = MODULES.get(name)
    if module is None:
        raise InputError(_unknown(name), Place(key="engine.name"))
    return cast("Engine", importlib.import_module(module))


def known_engine_note(name: str) -> tuple[Message, ...]:
    """A word on an engine whose memory is not predicted; nothing for the others."""
    return () if name in (*MODULES, LLAMACPP) else (_unknown(name),)


def _unknown(name: str) -> Message:
    known = (*MODULES, LLAMACPP)
    near = difflib.get_close_matches(name[:60].lower().replace("_", "-"), known, n=1, cutoff=0.6)
    return with_suggestion(UNKNOWN_ENGINE(found=name[:60], known=known), near[0] if near else None)


def serve(engine_name: str, serving: Serving) -> Served:
    """What the engine takes and offers. Raises `InputError` for an engine that is not known."""
    return engine_module(engine_name).serve(serving)


def check_options(engine_name: str, serving: Serving) -> tuple[Message, ...]:
    """Notes on the options of a card. Raises `InputError` for one that the engine or the card's load refuses.

    vLLM knows all its names and refuses another; of the other engines' cards, names of another engine are noted.
    """
    check = getattr(engine_module(engine_name), "check_options", None)
    notes = () if check is None else tuple(check(serving))
    return notes if engine_name == "vllm" else (*notes, *other_engines_options(engine_name, serving.options))
