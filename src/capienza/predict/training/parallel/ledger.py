"""One rank of a training as entries of the ledger: weights, gathered units, gradients, states, buffers, activations.

Figures of a phase are those of its highest moment, taken from one program run: they add up to what is allocated then.
"""

from __future__ import annotations

from collections.abc import Iterator

from capienza.architecture.model import Architecture
from capienza.errors import Message, phrase
from capienza.ledger.counters import CONTEXT, HOST, OUTSIDE
from capienza.ledger.entry import Entry
from capienza.ledger.ledger import CACHED, total_of
from capienza.ledger.phase import Phase
from capienza.predict.training import texts as single
from capienza.predict.training.ceilings import widened
from capienza.predict.training.context import Context
from capienza.predict.training.entries import AFTER_LOAD, STEPS, Phases, estimated, exact, expected, unknown
from capienza.predict.training.ledger import context_entry, optimizer_words, preference_entries
from capienza.predict.training.parallel import program as purposes
from capienza.predict.training.parallel import texts
from capienza.predict.training.parallel.memory import RankMemory
from capienza.predict.training.parallel.outside import (
    ALL_SETS,
    CONNECTION_BYTES,
    LEAST_CHANNELS,
    MOST_CHANNELS,
    RING_SETS,
    USUAL_CHANNELS,
    communicator_bytes,
)
from capienza.predict.training.resident import Resident
from capienza.predict.training.room import room_bytes
from capienza.predict.training.runtime import TOKEN_BYTES, WORKSPACES, batch_tensors, scalars_bytes
from capienza.recipe.recipe import Recipe
from capienza.units import Range

LIBRARY = {
    "ddp": "torch/nn/parallel/distributed.py, torch/csrc/distributed/c10d/reducer.cpp",
    "fsdp1": "torch/distributed/fsdp/_flat_param.py, _runtime_utils.py",
    "fsdp2": "torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py, _fsdp_collectives.py",
    "zero1": "deepspeed/runtime/zero/stage_1_and_2.py",
    "zero2": "deepspeed/runtime/zero/stage_1_and_2.py",
    "zero3": "deepspeed/runtime/zero/stage3.py, partitioned_param_coordinator.py",
}
ALWAYS = frozenset({purposes.WEIGHTS, purposes.ADAPTERS, purposes.STATES})
"""Known to the byte where the card states how the GPUs share; everything else rests on how programs usually behave."""
BESIDE, ENDS, LIBRARY_ENTRY = "unsharded_tensors", "block_ends", "communication_library"
FIRST = "gpu:0"
REPLICATED = ("ddp", "zero1", "zero2")
"""Every GPU holds the whole model."""


def weights_formula(memory: RankMemory, recipe: Recipe, total: int) -> Message:
    """How this rank's weights come about."""
    parts = " + ".join(f"{cut.elements} x {cut.element_bytes} B" for cut in memory.cuts)
    parallel = recipe.parallel
    if parallel.sharding in REPLICATED:
        return texts.WHOLE(sharding=parallel.sharding, parts=parts, total=total)
    return texts.CUT(sharding=parallel.sharding, ranks=parallel.shard_ranks, parts=parts, total=total)


def rank_entries(
    architecture: Architecture,
    recipe: Recipe,
    memory: RankMemory,
    resident: Resident,
    device: str,
    *,
    phases: Phases,
    context: Context | None,
    gpu_name: str,
    cuda_total_bytes: int | None,
) -> list[Entry]:
    """The entries of one GPU besides its weights. `resident` is that of one GPU alone: its workspaces, its models."""
    more = resident.workspaces_bytes - memory.held[Phase.BACKWARD].bytes_by_purpose.get(purposes.WORKSPACES, 0)
    made = [*_held(recipe, memory, phases, device, more), *_loop(recipe, memory, phases, device)]
    made += [*_load(recipe, memory, device), *_ends(recipe, memory, phases, device)]
    weights = _amounts(memory, purposes.WEIGHTS, phases)
    made += _beside(architecture, recipe, resident, device, gpu_name, cuda_total_bytes)
    made += [_communication(recipe, phases, device), context_entry(device, context, phases)]
    made += _cached(made, memory, weights, phases, device, more, cuda_total_bytes)
    made += _offloaded(recipe, memory, phases, device)
    return widened(made, max(weights.values(), default=0), recipe, phases, device, cuda_total_bytes)


