"""Programs that use no library of models: PyTorch's own modules, or each operation written out.

Sources: LLMs-from-scratch, ch05/10_llm-training-speed, 00_orig.py (written out) and 01_opt_single_gpu.py.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from capienza.predict.training.blocks.traits import Traits
from capienza.recipe.recipe import Recipe

PLAIN = ("pytorch", "written")


def plain(traits: Traits, kernels: str) -> Traits:
    """A family's traits as a plain program has them: no name of transformers' holds a result any longer."""
    if kernels == "pytorch":
        return msgspec.structs.replace(traits, activation="one", held=frozenset())
    if kernels == "written":
        return msgspec.structs.replace(traits, norm="layer_apart", activation="gelu_new", held=frozenset())
    return traits


def implementation(recipe: Recipe) -> Literal["sdpa", "eager", "written", "flash", "xformers"]:
    """How the recipe runs attention."""
    if recipe.attention == "sdpa":
        return "sdpa"
    if recipe.attention == "xformers":
        return "xformers"
    if recipe.attention == "eager":
        return "written" if recipe.kernels in PLAIN else "eager"
    return "flash"
