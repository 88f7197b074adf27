"""vLLM from flags to figures: what each stage's GPU holds, and the pool it offers.

    pool = utilisation * CUDA total - weights - activation peak - outside PyTorch [- graphs, from 0.21]
Source: `determine_available_memory` (0.6.5 to 0.33), checked to 0.01 GiB on 25 logs that print every term.
"""

from __future__ import annotations

from capienza.errors import InputError, Message, Place, template
from capienza.ledger.phase import Phase
from capienza.predict.inference.checks import check_length
from capienza.predict.inference.pooled import cap_notes, queues, version_notes
from capienza.predict.inference.serving import Figure, Offer, RankFigures, Served, Serving
from capienza.predict.inference.vllm.defaults import Settings, settings
from capienza.predict.inference.vllm.experts import padded_bytes
from capienza.predict.inference.vllm.flags import check_flags
from capienza.predict.inference.vllm.memory import (
    CONTEXT_BYTES,
    activation_peak_bytes,
    bias_bytes,
    counts_outside,
    graph_bytes,
    outside_bytes,
    step_bytes,
)
from capienza.predict.inference.vllm.pages import PageRules, Pool, pool_of
from capienza.predict.inference.vllm.version import READ
from capienza.predict.inference.weights import ResidentWeights, resident_weights
from capienza.units import Range

BEYOND_MODEL = template(
    "predict.vllm-beyond-model",
    "{found} tokens are more than the {limit} of the model (max_position_embeddings, as far as rope_scaling reaches): "
    "vLLM refuses to start, unless VLLM_ALLOW_LONG_MAX_MODEL_LEN is set",
    "lower max_model_len to {limit}; state rope_scaling if the model is meant to be stretched",
)
LENGTH = "max_model_len"
STRETCHING = ("hf_overrides", "rope_scaling", "rope_theta")
ASSUMED_SETTINGS = template(
    "predict.vllm-defaults",
    "vLLM's own defaults are taken for: {names}",
    "state them under engine.options on the card if the run sets them",
)
WEIGHTS = template(
    "predict.vllm-weights",
    "{tensors} B of tensors + {tables} B of rotary tables + {adapters} B of adapter slots"
    " + {unlisted} B of parts outside the language model + {ends} B that blocks are larger than tensors",
)
LATE_ADAPTERS = template(
    "predict.vllm-late-adapters", "{total} B of adapter slots, made after the model is measured: outside the budget"
)
PEAK = template(
    "predict.vllm-activation", "max(layers, sampler) with {tokens} tokens and {sequences} sequences in the profile run"
)
OUTSIDE = template("predict.vllm-outside", "typical of {ranks} GPUs of a copy")
GRAPHS = template("predict.vllm-graphs", "typical of the sizes captured for {sequences} sequences")
STEPS = template("predict.vllm-steps", "log-probabilities of {steps} steps x {sequences} sequences, outside the share")
BIAS = template(
    "predict.vllm-bias", "the bias of one prompt of up to {tokens} tokens for every head, outside the share"
)
CONTEXT = template("predict.vllm-context", "typical of a CUDA context; outside the share that vLLM takes")
KV = template("predict.vllm-kv", "{sequences} x {blocks} blocks x {block} B")
BLOCK_CAP = "num_gpu_blocks_override"
"""V1 looks whether one sequence fits before it takes this number, V0 after."""
RUNNING = (Phase.PREFILL, Phase.DECODE)
LOADED = (Phase.LOAD, Phase.PROFILE_WARMUP, Phase.GRAPH_CAPTURE, Phase.KV_CACHE_ALLOCATION, *RUNNING)