def _amounts(memory: RankMemory, purpose: str, phases: Phases) -> dict[Phase, int]:
    return {phase: memory.held[phase].bytes_by_purpose.get(purpose, 0) for phase in phases if phase in memory.held}


def _held(recipe: Recipe, memory: RankMemory, phases: Phases, device: str, more: int) -> Iterator[Entry]:
    """What lies in the rank's blocks at each phase's highest moment, one entry for phases that hold the same."""
    names = dict.fromkeys(name for held in memory.held.values() for name in held.bytes_by_purpose)
    for name in names:
        if name == purposes.WEIGHTS:
            continue
        by_amount: dict[int, list[Phase]] = {}
        for phase, amount in _amounts(memory, name, phases).items():
            if name == purposes.WORKSPACES:
                # Before the first pass there is nothing to multiply.
                amount = 0 if phase is Phase.LOAD else amount + more
            if name == purposes.STATES and phase is Phase.LOAD and not recipe.parallel.sharding.startswith("zero"):
                continue
            if amount:
                by_amount.setdefault(amount, []).append(phase)
        for amount, live in by_amount.items():
            yield _entry(name, tuple(live), device, amount, recipe, memory)


def _entry(name: str, live: Phases, device: str, amount: int, recipe: Recipe, memory: RankMemory) -> Entry:
    formula = _formula(name, amount, _where(memory, live[0]), recipe, memory)
    if name in ALWAYS:
        return exact(name, live, device, amount, formula, LIBRARY[recipe.parallel.sharding])
    return expected(name, live, device, amount, formula, LIBRARY[recipe.parallel.sharding])


def _where(memory: RankMemory, phase: Phase) -> Message:
    place = memory.held[phase].place
    if phase not in (Phase.FORWARD, Phase.BACKWARD, Phase.EVAL):
        return texts.OF_STEP()
    return single.IN_LAYER(layer=place) if isinstance(place, int) else single.AT_PART(part=str(place))


