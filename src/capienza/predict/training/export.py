"""What writing a model out takes on the GPU: merging adapters, and saving weights and states.

Legend: n elements of the largest adapted matrix, a bytes of one element of an adapter.
    merge, plain base      2 a n: the product of the pair, and the same scaled; the sum is written into the base
    merge, quantised base  2 n (the base in 16 bits) + a n (the product) + a n (their sum), then while it is quantised
                           again the sum once more and its codes in place of the first scaled product
    saving                 nothing: each tensor goes to the host by itself
Sources: peft 0.21 tuners/lora/layer.py get_delta_weight and merge, bnb.py merge; transformers 5.24 save_pretrained;
torch.serialization.
"""

from __future__ import annotations

from collections.abc import Iterable

from capienza.predict.training.modules import Piece
from capienza.predict.training.trained import BYTES, is_target
from capienza.recipe.recipe import Recipe


def merge_bytes(made: Iterable[Piece], recipe: Recipe) -> int:
    """The most that merging one of a model's matrices takes; 0 without adapters."""
    adapters = recipe.adapters
    if adapters is None:
        return 0
    largest = max((one.elements for one in made if is_target(one, adapters)), default=0)
    size = BYTES[adapters.dtype]
    if recipe.precision.quantised is None:
        return 2 * size * largest
    # the product, the base and their sum are there while the sum, back from the host, is quantised
    return (2 + 3 * size) * largest + largest // 2
