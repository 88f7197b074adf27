"""What a training holds besides the model: workspaces of cuBLAS, the last batch, and scalars of the loop.

Legend: N tokens of one forward pass.
    workspaces  cuBLAS takes one for each thread and stream: the main thread and autograd's
    batch       input ids, labels and, where the batch has one, an attention mask, each 8 N B; the last one stays
    scalars     the running loss, the last loss and the norm of the gradients; a gradient scaler two more
Sources: aten/src/ATen/cuda/CublasHandlePool.cpp (sizes by architecture); transformers 4.48 trainer.py; fms rows.
"""

from __future__ import annotations

from capienza.allocator.sizes import SMALLEST_BLOCK, rounded_bytes
from capienza.recipe.recipe import Recipe

TOKEN_BYTES = 8
WORKSPACE_BYTES = 8_519_680
HOPPER_WORKSPACE_BYTES = 32 * 2**20
WORKSPACES = 2
SCALARS, SCALER_TENSORS = 3, 2


def workspaces_bytes(capability: tuple[int, int] | None) -> int:
    """Workspaces of cuBLAS in the caching allocator. `capability` None is taken for a card before Hopper."""
    is_large = capability is not None and (9, 0) <= capability < (12, 0)
    return WORKSPACES * (HOPPER_WORKSPACE_BYTES if is_large else WORKSPACE_BYTES)


def batch_tensors(recipe: Recipe) -> int:
    """Tensors of a batch."""
    return 3 if recipe.has_padding_mask else 2


def batch_bytes(recipe: Recipe) -> int:
    """The batch on the GPU."""
    return batch_tensors(recipe) * rounded_bytes(TOKEN_BYTES * recipe.rows_tokens)


def scalars_bytes(recipe: Recipe) -> int:
    """Single numbers that the training loop keeps, a block each."""
    return SMALLEST_BLOCK * (SCALARS + (SCALER_TENSORS if recipe.precision.has_scaler else 0))
