"""Moving memory to the host. It costs transfers at every step, and no speed is presumed."""

from __future__ import annotations

from capienza.decide.alternatives.change import Change, Proposals, Value, change, engine_path, recipe_lines
from capienza.decide.alternatives.levers.llama_options import llama_path, llama_value
from capienza.decide.alternatives.levers.texts import ALREADY, NO_ENGINE, OTHER_ENGINE
from capienza.decide.alternatives.scene import Scene
from capienza.errors import template
from capienza.units import GIB

USUAL_GIB = 4
FITS_ALREADY = template("alternatives.nothing-to-offload", "the expected need and the margin fit: nothing has to move")
WEIGHTS_ON_HOST = "offloaded_weights"


def offloads(scene: Scene) -> Proposals:
    """What may live on the host instead."""
    engine = scene.card.engine
    if scene.card.task == "fine-tuning":
        return _training(scene)
    if engine is None:
        return Proposals(notes=(NO_ENGINE(),))
    if engine.name in ("vllm", "sglang"):
        return _weights_by_size(scene)
    if engine.name == "transformers":
        return _device_map(scene)
    if engine.name == "llama.cpp":
        return _layers(scene)
    return Proposals(notes=(OTHER_ENGINE(engine=engine.name),))


def _training(scene: Scene) -> Proposals:
    states = ("optimizer_states", "optimizer_transient")
    wanted: tuple[tuple[str, Value, tuple[str, ...]], ...] = (
        ("offload", "optimizer", states),
        ("activation_offloading", True, ("activations",)),
    )
    changes = [
        change("offload", scene.card, recipe_lines(scene.card, name, value), touches)
        for name, value, touches in wanted
        if scene.recipe(name) != value
    ]
    if scene.recipe("offload") != "parameters":
        changes.append(_off(scene, recipe_lines(scene.card, "offload", "parameters")))
    return Proposals(changes=tuple(changes))


def _off(scene: Scene, after: dict[str, Value]) -> Change:
    """Weights that leave the GPU, how many nobody predicts."""
    return change("offload", scene.card, after, lacks=(WEIGHTS_ON_HOST,), takes_off=True)


def _weights_by_size(scene: Scene) -> Proposals:
    """As many GiB of weights as the card lacks."""
    lacking = scene.shortfall_bytes
    if lacking == 0:
        return Proposals(notes=(FITS_ALREADY(),))
    stated = scene.option("cpu_offload_gb")
    already = stated if isinstance(stated, int | float) and not isinstance(stated, bool) else 0
    size = USUAL_GIB if lacking is None else -(-lacking // GIB)
    after = {engine_path(scene.card, "cpu_offload_gb"): int(already) + size}
    return Proposals(changes=(_off(scene, dict(after)),))


def _device_map(scene: Scene) -> Proposals:
    if scene.option("device_map") == "auto":
        return Proposals(notes=(ALREADY(found="device_map: auto"),))
    path = engine_path(scene.card, "device_map")
    return Proposals(changes=(_off(scene, {path: "auto"}),))


def _layers(scene: Scene) -> Proposals:
    """Three quarters of the layers on the GPU, half, a quarter; all experts, or the cache, on the host."""
    architecture, card = scene.model.architecture, scene.card
    changes: list[Change] = []
    layers = len(architecture.layers) if architecture else 0
    stated = str(llama_value(scene, "n_gpu_layers"))
    most = int(stated) if stated.isdecimal() else layers
    path = llama_path(scene, "n_gpu_layers")
    counts = (layers * quarters // 4 for quarters in (3, 2, 1))
    changes += [change("offload", card, {path: count}) for count in counts if 0 < count < most]
    if architecture and any(parameter.role == "expert" for parameter in architecture.parameters):
        changes.append(change("offload", card, {llama_path(scene, "cpu_moe"): True}))
    if all(llama_value(scene, name) is None for name in ("kv_offload", "no_kv_offload", "nkvo")):
        changes.append(change("offload", card, {llama_path(scene, "no_kv_offload"): True}))
    return Proposals(changes=tuple(changes))