def _formula(name: str, amount: int, where: Message, recipe: Recipe, memory: RankMemory) -> Message:
    parallel, optimizer = recipe.parallel, optimizer_words(recipe)
    if name == purposes.ADAPTERS:
        return texts.ADAPTERS(sharding=parallel.sharding, ranks=parallel.shard_ranks, total=amount)
    if name == purposes.STATES:
        per_parameter = f"{amount / max(1, memory.num_trained):.3f}".rstrip("0").rstrip(".")
        return texts.STATES(
            optimizer=optimizer, per_parameter=per_parameter, parameters=memory.num_trained, total=amount
        )
    if name == purposes.TRANSIENT:
        return texts.TRANSIENT(optimizer=optimizer, total=amount)
    if name == purposes.GRADIENTS and parallel.sharding == "ddp":
        return single.PASS_GRADIENTS(where=where, total=amount)
    if name == purposes.GRADIENTS:
        return texts.OWN_GRADIENTS(where=where, total=amount)
    if name == purposes.WHOLE_GRADIENTS:
        return texts.WHOLE_GRADIENTS(where=where, total=amount, microbatches=recipe.accumulation)
    if name == purposes.GATHERED:
        return texts.GATHERED(where=where, total=amount, root=memory.root_bytes, layer=memory.layer_bytes)
    if name == purposes.BUFFERS:
        return texts.BUFFERS(sharding=parallel.sharding, where=where, total=amount)
    if name == purposes.WORKSPACES:
        return single.WORKSPACES(count=WORKSPACES, size=amount // WORKSPACES)
    tokens = recipe.rows_tokens
    per_token = f"{amount / tokens:.1f}".removesuffix(".0")
    return single.PASS(where=where, tokens=tokens, per_token=per_token, total=amount)


def _loop(recipe: Recipe, memory: RankMemory, phases: Phases, device: str) -> Iterator[Entry]:
    total = memory.inputs_bytes
    if total:
        tokens, live = recipe.rows_tokens, tuple(phase for phase in phases if phase in AFTER_LOAD)
        formula = single.BATCH(tensors=batch_tensors(recipe), tokens=tokens, scalars=scalars_bytes(recipe))
        held = Range(min(total, TOKEN_BYTES * tokens), total, total)
        yield estimated("inputs", live, device, held, formula, "transformers trainer.py")
    if memory.beside_bytes:
        told = texts.BESIDE(sharding=recipe.parallel.sharding, total=memory.beside_bytes)
        yield expected(BESIDE, phases, device, memory.beside_bytes, told, LIBRARY[recipe.parallel.sharding])
    by_amount: dict[int, list[Phase]] = {}
    for phase in phases:
        by_amount.setdefault(memory.block_ends.get(phase, 0), []).append(phase)
    for size, where in by_amount.items():
        if size:
            source = "c10 CUDACachingAllocator.cpp (should_split)"
            yield expected(ENDS, tuple(where), device, size, texts.ENDS(total=size), source)


def _load(recipe: Recipe, memory: RankMemory, device: str) -> Iterator[Entry]:
    sharding, total = recipe.parallel.sharding, memory.loading_bytes
    what = {"ddp": texts.WHOLE_MODEL, "fsdp1": texts.TWO_UNITS}.get(sharding, texts.ONE_WEIGHT)
    if sharding == "fsdp2" and not recipe.parallel.loads_once:
        what = texts.ONE_UNIT
    if not total:
        what = texts.NOTHING_WHOLE
    formula = texts.LOADING(sharding=sharding, what=what(), total=total)
    yield expected("loading", (Phase.LOAD,), device, total, formula, LIBRARY[sharding])


def _ends(recipe: Recipe, memory: RankMemory, phases: Phases, device: str) -> Iterator[Entry]:
    total, source = memory.saving_bytes, LIBRARY[recipe.parallel.sharding]
    what = texts.ROOT_AND_LAYER if recipe.parallel.sharding == "fsdp1" else texts.ONE_WEIGHT
    formula = texts.SAVING_WHOLE(what=what(), total=total) if total else texts.SAVING_NOTHING()
    yield expected("checkpoint", (Phase.CHECKPOINT,), device, total, formula, source)
    if Phase.EXPORT not in phases:
        return
    if recipe.export == "merge" and recipe.parallel.sharding not in REPLICATED:
        # Merging wants whole matrices: programs do it on one GPU or in main memory, after the run.
        yield unknown("export", (Phase.EXPORT,), device)
        return
    yield expected("export", (Phase.EXPORT,), device, total, formula, source)


def _cached(
    made: list[Entry],
    memory: RankMemory,
    weights: dict[Phase, int],
    phases: Phases,
    device: str,
    more: int,
    cuda_total_bytes: int | None,
) -> Iterator[Entry]:
    """What the allocator keeps beyond what is allocated. What no library shards lies in blocks beside the program's."""
    outside = sum(
        entry.amount.expected for entry in made if entry.name in ("inputs", BESIDE) and entry.amount is not None
    )
    highest = 0
    for phase in phases:
        live = [one for one in made if one.device == device and phase in one.phases and one.name not in OUTSIDE]
        allocated = weights.get(phase, 0) + total_of(live).amount.expected
        kept = memory.reserved.get(phase, 0) + outside + (0 if phase is Phase.LOAD else more)
        highest = max(highest, kept, allocated)
        held = max(allocated, min(highest, room_bytes(made, phase, device, cuda_total_bytes)))
        formula = single.KEPT(reserved_bytes=held, allocated_bytes=allocated)
        source = phrase("the run's blocks through the allocator")
        yield expected(CACHED, (phase,), device, held - allocated, formula, source)


def _communication(recipe: Recipe, phases: Phases, device: str) -> Entry:
    parallel = recipe.parallel
    groups = 2 if 1 < parallel.shard_ranks < parallel.data_ranks else 1
    usual = groups * communicator_bytes()
    most = groups * communicator_bytes(MOST_CHANNELS)
    formula = texts.COMMUNICATOR(
        groups=groups,
        channels=USUAL_CHANNELS,
        sets=ALL_SETS,
        set=CONNECTION_BYTES,
        total=usual,
        least=LEAST_CHANNELS * RING_SETS,
        most=MOST_CHANNELS,
    )
    source = "NCCL src/init.cc, src/transport/p2p.cc; github.com/NVIDIA/nccl issue 864"
    return estimated(LIBRARY_ENTRY, phases, device, Range(0, usual, most), formula, source)


def _beside(
    architecture: Architecture,
    recipe: Recipe,
    resident: Resident,
    device: str,
    gpu_name: str,
    cuda_total_bytes: int | None,
) -> Iterator[Entry]:
    """Other models of the method; a reference is shared out as the trained model is (TRL prepare_fsdp)."""
    parallel = recipe.parallel
    ranks = 1 if parallel.sharding in REPLICATED else parallel.shard_ranks
    for entry in preference_entries(architecture, recipe, resident, device, gpu_name, cuda_total_bytes):
        if entry.name != "reference_model" or entry.amount is None or ranks == 1:
            yield entry
            continue
        part = -(-entry.amount.expected // ranks)
        formula = texts.REFERENCE_CUT(total=entry.amount.expected, ranks=ranks, part=part)
        yield expected(entry.name, entry.phases, device, part, formula, LIBRARY[parallel.sharding])


def _offloaded(recipe: Recipe, memory: RankMemory, phases: Phases, device: str) -> Iterator[Entry]:
    """What waits in main memory, of all GPUs: it stands beside the first."""
    if not memory.offloaded_bytes or device != FIRST:
        return
    parallel = recipe.parallel
    total = parallel.data_ranks * memory.offloaded_bytes
    formula = texts.OFFLOADED(
        what=parallel.offload, each=memory.offloaded_bytes, ranks=parallel.data_ranks, total=total
    )
    name = "offloaded_states" if parallel.offload == "optimizer" else "offloaded_weights"
    yield expected(name, phases, HOST, total, formula, LIBRARY[parallel.sharding])


def unknown_rank_entries(recipe: Recipe, phases: Phases, device: str) -> list[Entry]:
    """Entries of a way to share that is not covered: each unknown, with what settles it."""
    parallel = recipe.parallel
    proof = texts.RANK_PROOF(ranks=parallel.data_ranks * parallel.tensor_ranks * parallel.pipeline_ranks)
    passes = tuple(phase for phase in (Phase.FORWARD, Phase.BACKWARD, Phase.EVAL) if phase in phases)
    steps = tuple(phase for phase in phases if phase in STEPS)
    live: dict[str, Phases] = {
        "loading": (Phase.LOAD,),
        "gradients": (Phase.BACKWARD, *steps),
        "optimizer_states": tuple(phase for phase in phases if phase is not Phase.LOAD),
        "optimizer_transient": steps,
        "activations": passes,
        "logits_and_loss": passes,
        purposes.BUFFERS: (*passes, *steps),
        "checkpoint": (Phase.CHECKPOINT,),
        LIBRARY_ENTRY: phases,
        CONTEXT: phases,
    }
    return [unknown(name, where, device, proof=proof) for name, where in live.items()]
