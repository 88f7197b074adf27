"""A training as entries of the ledger, each in the phases that it lives in.

A phase adds up to what is there at the moment when most is: what stays (weights, adapters, states, workspaces, the last
batch) and what the phase itself takes (a pass's activations, the step's temporaries, a merge's). What the allocator
keeps beyond that is `cached`, what CUDA takes outside of it `context`: with these two the entries add up to what the
driver counts, without them to what PyTorch's counters show (`counters`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from capienza.architecture.model import Architecture
from capienza.errors import phrase
from capienza.ledger.counters import CONTEXT, HOST, OUTSIDE
from capienza.ledger.entry import Entry
from capienza.ledger.ledger import CACHED, total_of
from capienza.ledger.phase import Phase
from capienza.predict.training import texts
from capienza.predict.training.ceilings import widened
from capienza.predict.training.completions import completions, engine_beside, prompt_rows_tokens
from capienza.predict.training.context import Context, added_bytes
from capienza.predict.training.entries import (
    AFTER_LOAD,
    PHASES,
    ROLLOUT,
    STEPS,
    Phases,
    estimated,
    exact,
    expected,
    unknown,
)
from capienza.predict.training.evaluation import kept_logits
from capienza.predict.training.resident import Resident
from capienza.predict.training.room import room_bytes
from capienza.predict.training.runtime import TOKEN_BYTES, WORKSPACES, batch_tensors
from capienza.predict.training.trained import BYTES, Trained, num_trained
from capienza.predict.training.transient import ROOT_LISTS
from capienza.recipe.recipe import Recipe
from capienza.units import Range

if TYPE_CHECKING:
    from capienza.predict.training.passes import Moment, Passes

PYTORCH = "c10 CUDACachingAllocator.cpp (round_size)"
PEFT = "peft utils/other.py, tuners/lora"
TRAINER = "transformers trainer.py"
STATES_LIVE: Phases = (*STEPS, *ROLLOUT, Phase.FORWARD, Phase.BACKWARD, Phase.EVAL, Phase.CHECKPOINT, Phase.EXPORT)
"""States are made at the first step; the peak of every other phase is that of the passes after it."""
PASSES: Phases = (Phase.FORWARD, Phase.BACKWARD, Phase.EVAL)
HEADERS = "the headers of the model's files"
IMAGES = ("the images or sounds of a row",)
OPTIMIZER_SOURCES = {
    "torch": "torch.optim 2.13",
    "bitsandbytes": "bitsandbytes 0.50 optim/optimizer.py",
    "torchao": "torchao 0.14 optim",
    "transformers": "transformers 5.24 optimization.py",
}


def training_entries(
    architecture: Architecture,
    recipe: Recipe,
    resident: Resident,
    device: str,
    *,
    passes: Passes | None = None,
    reserved: Mapping[Phase, int] | None = None,
    context: Context | None = None,
    gpu_name: str = "",
    cuda_total_bytes: int | None = None,
    side: str = "none",
) -> list[Entry]:
    """The entries of one GPU besides its weights.

    `passes` None: what the passes hold is not known; `reserved`, by phase, is what the allocator keeps from the device.
    `side`: what is open of a model that sees or hears as well ("passes", or "all" with what is trained of it).
    """
    phases = phases_of(recipe)
    made = [
        *_model(recipe, resident, device),
        *_trained(recipe, resident, device),
        *_passes(architecture.vocab_size, recipe, passes, phases, device),
        *_step(recipe, resident, device),
        *_loop(architecture, recipe, resident, device),
        *_ends(recipe, resident, device),
        *preference_entries(architecture, recipe, resident, device, gpu_name, cuda_total_bytes),
    ]
    if side == "all":
        made.append(unknown("side_weights", PHASES, device, (HEADERS,), texts.BY_HEADERS()))
    if side != "none":
        made = [entry for entry in made if entry.name != "inputs"]
        made.append(unknown("inputs", AFTER_LOAD, device, IMAGES, texts.BY_TRACE()))
        made.append(unknown("side_activations", PASSES, device, IMAGES, texts.BY_TRACE()))
    made = [alive for entry in made if (alive := _within(entry, phases)) is not None]
    made.append(context_entry(device, context, phases))
    made += _cached(made, resident, reserved, phases, device, cuda_total_bytes)
    is_assumed = passes is not None and bool(passes.assumed)
    weights = resident.base.weights_bytes
    return widened(made, weights, recipe, phases, device, cuda_total_bytes, is_assumed=is_assumed)


def phases_of(recipe: Recipe) -> Phases:
    """The phases that the recipe has: evaluation, export and completions of its own where it asks for them."""
    left_out = set()
    if not recipe.evaluation.microbatch:
        left_out.add(Phase.EVAL)
    if recipe.export == "none":
        left_out.add(Phase.EXPORT)
    if recipe.preference is None or recipe.preference.rollout not in ("transformers", "vllm_colocate"):
        left_out.update(ROLLOUT)
    return tuple(phase for phase in PHASES if phase not in left_out)


def _within(entry: Entry, phases: Phases) -> Entry | None:
    live = tuple(phase for phase in entry.phases if phase in phases or phase not in PHASES)
    return msgspec.structs.replace(entry, phases=live) if live else None


def _model(recipe: Recipe, resident: Resident, device: str) -> Iterator[Entry]:
    base = resident.base
    yield exact("rounding", PHASES, device, base.rounding_bytes, texts.ROUNDING(total=base.rounding_bytes), PYTORCH)
    if base.widened_bytes:
        kept = texts.ALL_OF_IT() if recipe.precision.widens_rest else texts.BUT_EMBEDDINGS()
        formula = texts.WIDENED(dtype=recipe.precision.base, rest=base.num_rest, kept=kept, total=base.widened_bytes)
        source = f"{PEFT} prepare_model_for_kbit_training"
        yield exact("widened_weights", PHASES, device, base.widened_bytes, formula, source)
    if base.untied_head_bytes:
        formula = texts.UNTIED(total=base.untied_head_bytes)
        yield exact("untied_head", PHASES, device, base.untied_head_bytes, formula, "litgpt model.py")
    if base.buffers_bytes:
        formula = texts.BUFFERS(total=base.buffers_bytes)
        yield exact("buffers", PHASES, device, base.buffers_bytes, formula, phrase("transformers modeling files"))
    load, stays = resident.loading, base.weights_bytes + base.rounding_bytes + base.widened_bytes
    stays += load.slack_bytes
    more = max(0, load.peak_bytes - stays)
    formula = texts.LOADING(peak=load.peak_bytes, stays=stays, total=more)
    source = "transformers modeling_utils.py, core_model_loading.py; bitsandbytes functional.py"
    yield expected("loading", (Phase.LOAD,), device, more, formula, source)
    if load.slack_bytes:
        formula = texts.SLACK(total=load.slack_bytes)
        yield expected("block_ends", PHASES, device, load.slack_bytes, formula, f"{PYTORCH}, should_split")


def _trained(recipe: Recipe, resident: Resident, device: str) -> Iterator[Entry]:
    adapters = recipe.adapters
    if adapters is not None:
        pairs = [one for one in resident.trained if one.kind == "adapter"]
        formula = texts.ADAPTERS(
            rank=adapters.rank,
            parameters=num_trained(pairs),
            count=sum(one.count for one in pairs if one.name.endswith("lora_A")),
            targets=adapters.targets,
            size=BYTES[adapters.dtype],
            total=resident.adapters_bytes,
        )
        yield exact("adapters", AFTER_LOAD, device, resident.adapters_bytes, formula, PEFT)
        if resident.copies_bytes:
            copies = [one for one in resident.trained if one.kind == "copy"]
            formula = texts.COPIES(
                names=adapters.modules_to_save, parameters=num_trained(copies), total=resident.copies_bytes
            )
            source = f"{PEFT} ModulesToSaveWrapper"
            yield exact("trained_copies", AFTER_LOAD, device, resident.copies_bytes, formula, source)
    yield from _gradients(recipe, resident, device)
    yield from _states(recipe, resident, device)


def _gradients(recipe: Recipe, resident: Resident, device: str) -> Iterator[Entry]:
    """Those of the step; the passes have their own."""
    source = "torch.autograd (AccumulateGrad)"
    if recipe.optimizer.in_backward:
        largest = max((_single(one) for one in resident.trained), default=0)
        yield exact("gradients", STEPS, device, largest, texts.ONE_GRADIENT(total=largest), source)
        return
    total = resident.gradients_bytes
    formula = texts.GRADIENTS(parameters=num_trained(resident.trained), total=total)
    yield exact("gradients", STEPS, device, total, formula, source)


def _single(one: Trained) -> int:
    return one.block_bytes // one.count


def _states(recipe: Recipe, resident: Resident, device: str) -> Iterator[Entry]:
    optimizer, states = recipe.optimizer, resident.states
    parameters = num_trained(resident.trained)
    total = states.allocated_bytes
    formula = texts.STATES(
        optimizer=optimizer_words(recipe),
        per_parameter=f"{total / max(1, parameters):.3f}".rstrip("0").rstrip("."),
        parameters=parameters,
        total=total,
    )
    yield exact("optimizer_states", STATES_LIVE, device, total, formula, OPTIMIZER_SOURCES[optimizer.library])
    if states.managed_bytes:
        formula = texts.MANAGED(total=states.managed_bytes)
        source = OPTIMIZER_SOURCES[optimizer.library]
        yield expected("managed_states", STATES_LIVE, HOST, states.managed_bytes, formula, source)


def optimizer_words(recipe: Recipe) -> str:
    """An optimizer as people write it: "adamw 8 bit (bitsandbytes)"."""
    optimizer = recipe.optimizer
    bits = f" {optimizer.state_bits} bit" if optimizer.state_bits else ""
    run = f", {optimizer.run}" if optimizer.library == "torch" else ""
    return f"{optimizer.family}{bits} ({optimizer.library}{run})"


def _passes(vocabulary: int, recipe: Recipe, passes: Passes | None, phases: Phases, device: str) -> Iterator[Entry]:
    if passes is not None:
        moments = (
            (Phase.PREFILL, passes.prefill, prompt_rows_tokens(recipe)),
            (Phase.FORWARD, passes.forward, recipe.rows_tokens),
            (Phase.BACKWARD, passes.backward, recipe.rows_tokens),
            (Phase.EVAL, passes.evaluation, recipe.evaluation.microbatch * recipe.tokens),
        )
        for phase, moment, tokens in moments:
            if phase in phases and moment is not None:
                yield from _moment(phase, moment, tokens, device)
        if passes.evaluation is not None and recipe.evaluation.keeps_logits:
            yield kept_logits(vocabulary, recipe, passes.evaluation.total_bytes, device)
        return
    live = tuple(phase for phase in (Phase.FORWARD, Phase.BACKWARD, Phase.EVAL) if phase in phases)
    proof = texts.BY_TRACE()
    yield unknown("activations", live, device, proof=proof)
    yield unknown("logits_and_loss", live, device, proof=proof)
    yield unknown("gradients", (Phase.BACKWARD,), device, proof=proof)


def _moment(phase: Phase, moment: Moment, tokens: int, device: str) -> Iterator[Entry]:
    source = phrase("the operations of the pass, walked one by one (predict/training/tape)")
    is_layer = moment.where.isdecimal()
    where = texts.IN_LAYER(layer=int(moment.where)) if is_layer else texts.AT_PART(part=moment.where)
    amounts = {
        "activations": moment.activations_bytes,
        "logits_and_loss": moment.logits_bytes,
        "gradients": moment.gradients_bytes,
        "pass_temporaries": moment.working_bytes,
    }
    for name, amount in amounts.items():
        if not amount:
            continue
        per_token = f"{amount / tokens:.1f}".removesuffix(".0")
        formula = (
            texts.PASS_GRADIENTS(where=where, total=amount)
            if name == "gradients"
            else texts.PASS(where=where, tokens=tokens, per_token=per_token, total=amount)
        )
        yield expected(name, (phase,), device, amount, formula, source)


def _step(recipe: Recipe, resident: Resident, device: str) -> Iterator[Entry]:
    amount, name = resident.transient, optimizer_words(recipe)
    if amount is None:
        yield unknown("optimizer_transient", STEPS, device)
        return
    optimizer = recipe.optimizer
    if not amount.ceiling:
        formula = texts.NO_TRANSIENT(optimizer=name)
    elif optimizer.run == "foreach" and optimizer.family in ROOT_LISTS and not optimizer.in_backward:
        formula = texts.FOREACH(optimizer=name, lists=ROOT_LISTS[optimizer.family], total=amount.expected)
    else:
        largest = max(resident.trained, key=_single)
        formula = texts.ONE_TENSOR(optimizer=name, elements=largest.elements, total=amount.expected)
    yield estimated("optimizer_transient", STEPS, device, amount, formula, OPTIMIZER_SOURCES[optimizer.library])


def _loop(architecture: Architecture, recipe: Recipe, resident: Resident, device: str) -> Iterator[Entry]:
    size = resident.workspaces_bytes // WORKSPACES
    formula = texts.WORKSPACES(count=WORKSPACES, size=size)
    source = "aten/src/ATen/cuda/CublasHandlePool.cpp"
    yield expected("workspaces", AFTER_LOAD, device, resident.workspaces_bytes, formula, source)
    total = resident.batch_bytes + resident.scalars_bytes
    formula = texts.BATCH(tensors=batch_tensors(recipe), tokens=recipe.rows_tokens, scalars=resident.scalars_bytes)
    floor = TOKEN_BYTES * recipe.rows_tokens
    yield estimated("inputs", AFTER_LOAD, device, Range(min(floor, total), total, total), formula, TRAINER)
    if recipe.loss.keeps_outputs:
        width = BYTES["fp32" if recipe.precision.widens_outputs else recipe.precision.base]
        kept = recipe.rows_tokens * architecture.vocab_size * width
        formula = texts.KEPT_OUTPUTS(tokens=recipe.rows_tokens, vocabulary=architecture.vocab_size, size=width)
        yield expected("kept_outputs", STEPS, device, kept, formula, phrase("a training loop that keeps its outputs"))


def _ends(recipe: Recipe, resident: Resident, device: str) -> Iterator[Entry]:
    saving = "safetensors.torch.save_file, torch.save"
    yield exact("checkpoint", (Phase.CHECKPOINT,), device, 0, texts.NOTHING_KEPT(), saving)
    if recipe.export == "merge" and recipe.exports_on_host:
        yield exact("export", (Phase.EXPORT,), device, 0, texts.MERGED_ON_HOST(), saving)
    elif recipe.export == "merge":
        formula = texts.MERGE(total=resident.merge_bytes)
        yield expected("export", (Phase.EXPORT,), device, resident.merge_bytes, formula, f"{PEFT} merge")
    elif recipe.export != "none":
        yield exact("export", (Phase.EXPORT,), device, 0, texts.NOTHING_KEPT(), saving)


def preference_entries(
    architecture: Architecture,
    recipe: Recipe,
    resident: Resident,
    device: str,
    gpu_name: str,
    cuda_total_bytes: int | None,
) -> Iterator[Entry]:
    """What stands beside the trained model in reinforcement and preference learning."""
    preference = recipe.preference
    if preference is None:
        return
    if preference.reference == "model":
        total = resident.base.total_bytes
        yield exact("reference_model", PHASES, device, total, texts.REFERENCE(total=total), "trl")
    if preference.reward_model is not None:
        yield unknown("reward_model", AFTER_LOAD, device)
    if preference.rollout == "vllm_colocate":
        yield from engine_beside(preference, device, gpu_name, cuda_total_bytes)
    elif preference.rollout == "transformers":
        yield from completions(architecture, recipe, preference, device)


def _cached(
    made: Sequence[Entry],
    resident: Resident,
    reserved: Mapping[Phase, int] | None,
    phases: Phases,
    device: str,
    cuda_total_bytes: int | None,
) -> Iterator[Entry]:
    """What the allocator keeps beyond what is allocated, phase by phase."""
    if reserved is None:
        yield unknown(CACHED, phases, device)
        return
    for phase in phases:
        live = [one for one in made if one.device == device and phase in one.phases and one.name not in OUTSIDE]
        allocated = resident.base.weights_bytes + total_of(live).amount.expected
        kept = max(allocated, min(reserved[phase], room_bytes(made, phase, device, cuda_total_bytes)))
        formula = texts.KEPT(reserved_bytes=kept, allocated_bytes=allocated)
        yield expected(
            CACHED, (phase,), device, kept - allocated, formula, phrase("the run's blocks through the allocator")
        )


def context_entry(device: str, context: Context | None, phases: Phases) -> Entry:
    """CUDA's context: a reading, what was read on cards like it, or unknown where no card is named."""
    if context is None:
        return unknown(CONTEXT, phases, device, ("a reading on the card",), texts.READING())
    least, most, ceiling = min(context.readings), max(context.readings), context.ceiling_bytes
    if context.others:
        formula = texts.CONTEXT_ELSEWHERE(
            readings=len(context.others), least_bytes=least, most_bytes=most, ceiling_bytes=ceiling
        )
    elif ceiling > most:
        formula = texts.CONTEXT_AT_START(release=context.release, most_bytes=most, added_bytes=added_bytes())
    elif least == most:
        formula = texts.CONTEXT_ONCE(release=context.release, most_bytes=most)
    else:
        formula = texts.CONTEXT(release=context.release, least_bytes=least, most_bytes=most)
    return estimated(CONTEXT, phases, device, Range(0, most, ceiling), formula, context.source)
