"""What the optimizer keeps for each trained tensor, from the first step on.

Legend: n elements of a tensor, s bytes of one in the format it is trained in. Every part is a block of its own.
    adamw, adam       2 n s (torch), 8 n (bitsandbytes 32 bit); torch's fused run keeps a step count on the GPU
    8 bit             2 (n + 4 ceil(n / B)), B = 256 (2048 before bitsandbytes 0.44), two tables of 1 KiB for all;
                      tensors below 4096 elements in fp32, and embeddings too under transformers' Trainer
    torchao           8 bit B = 256, 4 bit B = 128 (n / 2): codes, scales and a table for each state; tensors below
                      4096 elements, or no whole number of blocks, in their own format
    lion, adagrad     one state; sgd none and rmsprop one, with momentum one more
    adafactor         of a matrix [out, in] out + in: fp32 (transformers), or the trained format (torch)
    muon              one state for hidden matrices, two for all others
    galore            of a hidden matrix with rank r: two states of r x the longer side, a projection of r x the
                      shorter; apollo the same
    master            one more copy of the trained weights, 4 n
    paged             tensors from 100 000 elements on lie in managed memory, outside of PyTorch's counters
Sources: torch 2.13 optim; bitsandbytes 0.50 optim/optimizer.py; transformers 5.24 optimization.py (Adafactor),
trainer.py (embeddings); torchao 0.14 optim; galore-torch 1.0 galore_projector.py; APOLLO's apollo_torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from capienza.allocator.sizes import SMALLEST_BLOCK, rounded_bytes
from capienza.predict.training.releases import release
from capienza.predict.training.trained import Trained
from capienza.recipe.recipe import Optimizer, Recipe

SMALL_ELEMENTS = 4096
PAGED_ELEMENTS = 100_000
OWN_TRAINERS = frozenset({"torchtune", "litgpt", "torchtitan"})
"""Frameworks whose training loop is not transformers' Trainer."""
BNB_BLOCK, OLD_BNB_BLOCK, NEW_BLOCK_SINCE = 256, 2048, (0, 44)
TORCHAO_BLOCK = {8: 256, 4: 128}
TORCHAO_TABLE = {8: 1024, 4: SMALLEST_BLOCK}
TABLE = 1024
TABLES = 2
HIDDEN_ROLES = frozenset({"attention", "mlp", "expert", "state"})
NUM_STATES = {"adamw": 2, "adam": 2, "lion": 1, "sgd": 0, "rmsprop": 1, "adagrad": 1}
WITH_MOMENTUM = frozenset({"sgd", "rmsprop"})


class States(msgspec.Struct, frozen=True, kw_only=True):
    """`gpu_bytes` in the caching allocator, `managed_bytes` in memory that the driver moves, `tables_bytes` for all."""

    gpu_bytes: int
    managed_bytes: int
    tables_bytes: int = 0

    @property
    def allocated_bytes(self) -> int:
        """What the caching allocator counts."""
        return self.gpu_bytes + self.tables_bytes


def states_of(tensors: Iterable[Trained], recipe: Recipe) -> States:
    """The states of all trained tensors, once the first step is done."""
    optimizer = recipe.optimizer
    parts = _parts_by(optimizer, recipe)
    gpu = managed = 0
    has_tables = False
    has_master = recipe.precision.master is not None
    for one, count in alike(tensors):
        if has_master:
            gpu += count * rounded_bytes(4 * one.elements)
        is_managed = optimizer.is_paged and one.elements >= PAGED_ELEMENTS
        has_tables = has_tables or _is_narrow(one, recipe)
        for size, may_move in parts(one):
            if is_managed and may_move:
                managed += count * size
            else:
                gpu += count * rounded_bytes(size)
    tables = TABLES if optimizer.family in ("adamw", "adam") else 1
    return States(
        gpu_bytes=gpu,
        managed_bytes=managed,
        tables_bytes=tables * TABLE if has_tables and optimizer.library == "bitsandbytes" else 0,
    )


def state_parts(recipe: Recipe) -> Callable[[Trained], list[int]]:
    """Bytes of each part of a tensor's state that the caching allocator holds."""
    parts, is_paged = _parts_by(recipe.optimizer, recipe), recipe.optimizer.is_paged
    has_master = recipe.precision.master is not None

    def held(one: Trained) -> list[int]:
        is_managed = is_paged and one.elements >= PAGED_ELEMENTS
        found = [size for size, may_move in parts(one) if not (is_managed and may_move)]
        return [4 * one.elements, *found] if has_master else found

    return held


