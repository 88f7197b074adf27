"""The implementation of attention. What its workspace takes is predicted of few engines, and unknown of the others."""

from __future__ import annotations

from capienza.decide.alternatives.change import Proposals, change
from capienza.decide.alternatives.levers.engine_options import UNPREDICTED
from capienza.decide.alternatives.levers.llama_options import option_path, option_value
from capienza.decide.alternatives.levers.recipe import training_attention
from capienza.decide.alternatives.levers.texts import NO_ENGINE, OTHER_ENGINE
from capienza.decide.alternatives.scene import Scene

WORKSPACE = "attention_workspace"
BACKENDS: dict[str, tuple[str, tuple[str, ...], bool]] = {
    "vllm": ("attention_backend", ("FLASH_ATTN", "FLASHINFER", "TRITON_ATTN"), False),
    "sglang": ("attention_backend", ("fa3", "flashinfer", "triton"), False),
    "tgi": ("attention", ("flashinfer", "flashdecoding", "paged"), True),
    "transformers": ("attn_implementation", ("flash_attention_2", "sdpa"), True),
    "llama.cpp": ("flash_attn", ("on",), True),
}
"""Option and values of each engine, and whether their memory is predicted."""


def attentions(scene: Scene) -> Proposals:
    """Another implementation of attention each."""
    card, engine = scene.card, scene.card.engine
    if card.task != "inference":
        return training_attention(scene)
    if engine is None:
        return Proposals(notes=(NO_ENGINE(),))
    if engine.name not in BACKENDS:
        return Proposals(notes=(OTHER_ENGINE(engine=engine.name),))
    option, values, is_predicted = BACKENDS[engine.name]
    path, current = option_path(scene, option), option_value(scene, option)
    lacks = () if is_predicted else (WORKSPACE,)
    return Proposals(
        changes=tuple(
            change("attention", card, {path: value}, UNPREDICTED, lacks)
            for value in values
            if str(current).casefold() != value.casefold()
        )
    )
