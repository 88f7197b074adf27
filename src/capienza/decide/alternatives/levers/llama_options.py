"""llama.cpp: the sizes of its context and batches. It reads several spellings of each option."""

from __future__ import annotations

from capienza.card.options import plain_name
from capienza.decide.alternatives.change import Proposals, Value, change, engine_path
from capienza.decide.alternatives.levers.engine_options import UNPREDICTED
from capienza.decide.alternatives.scene import Scene
from capienza.predict.inference.llamacpp.options import ALIASES

MICRO_BATCHES = (256, 128, 64)


def llama_path(scene: Scene, name: str) -> str:
    """The path of an option, as the card spells it."""
    options = scene.card.engine.options if scene.card.engine else {}
    found = next((key for key in options if ALIASES.get(plain_name(key), plain_name(key)) == name), None)
    return engine_path(scene.card, plain_name(found) if found else name)


def llama_value(scene: Scene, name: str) -> Value:
    """What the card states of an option, under any spelling."""
    options = scene.card.engine.options if scene.card.engine else {}
    return next(
        (value for key, value in options.items() if ALIASES.get(plain_name(key), plain_name(key)) == name), None
    )


def option_path(scene: Scene, name: str) -> str:
    """The path of an option of the card's engine, whichever it is."""
    return llama_path(scene, name) if _is_llama(scene) else engine_path(scene.card, name)


def option_value(scene: Scene, name: str) -> Value:
    """What the card states of an option of its engine, whichever it is."""
    return llama_value(scene, name) if _is_llama(scene) else scene.option(name)


def _is_llama(scene: Scene) -> bool:
    return scene.card.engine is not None and scene.card.engine.name == "llama.cpp"


def llama_budgets(scene: Scene) -> Proposals:
    """A context that holds the load and no more, as many sequences as are required, and smaller physical batches."""
    card, found = scene.card, []
    required, sequences = card.tokens.required, card.concurrency
    if required is not None and sequences is not None:
        context = llama_value(scene, "ctx_size")
        if isinstance(context, int) and context > required.total * sequences:
            found.append({llama_path(scene, "ctx_size"): required.total * sequences})
        parallel = llama_value(scene, "parallel")
        if isinstance(parallel, int) and parallel > sequences:
            found.append({llama_path(scene, "parallel"): sequences})
    current = llama_value(scene, "ubatch_size")
    largest = current if isinstance(current, int) else 512
    found += [{llama_path(scene, "ubatch_size"): size} for size in MICRO_BATCHES if size < largest]
    return Proposals(changes=tuple(change("engine_budget", card, dict(after), UNPREDICTED) for after in found))
