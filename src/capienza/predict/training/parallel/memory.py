"""What one rank of a training holds, phase by phase and by what it is for: what its ledger is made of."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import msgspec

from capienza.allocator.replay import replay
from capienza.allocator.settings import Settings, parse_settings
from capienza.architecture.model import Architecture
from capienza.errors import Message
from capienza.formats.scheme import Scheme
from capienza.ledger.phase import Phase
from capienza.predict.training.parallel.composition import Composition, compositions
from capienza.predict.training.parallel.materialised import load_bytes, saving_bytes
from capienza.predict.training.parallel.program import GRADIENTS, WHOLE_GRADIENTS
from capienza.predict.training.parallel.rank import inputs_bytes, rank_of
from capienza.predict.training.parallel.titan_rank import is_titan
from capienza.predict.training.parallel.units import Unit, Weight, share
from capienza.predict.training.runtime import WORKSPACES, workspaces_bytes
from capienza.predict.training.scope import taken_for_granted
from capienza.recipe.recipe import Recipe

RESERVED_AFTER = (Phase.CHECKPOINT, Phase.EXPORT)


class Cut(msgspec.Struct, frozen=True):
    """Weights of one format: how many elements the model has of it, and bytes of an element."""

    elements: int
    element_bytes: int


class RankMemory(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes on one rank before Hopper.

    `held` is what the rank holds at the highest moment of each phase, by purpose; `reserved` what the allocator keeps
    by then; `block_ends` what blocks hold beyond their tensors. `beside_bytes` is what no library shards. `cuts` are
    the model's weights by format. `root_bytes` and `layer_bytes`: the root's unit and the largest layer's, whole and as
    stored. `num_trained`: of this rank's part. `inputs_bytes`: the batch and single numbers. `after_bytes`: allocated
    when training has returned.
    """

    held: dict[Phase, Composition]
    reserved: dict[Phase, int]
    block_ends: dict[Phase, int]
    beside_bytes: int
    cuts: tuple[Cut, ...]
    root_bytes: int
    layer_bytes: int
    num_trained: int
    loading_bytes: int
    saving_bytes: int
    inputs_bytes: int
    after_bytes: int
    offloaded_bytes: int
    assumed: tuple[Message, ...]


def rank_memory(
    architecture: Architecture,
    recipe: Recipe,
    scheme: Scheme | None = None,
    config: Mapping[str, Any] | None = None,
) -> RankMemory:
    """One rank of DDP, FSDP or ZeRO. Raises `InputError` for what the passes or the ways to share do not cover."""
    bare = msgspec.structs.replace(recipe, origins=(), left_out=())
    return _found(architecture, bare, scheme, None if config is None else msgspec.json.encode(config))


@functools.lru_cache(maxsize=64)
def _found(architecture: Architecture, recipe: Recipe, scheme: Scheme | None, config: bytes | None) -> RankMemory:
    known = None if config is None else msgspec.json.decode(config)
    workspace = workspaces_bytes(None) // WORKSPACES
    rank = rank_of(architecture, recipe, workspace_bytes=workspace, config=known, scheme=scheme)
    model, program = rank.shared.model, rank.program
    settings = parse_settings(recipe.allocator) if recipe.allocator else Settings()
    spans = replay(program.events, settings, phases=program.phases).phases
    reserved: dict[Phase, int] = {}
    allocated: dict[Phase, int] = {}
    for span in spans:
        if span.name:
            phase = Phase(span.name)
            reserved[phase] = max(reserved.get(phase, 0), span.reserved_bytes)
            allocated[phase] = max(allocated.get(phase, 0), span.allocated_bytes)
    held = {Phase(name): found for name, found in compositions(program).items()}
    if recipe.parallel.sharding == "ddp":
        held = {phase: _unsharded(one) for phase, one in held.items()}
    held[Phase.EXPORT] = held[Phase.CHECKPOINT]
    most = max(reserved.values())
    # A run that outgrows the replay's addresses ends there: what would follow keeps no less.
    reserved = dict.fromkeys(held, most) | reserved
    ends = {phase: max(0, allocated.get(phase, 0) - one.total_bytes) for phase, one in held.items()}
    return RankMemory(
        held=held,
        reserved=reserved | dict.fromkeys(RESERVED_AFTER, most),
        block_ends=ends | {Phase.EXPORT: ends[Phase.CHECKPOINT]},
        beside_bytes=rank.shared.beside_bytes,
        cuts=_cuts(model.units),
        root_bytes=_bytes(model.root),
        layer_bytes=max(map(_bytes, model.layers), default=0),
        num_trained=sum(share(unit.state_elements, recipe.parallel.shard_ranks) for unit in model.units),
        loading_bytes=load_bytes(model, recipe),
        saving_bytes=saving_bytes(model, recipe),
        inputs_bytes=inputs_bytes(rank, recipe),
        after_bytes=held[Phase.CHECKPOINT].total_bytes + rank.shared.beside_bytes + inputs_bytes(rank, recipe),
        offloaded_bytes=offloaded_bytes(recipe, model.units),
        assumed=() if is_titan(architecture, recipe) else taken_for_granted(architecture, recipe),
    )


def _unsharded(one: Composition) -> Composition:
    """DDP has no part of a gradient: all of them are this rank's."""
    found = dict(one.bytes_by_purpose)
    whole = found.pop(WHOLE_GRADIENTS, 0)
    return Composition(found | ({GRADIENTS: whole + found.get(GRADIENTS, 0)} if whole else {}), one.place)


def offloaded_bytes(recipe: Recipe, units: tuple[Unit, ...]) -> int:
    """What one rank keeps in main memory: copy in fp32 and states of its part, and its weights and gradients."""
    parallel = recipe.parallel
    if parallel.offload == "none":
        return 0
    weights = [weight for unit in units for weight in unit.weights]
    part = share(sum(one.elements for one in weights if one.is_trained and one.has_states), parallel.shard_ranks)
    item = max((one.element_bytes for one in weights if one.is_trained), default=2)
    is_zero = parallel.sharding.startswith("zero")
    states = (4 + 8 + item) * part if is_zero else 3 * item * part
    if parallel.offload == "optimizer":
        return states
    return states + sum(share(one.elements, parallel.shard_ranks) * one.element_bytes for one in weights)


def _bytes(units: tuple[Unit, ...]) -> int:
    return sum(one.elements * one.element_bytes for unit in units for one in unit.weights)


def _cuts(units: tuple[Unit, ...]) -> tuple[Cut, ...]:
    found: dict[int, int] = {}
    weights: list[Weight] = [weight for unit in units for weight in unit.weights]
    for one in weights:
        found[one.element_bytes] = found.get(one.element_bytes, 0) + one.elements
    return tuple(Cut(elements, size) for size, elements in found.items())