def serve(serving: Serving) -> Served:
    """Figures of every stage. Raises `InputError` for a split or a format that the model cannot take."""
    chosen = settings(serving)
    ranks = tuple(_rank(serving, chosen, weights) for weights in resident_weights(serving, padded_bytes))
    notes = version_notes("vLLM", serving, chosen.version.number if chosen.version.is_stated else None, READ)
    if chosen.assumed:
        notes.append(ASSUMED_SETTINGS(names=chosen.assumed))
    return Served(ranks=ranks, notes=(*notes, *cap_notes(serving, BLOCK_CAP, ranks)))


def check_options(serving: Serving) -> tuple[Message, ...]:
    """Notes on flags that only a newer release may know.

    Raises `InputError` for a flag that no release had, and for a length that the flags themselves refuse.
    """
    check_length(serving, "vLLM", (LENGTH,))
    _check_model_limit(serving)
    return check_flags(serving.options, settings(serving).version, serving.file)


def _check_model_limit(serving: Serving) -> None:
    """Raises `InputError` for a length beyond the model's positions that nothing stretches."""
    architecture, length = serving.architecture, serving.count(LENGTH)
    limit = architecture.stretched_positions or architecture.max_position_embeddings
    if not length or not limit or length <= limit or any(name in serving.options for name in STRETCHING):
        return
    place = Place(serving.file, key=f"engine.options.{LENGTH}")
    raise InputError(BEYOND_MODEL(found=length, limit=limit), place)


def page_rules(serving: Serving, chosen: Settings) -> PageRules:
    """What shapes the pages of one rank."""
    auto = chosen.cache_format == "auto"
    state = serving.options.get("mamba_ssm_cache_dtype")
    return PageRules(
        version=chosen.version,
        block_size=chosen.block_size,
        cache_format=serving.dtype if auto else chosen.cache_format,
        model_format=serving.dtype,
        tensor_parallel=serving.split.tensor_parallel,
        state_format=str(state) if state not in (None, "auto") else None,
        keeps_windows=chosen.keeps_windows,
        caches_prefixes=chosen.caches_prefixes,
        draft_layers=chosen.draft_layers,
    )


def rank_pool(serving: Serving, chosen: Settings, layers: range) -> Pool | None:
    """The blocks of one rank that holds `layers`."""
    return pool_of(serving.architecture, layers, page_rules(serving, chosen))


def _rank(serving: Serving, chosen: Settings, weights: ResidentWeights) -> RankFigures:
    split, architecture = serving.split, serving.architecture
    pool = rank_pool(serving, chosen, weights.layers)
    peak = activation_peak_bytes(architecture, chosen, split.tensor_parallel)
    outside = outside_bytes(chosen, split.ranks, serving.gpu)
    graphs = graph_bytes([architecture.layers[index] for index in weights.layers], chosen)
    late = 0 if chosen.version.is_at_least(0, 8) else weights.adapter_bytes
    loaded = weights.total_bytes - late
    figures = [
        Figure(
            name="weights",
            amount=Range(weights.tensor_bytes, loaded, loaded),
            phases=LOADED,
            formula=WEIGHTS(
                tensors=weights.tensor_bytes,
                tables=weights.table_bytes,
                adapters=weights.adapter_bytes - late,
                unlisted=weights.unlisted_bytes,
                ends=weights.block_bytes,
            ),
        ),
        Figure(
            name="activation_peak",
            amount=Range(0, peak, peak),
            phases=(Phase.PROFILE_WARMUP, *RUNNING),
            formula=PEAK(tokens=chosen.max_num_batched_tokens, sequences=chosen.max_num_seqs),
        ),
        Figure(
            name="non_torch",
            amount=Range(0, outside, outside),
            phases=LOADED,
            formula=OUTSIDE(ranks=split.ranks),
        ),
        Figure(
            name="cuda_graph",
            amount=Range(0, graphs, graphs),
            phases=(Phase.GRAPH_CAPTURE, *RUNNING),
            formula=GRAPHS(sequences=chosen.max_num_seqs),
        ),
        Figure(
            name="context",
            amount=Range(0, CONTEXT_BYTES, CONTEXT_BYTES),
            phases=LOADED,
            formula=CONTEXT(),
        ),
    ]
    if late:
        figures.append(
            Figure(name="adapters", amount=Range(0, late, late), phases=LOADED, formula=LATE_ADAPTERS(total=late))
        )
    taken = (
        loaded
        + peak
        + (outside if counts_outside(chosen) else 0)
        + (graphs if chosen.version.is_at_least(0, 21) else 0)
    )
    return RankFigures(
        stage=weights.stage,
        figures=(*figures, *_unprofiled(serving, chosen), *_needed(serving, chosen, pool)),
        offer=_offer(serving, chosen, pool, taken),
        queues=queues(serving, chosen.max_num_seqs),
    )