def saved_bytes(tensors: Iterable[Trained], recipe: Recipe) -> int:
    """What the states of all tensors hold, wherever they lie: what a checkpoint of them writes."""
    parts, has_master = _parts_by(recipe.optimizer, recipe), recipe.precision.master is not None
    return sum(
        count * (sum(size for size, _ in parts(one)) + (4 * one.elements if has_master else 0))
        for one, count in alike(tensors)
    )


def alike(tensors: Iterable[Trained]) -> Iterator[tuple[Trained, int]]:
    """One tensor of each kind and how many there are: the layers of a model repeat themselves."""
    found: dict[tuple[object, ...], tuple[Trained, int]] = {}
    for one in tensors:
        key = one.shape, one.role, one.kind, one.bytes_per_element
        first, count = found.get(key) or (one, 0)
        found[key] = first, count + one.count
    yield from found.values()


Parts = Callable[[Trained], Iterator[tuple[int, bool]]]
"""Bytes of each part of a tensor's state, and whether a paged optimizer puts it into managed memory."""


def _parts_by(optimizer: Optimizer, recipe: Recipe) -> Parts:
    family = optimizer.family
    if family == "adafactor":
        return _adafactor(optimizer)
    if family == "muon":
        return _muon
    if family in ("galore_adamw", "apollo_adamw"):
        return _projected(optimizer)
    count = NUM_STATES[family] + (optimizer.has_momentum and family in WITH_MOMENTUM)
    if optimizer.library == "torchao" and optimizer.state_bits in TORCHAO_BLOCK:
        return _torchao(optimizer.state_bits, count)
    if optimizer.library == "bitsandbytes":
        return _bitsandbytes(recipe, count)
    wide = {0: None, 32: 4}.get(optimizer.state_bits)
    return _plain(count, wide, has_step=optimizer.run == "fused" and count == 2)


def _plain(count: int, size: int | None, *, has_step: bool = False) -> Parts:
    def parts(one: Trained) -> Iterator[tuple[int, bool]]:
        for _ in range(count):
            yield one.elements * (size or one.bytes_per_element), True
        if has_step:
            yield 4, False

    return parts


def _is_narrow(one: Trained, recipe: Recipe) -> bool:
    """Does bitsandbytes keep 8 bit states for this tensor?"""
    if recipe.optimizer.state_bits != 8 or one.elements < SMALL_ELEMENTS:
        return False
    return one.role != "embedding" or one.kind == "adapter" or recipe.framework in OWN_TRAINERS


def _bitsandbytes(recipe: Recipe, count: int) -> Parts:
    block = BNB_BLOCK if release(recipe, "bitsandbytes") >= NEW_BLOCK_SINCE else OLD_BNB_BLOCK

    def parts(one: Trained) -> Iterator[tuple[int, bool]]:
        is_narrow = _is_narrow(one, recipe)
        for _ in range(count):
            yield one.elements * (1 if is_narrow else 4), True
            if is_narrow:
                yield 4 * -(-one.elements // block), False

    return parts


def _torchao(bits: int, count: int) -> Parts:
    block = TORCHAO_BLOCK[bits]

    def parts(one: Trained) -> Iterator[tuple[int, bool]]:
        is_narrow = one.elements >= SMALL_ELEMENTS and one.elements % block == 0
        for _ in range(count):
            if not is_narrow:
                yield one.elements * one.bytes_per_element, False
                continue
            yield one.elements * bits // 8, False
            yield 4 * one.elements // block, False
            yield TORCHAO_TABLE[bits], False

    return parts


def _adafactor(optimizer: Optimizer) -> Parts:
    def parts(one: Trained) -> Iterator[tuple[int, bool]]:
        size = 4 if optimizer.library == "transformers" else one.bytes_per_element
        if len(one.shape) < 2:
            yield one.elements * size, False
            return
        yield one.elements // one.shape[-1] * size, False
        yield one.elements // one.shape[-2] * size, False

    return parts


def _is_hidden(one: Trained) -> bool:
    return len(one.shape) >= 2 and one.role in HIDDEN_ROLES


def _muon(one: Trained) -> Iterator[tuple[int, bool]]:
    for _ in range(1 if _is_hidden(one) else 2):
        yield one.elements * one.bytes_per_element, False


def _projected(optimizer: Optimizer) -> Parts:
    def parts(one: Trained) -> Iterator[tuple[int, bool]]:
        size = one.bytes_per_element
        if not _is_hidden(one):
            yield from ((one.elements * size, False) for _ in range(2))
            return
        rank = min(optimizer.projection_rank or min(one.shape), *one.shape)
        for side in (max(one.shape), max(one.shape), min(one.shape)):
            yield rank * side * size, False

    return parts
