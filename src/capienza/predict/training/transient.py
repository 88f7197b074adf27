"""What an optimizer step takes for a moment, beside weights, gradients and states.

Legend: s bytes of an element in the format it is trained in; T the trained tensors of the larger parameter group,
L the elements of its largest tensor, m the shorter side of the largest hidden matrix.
    foreach   adamw, adam, rmsprop s T (the root of the second moment, all at once); adagrad 2 s T
    fused     nothing
    loop      adamw, adam, lion 2 s L; rmsprop, adagrad the largest two neighbours; bitsandbytes nothing
    adafactor transformers 12 L in fp32, 20 L in 16 bits; torch 8 L
    muon      (s + 4) L + 4 m^2 (Newton-Schulz in bf16)
    torchao   8 L at most: both moments of a tensor in fp32, unless the compiler fuses them away
    sgd       nothing
transformers' Trainer has two groups, one of them without weight decay: norms and biases. Mistral's norm was not
registered as one before transformers 4.50.
Sources: torch 2.13 optim, transformers 5.24 optimization.py, trainer.py get_decay_parameter_names, bitsandbytes 0.50,
each traced on the allocator of a card; fms rows bound by the step, to the byte.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from capienza.allocator.sizes import rounded_bytes
from capienza.architecture.model import Architecture
from capienza.predict.training.releases import release
from capienza.predict.training.states import HIDDEN_ROLES, OWN_TRAINERS, alike
from capienza.predict.training.trained import Trained, block_bytes
from capienza.recipe.recipe import Recipe
from capienza.units import NOTHING, Range

UNREGISTERED_NORMS = frozenset({"mistral", "mixtral"})
NAMED_NORMS_SINCE = (4, 50)
ROOT_LISTS = {"adamw": 1, "adam": 1, "rmsprop": 1, "adagrad": 2}
WITHOUT = frozenset({"sgd"})


def transient(tensors: Sequence[Trained], architecture: Architecture, recipe: Recipe) -> Range | None:
    """Bytes of the step's own tensors; None where the optimizer's are not known."""
    optimizer = recipe.optimizer
    family = optimizer.family
    if family in ("galore_adamw", "apollo_adamw"):
        return None
    if not tensors or family in WITHOUT or optimizer.library == "bitsandbytes" or optimizer.run == "fused":
        return NOTHING
    if optimizer.library == "torchao":
        return Range(0, 8 * _largest(tensors).elements, 8 * _largest(tensors).elements)
    if family == "adafactor":
        return Range.exact(_adafactor(_largest(tensors), optimizer.library == "transformers"))
    if family == "muon":
        return Range.exact(_muon(tensors))
    if optimizer.run == "foreach" and not optimizer.in_backward:
        lists = ROOT_LISTS.get(family, 1)
        return Range.exact(lists * max(block_bytes(group) for group in groups(tensors, architecture, recipe)))
    if family in ("adamw", "adam", "lion"):
        return Range.exact(2 * _one(_largest(tensors)))
    sizes = [_one(one) for one in tensors] + [0]
    return Range.exact(max(first + second for first, second in itertools.pairwise(sizes)))


def looks_at_neighbours(recipe: Recipe) -> bool:
    """Does the step's transient depend on which tensors stand beside each other?"""
    optimizer = recipe.optimizer
    return optimizer.run == "loop" and optimizer.family in ("rmsprop", "adagrad")


def groups(tensors: Iterable[Trained], architecture: Architecture, recipe: Recipe) -> tuple[tuple[Trained, ...], ...]:
    """The parameter groups of the optimizer: each is stepped by itself."""
    everything = tuple(tensors)
    if recipe.framework in OWN_TRAINERS:
        return (everything,)
    keeps_norms = architecture.model_type in UNREGISTERED_NORMS and release(recipe, "transformers") < NAMED_NORMS_SINCE
    bare = tuple(one for one in everything if _is_bare(one, keeps_norms=keeps_norms))
    if not bare:
        return (everything,)
    return tuple(one for one in everything if not _is_bare(one, keeps_norms=keeps_norms)), bare


def _is_bare(one: Trained, *, keeps_norms: bool) -> bool:
    return one.kind != "adapter" and (one.name.endswith(".bias") or (one.role == "norm" and not keeps_norms))


def _one(one: Trained) -> int:
    return rounded_bytes(one.elements * one.bytes_per_element)


def _largest(tensors: Sequence[Trained]) -> Trained:
    return max((one for one, _ in alike(tensors)), key=_one)


def _adafactor(largest: Trained, is_transformers: bool) -> int:
    if not is_transformers:
        return 8 * largest.elements
    return (12 if largest.bytes_per_element == 4 else 20) * largest.elements


def _muon(tensors: Sequence[Trained]) -> int:
    hidden = [one for one in tensors if one.role in HIDDEN_ROLES and len(one.shape) >= 2]
    largest = _largest(hidden or tensors)
    return (largest.bytes_per_element + 4) * largest.elements + 4 * min(largest.shape) ** 2
