"""From choices to the parts of a recipe, one function a part."""

from __future__ import annotations

from typing import Any, Literal

from capienza.card.model import Card, Placement
from capienza.recipe.choices import Choices
from capienza.recipe.optimizers import optimizer_named
from capienza.recipe.ranks import data_ranks
from capienza.recipe.recipe import (
    Adapters,
    Checkpointing,
    Evaluation,
    Loss,
    Optimizer,
    Parallel,
    Precision,
    Preference,
)

BITS: dict[str, Literal[0, 4, 8, 32]] = {"parameter": 0, "fp32": 32, "8bit": 8, "4bit": 4}
ADAPTED = ("lora", "dora", "qlora")


def value(choices: Choices, option: str) -> Any:
    """The value of an option; None where nothing was chosen."""
    choice = choices.get(option)
    return None if choice is None else choice.value


def _dtype(choices: Choices, option: str) -> Any:
    found = value(choices, option)
    return value(choices, "base_dtype") if found == "base" else found


def adapters(choices: Choices) -> Adapters | None:
    """The adapters; None for a full training."""
    method = value(choices, "method")
    if method not in ADAPTED:
        return None
    return Adapters(
        rank=int(value(choices, "rank")),
        alpha=float(value(choices, "alpha")),
        dropout=float(value(choices, "dropout")),
        targets=tuple(str(value(choices, "targets")).replace(",", " ").split()),
        dtype=_dtype(choices, "adapter_dtype"),
        modules_to_save=tuple(str(value(choices, "modules_to_save") or "").replace(",", " ").split()),
        is_dora=method == "dora" or bool(value(choices, "dora")),
    )


def precision(choices: Choices) -> Precision:
    """Formats of weights, operations and outputs. DeepSpeed casts the module itself, and runs no autocast."""
    is_zero = str(value(choices, "sharding")).startswith("zero")
    mixed: Any = "none" if is_zero else value(choices, "mixed_precision")
    upcast = value(choices, "kbit_upcast")
    trained = _dtype(choices, "adapter_dtype" if value(choices, "method") in ADAPTED else "trained_dtype")
    return Precision(
        base=_dtype(choices, "frozen_dtype"),
        trained=trained,
        quantised=str(value(choices, "base_format")) if value(choices, "quantised") else None,
        autocast=None if mixed == "none" else mixed,
        has_scaler=mixed == "fp16",
        widens_rest=upcast == "rest",
        widens_norms=upcast == "norms",
        widens_outputs=bool(value(choices, "fp32_outputs")),
        fp8=bool(value(choices, "fp8")),
        master="fp32" if value(choices, "master_weights") and trained != "fp32" else None,
    )


def optimizer(choices: Choices) -> Optimizer:
    """The optimizer: its name and what is chosen beside it."""
    named = optimizer_named(str(value(choices, "optimizer")))
    assert named is not None, "an unknown optimizer is refused before"
    is_plain = named.family in ("sgd", "rmsprop")
    return Optimizer(
        family=named.family,
        run=value(choices, "optimizer_run"),
        state_bits=BITS[value(choices, "optimizer_states")],
        is_paged=bool(value(choices, "paged")),
        in_backward=bool(value(choices, "optimizer_in_backward")),
        has_momentum=not is_plain or bool(value(choices, "momentum")),
        projection_rank=value(choices, "projection_rank"),
        library=value(choices, "optimizer_library"),
    )


def checkpointing(choices: Choices) -> Checkpointing:
    """What is computed again. Offloading is of the layers' inputs, which are all that full checkpointing keeps."""
    kind = value(choices, "gradient_checkpointing")
    if kind == "full" and value(choices, "activation_offloading"):
        kind = "offload"
    return Checkpointing(kind=kind, is_reentrant=kind != "none" and bool(value(choices, "reentrant")))


def loss(choices: Choices, tokens: int) -> Loss:
    """`tokens` of one pass, for frameworks that cut the loss into a number of pieces."""
    kind = value(choices, "loss")
    pieces = value(choices, "loss_chunks")
    chunk = -(-tokens // int(pieces)) if pieces else value(choices, "loss_chunk")
    return Loss(
        kind=kind,
        widens=bool(value(choices, "loss_fp32")),
        shifts=kind in ("full", "chunked") and bool(value(choices, "loss_shift_copy")),
        chunk_tokens=chunk if kind == "chunked" else None,
        keeps_outputs=bool(value(choices, "keep_outputs")),
    )


def evaluation(choices: Choices, microbatch: int) -> Evaluation:
    """The evaluation; `microbatch` is that of the training."""
    stated = value(choices, "eval_microbatch")
    return Evaluation(
        microbatch=microbatch if stated == "microbatch" else int(stated),
        keeps_logits=bool(value(choices, "eval_keeps_logits")),
        generates=int(value(choices, "eval_generates")),
        rows=count(choices, "eval_rows"),
        offload_steps=count(choices, "eval_accumulation_steps"),
    )


def count(choices: Choices, option: str) -> int | None:
    """A whole number that may be left open."""
    found = value(choices, option)
    return None if found in (None, "none") else int(found)


def export(choices: Choices) -> Any:
    """What is written at the end. A weight format means whole weights in it: merged ones, where there are adapters."""
    stated = value(choices, "export")
    if stated in ("none", "adapter", "merge", "full_state"):
        return stated
    return "merge" if value(choices, "method") in ADAPTED else "full_state"


def parallel(choices: Choices, card: Card) -> Parallel:
    """How the GPUs share the work: the card's placement, and the sharding."""
    placement = card.placement if isinstance(card.placement, Placement) else Placement()
    sharding = value(choices, "sharding")
    is_sharded = sharding not in ("none", "ddp")
    ranks = data_ranks(card, is_shared=sharding != "none")
    shards = value(choices, "shard_ranks") or ranks
    return Parallel(
        sharding=sharding,
        data_ranks=ranks,
        shard_ranks=int(shards) if is_sharded else 1,
        tensor_ranks=placement.tensor_parallel,
        pipeline_ranks=placement.pipeline_parallel,
        parameter_dtype=value(choices, "parameter_dtype"),
        reduce_dtype=value(choices, "reduce_dtype"),
        unsharded=is_sharded and not value(choices, "reshard_after_forward"),
        offload=value(choices, "offload"),
        bucket_elements=value(choices, "bucket_elements"),
        gradient_as_bucket_view=bool(value(choices, "gradient_as_bucket_view")),
        prefetch_elements=value(choices, "prefetch_elements"),
        persistence_elements=value(choices, "persistence_elements"),
        live_elements=value(choices, "live_elements"),
        overlaps=value(choices, "overlaps"),
        saves_whole=bool(value(choices, "saves_whole")),
        loads_once=value(choices, "loads_once") is not False,
        gathers_ahead=value(choices, "gathers_ahead") is not False,
        reduces_each=bool(value(choices, "sync_each_batch")),
        auto_sizes=bool(value(choices, "auto_sizes")),
    )


def preference(choices: Choices) -> Preference | None:
    """What stands beside the trained model; None for supervised fine-tuning."""
    if value(choices, "objective") == "sft":
        return None
    return Preference(
        reference=value(choices, "reference"),
        reward_model=value(choices, "reward_model"),
        rollout=value(choices, "rollout"),
        rollout_share=value(choices, "rollout_share"),
        sleeps=bool(value(choices, "rollout_sleeps")),
        group=int(value(choices, "group")),
        prompt_tokens=value(choices, "prompt_tokens"),
        completion_tokens=value(choices, "completion_tokens"),
    )