def _unprofiled(serving: Serving, chosen: Settings) -> tuple[Figure, ...]:
    """What the profile run does not see, and the share of the card does not hold."""
    steps = serving.count("num_scheduler_steps") or 1
    kept = step_bytes(serving.architecture, chosen, steps)
    bias = bias_bytes(serving.architecture, chosen, serving.split.tensor_parallel)
    found = (
        ("step_outputs", kept, Phase.DECODE, STEPS(steps=steps, sequences=chosen.max_num_seqs)),
        ("attention_bias", bias, Phase.PREFILL, BIAS(tokens=chosen.max_num_batched_tokens)),
    )
    return tuple(
        Figure(name=name, amount=Range(0, size, size), phases=(phase,), formula=formula)
        for name, size, phase, formula in found
        if size
    )


def _needed(serving: Serving, chosen: Settings, pool: Pool | None) -> tuple[Figure, ...]:
    """KV and state of the required load, in whole blocks; provable is what the tokens themselves take."""
    amount, tokens, sequences = _needed_bytes(serving, chosen, pool), serving.required_tokens, serving.concurrency
    if pool is None or amount is None or tokens is None or sequences is None:
        return ()
    floor = min(amount, sequences * pool.token_bytes(tokens))
    blocks = pool.blocks_for(tokens, chosen.max_num_batched_tokens)
    formula = KV(sequences=sequences, blocks=blocks, block=pool.block_bytes)
    return (
        Figure(name="kv_cache", amount=Range(floor, amount, amount), phases=RUNNING, formula=formula, kind="blocks"),
    )


def _needed_bytes(serving: Serving, chosen: Settings, pool: Pool | None) -> int | None:
    tokens, sequences = serving.required_tokens, serving.concurrency
    if pool is None or tokens is None or sequences is None:
        return None
    return pool.bytes_for(tokens, sequences, chosen.max_num_batched_tokens)


def _offer(serving: Serving, chosen: Settings, pool: Pool | None, taken_bytes: int) -> Offer:
    total = serving.total_bytes
    budget = None if total is None else int(chosen.utilization * total)
    pool_bytes = chosen.pool_bytes
    if pool_bytes is None and budget is not None:
        pool_bytes = budget - taken_bytes
    if pool is None or pool_bytes is None:
        return Offer(budget_bytes=budget, pool_bytes=pool_bytes, max_model_len=chosen.max_model_len)
    length, batched = chosen.max_model_len, chosen.max_num_batched_tokens
    cap = serving.count(BLOCK_CAP)
    is_capped = cap is not None and cap < pool.blocks(pool_bytes)
    fits_one = not length or pool.concurrency(pool_bytes, length, batched) >= 1
    if cap is not None and is_capped:
        pool_bytes = cap * pool.block_bytes
    return Offer(
        budget_bytes=budget,
        pool_bytes=pool_bytes,
        block_size=pool.block_size,
        gpu_blocks=pool.blocks(pool_bytes),
        kv_tokens=pool.tokens(pool_bytes, length, batched) if length else None,
        max_concurrency=pool.concurrency(pool_bytes, length, batched) if length else None,
        max_model_len=length,
        is_capped=is_capped and fits_one and chosen.version.is_v1,
    )
