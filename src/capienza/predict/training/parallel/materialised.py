"""Who makes the model before it is shared, and who puts it together for a checkpoint: what a rank takes above its part.

Legend: a unit is what a library moves at once, U the largest of them whole (often the root: embedding and head), W the
largest weight whole.
    load   ddp        the model whole on every rank, and a copy of at most 250 MiB while rank 0's weights are sent
           fsdp1      a unit comes to the GPU whole, is laid flat beside itself, then cut: 2 U
           fsdp2      one rank reads, weights are sent one by one: W; else a unit comes to the GPU whole: U
           zero1, 2   the model whole, cast and laid flat in main memory
           zero3      a weight is whole while it is filled, then cut: W
           a framework whose model is made on the meta device (torchtitan) fills its own part: nothing
    save   sharded    each rank writes its part: nothing
           fsdp1      whole: the root and one more unit, gathered in the format they are stored in; then a flat
                      parameter's states, one after the other
           fsdp2      whole: weight by weight, W
           zero3      the largest layer, gathered for the file of 16-bit weights
Sources: torch/distributed/fsdp/_init_utils.py, _state_dict_utils.py (_full_pre_state_dict_hook), _optim_utils.py,
torch/nn/parallel/distributed.py (broadcast_bucket_size); accelerate/utils/fsdp_utils.py
(fsdp2_load_full_state_dict); deepspeed/runtime/zero/partition_parameters.py, runtime/engine.py
(_zero3_consolidated_16bit_state_dict).
"""

from __future__ import annotations

from collections.abc import Iterable

from capienza.predict.training.parallel.units import Model, Unit
from capienza.recipe.recipe import Recipe
from capienza.units import MIB

BROADCAST_BYTES = 250 * MIB
ON_META = frozenset({"torchtitan"})


def load_bytes(model: Model, recipe: Recipe) -> int:
    """The most that a rank takes while the model comes to it, beside its part. For DDP: beside the whole model."""
    sharding = recipe.parallel.sharding
    if recipe.framework in ON_META:
        return 0
    if sharding == "ddp":
        return min(int(BROADCAST_BYTES), sum(map(_unit_bytes, model.units)))
    if sharding == "fsdp1":
        return 2 * _largest_unit(model)
    if sharding == "fsdp2":
        return _largest_weight(model) if recipe.parallel.loads_once else _largest_group(model)
    return _largest_weight(model) if sharding == "zero3" else 0


def saving_bytes(model: Model, recipe: Recipe) -> int:
    """The most that a rank takes while a checkpoint is written, beside what it holds."""
    sharding = recipe.parallel.sharding
    if not recipe.parallel.saves_whole:
        return 0
    if sharding == "fsdp1":
        return sum(map(_unit_bytes, model.root)) + max(map(_group_bytes, model.layers), default=0)
    if sharding == "fsdp2":
        return _largest_weight(model)
    return max(map(_group_bytes, model.layers), default=0) if sharding == "zero3" else 0


def _largest_weight(model: Model) -> int:
    return max((one.elements * one.element_bytes for unit in model.units for one in unit.weights), default=0)


def _largest_unit(model: Model) -> int:
    return max(map(_unit_bytes, model.units), default=0)


def _largest_group(model: Model) -> int:
    return max(map(_group_bytes, (*model.layers, model.root)), default=0)


def _group_bytes(units: Iterable[Unit]) -> int:
    return sum(map(_unit_bytes, units))


def _unit_bytes(unit: Unit) -> int:
    return sum(one.elements * one.element_bytes for one in unit.weights)
