"""TGI: a warm-up prefill on blocks of its own, then a pool from what is left free.

It runs `max_batch_size` sequences at once, and refuses more than `max_concurrent_requests` (128).
Legend: T CUDA total, F free before the warm-up (T - context - communication - weights), n tokens of the warm-up
(`max_batch_prefill_tokens`), V vocabulary, t ranks, m `cuda_memory_fraction` (1); cell bytes of one token on a rank.
    warm-up     n * cell + the widest layer of n tokens + logits of all n tokens: n * V * 2 / t, gathered n * V * 2
                when t > 1, and their logarithms n * V * 2
    pool        before 3.0   0.95 * (F - warm-up - (1 - m) T) + n * cell
                from 3.0     F - warm-up - (1 - 0.90 m) T + n * cell
    blocks      of 16 tokens before 2.3; from 2.3 of 1 with flashinfer (the default), 256 with flashdecoding, 16 paged
"Max batch total tokens" is blocks * block; a longer `max_total_tokens` is refused. What the warm-up allocated stays
reserved, so it counts as used.
    n           4096 before 2.3, then the longest input
    graphs      6 sizes (1 to 32) * layers * 0.4 MiB, as vLLM's; outside the pool, from 2.0
    communication    as vLLM reads it: 0.22 GiB over PCIe, 1.2 GiB over NVLink
The load is not bounded by the warm-up: batches beyond it failed after it passed (#832, #1831, #2744).
Sources: `flash_causal_lm.py` (warm-up), `globals.py`, `import_utils.py` of 1.4, 2.0, 2.4 and 3.x.
"""

from __future__ import annotations

from capienza.errors import Message, template
from capienza.ledger.phase import Phase
from capienza.predict.inference.checks import check_division, check_length, check_prompt
from capienza.predict.inference.pooled import (
    ASSUMED,
    POOL_OPTION,
    RUNNING,
    cache_format_of,
    cap_notes,
    cell_bytes,
    communication_of,
    offer_of,
    outside_figures,
    queues,
    required_figures,
    typical,
    version_notes,
    weights_figure,
    with_concurrency,
)
from capienza.predict.inference.release import Number, Read, release
from capienza.predict.inference.serving import RankFigures, Served, Serving
from capienza.predict.inference.vllm.memory import (
    CONTEXT_BYTES,
    GRAPH_BYTES_PER_LAYER,
    NVLINK_OUTSIDE_BYTES,
    PCIE_OUTSIDE_BYTES,
    layer_peak_bytes,
)
from capienza.predict.inference.weights import ResidentWeights, resident_weights

READ = Read(oldest=(1, 4, 0), newest=(3, 3, 0))
SHARE_OF_TOTAL_FROM: Number = (3, 0, 0)
BACKENDS_FROM: Number = (2, 3, 0)
GRAPHS_FROM: Number = (2, 0, 0)
TOKEN_CAP = "max_batch_total_tokens"
REQUEST_LIMIT = "max_concurrent_requests"
USUAL_REQUESTS = 128
FREE_SHARE = 0.95
TOTAL_SHARE = 0.90
USUAL_PREFILL_TOKENS = 4096
GRAPH_SIZES = (1, 2, 4, 8, 16, 32)
BLOCK_SIZES = {"paged": 16, "flashdecoding": 256, "flashdecoding-ipex": 64, "flashinfer": 1}
WARM_UP = template("predict.tgi-warm-up", "the widest layer and the logits of {tokens} tokens; stays reserved")
GRAPHS = template("predict.tgi-graphs", "typical of {sizes} captured sizes; outside the pool")


def serve(serving: Serving) -> Served:
    """Figures of every stage. Raises `InputError` for a split or a format that the model cannot take."""
    stated = release(serving.version, "tgi")
    number = stated or READ.newest
    ranks = tuple(_rank(serving, number, weights) for weights in resident_weights(serving))
    notes = version_notes("TGI", serving, stated, READ)
    bounding = ("max_batch_prefill_tokens", *((REQUEST_LIMIT,) if queues(serving, USUAL_REQUESTS) else ()))
    assumed = tuple(name for name in bounding if serving.options.get(name) is None)
    if assumed:
        notes.append(ASSUMED(engine="TGI", names=assumed))
    return Served(ranks=ranks, notes=(*notes, *cap_notes(serving, TOKEN_CAP, ranks)))


def check_options(serving: Serving) -> tuple[Message, ...]:
    """Notes on limits that may refuse the load. Raises `InputError` for one that does, and for another division."""
    check_length(serving, "TGI", ("max_total_tokens", "max_model_len"))
    check_division(serving, {"num_shard": "tensor_parallel"})
    return check_prompt(serving, "TGI", ("max_input_tokens", "max_input_length"))


def warm_up_bytes(serving: Serving, tokens: int) -> int:
    """What the warm-up takes beside its blocks."""
    architecture, ranks = serving.architecture, serving.split.tensor_parallel
    logits = tokens * architecture.vocab_size * 2
    gathered = logits if ranks > 1 else 0
    return layer_peak_bytes(architecture, tokens, ranks) + logits // ranks + gathered + logits


def prefill_tokens(serving: Serving, number: Number) -> int:
    """Tokens of the warm-up."""
    stated = serving.count("max_batch_prefill_tokens")
    if stated is not None:
        return stated
    longest = serving.count("max_input_tokens") or serving.count("max_input_length")
    if longest is not None:
        return max(longest, USUAL_PREFILL_TOKENS if number < BACKENDS_FROM else 0)
    return USUAL_PREFILL_TOKENS


def block_size(serving: Serving, number: Number) -> int:
    """Tokens of a block."""
    backend = str(serving.options.get("attention") or ("paged" if number < BACKENDS_FROM else "flashinfer"))
    return serving.count("block_size") or BLOCK_SIZES.get(backend, 16)


def pool_bytes(serving: Serving, number: Number, free_bytes: int, warm_up: int, blocks_bytes: int) -> int | None:
    """The pool, from what is free before the warm-up; None where the card's total is not known."""
    total = serving.total_bytes
    if total is None:
        return None
    fraction = serving.number("cuda_memory_fraction", 1.0)
    left = free_bytes - warm_up - blocks_bytes
    if number < SHARE_OF_TOTAL_FROM:
        return int(FREE_SHARE * (left - (1 - fraction) * total)) + blocks_bytes
    return int(left - (1 - TOTAL_SHARE * fraction) * total) + blocks_bytes


def _rank(serving: Serving, number: Number, weights: ResidentWeights) -> RankFigures:
    layers = [serving.architecture.layers[index] for index in weights.layers]
    cell = cell_bytes(layers, serving, cache_format_of(serving))
    tokens, block = prefill_tokens(serving, number), block_size(serving, number)
    warm_up = warm_up_bytes(serving, tokens)
    communication = communication_of(serving, PCIE_OUTSIDE_BYTES, NVLINK_OUTSIDE_BYTES)
    sizes = _captured_sizes(serving, number)
    resident = weights.device_bytes
    free = (serving.total_bytes or 0) - CONTEXT_BYTES - communication - resident
    stated = serving.count(POOL_OPTION)
    pool = pool_bytes(serving, number, free, warm_up, tokens * cell) if stated is None else stated
    length = serving.count("max_total_tokens") or serving.count("max_model_len")
    figures = (
        weights_figure(weights, resident, weights.table_bytes),
        typical("activations", warm_up, (Phase.PROFILE_WARMUP, *RUNNING), WARM_UP(tokens=tokens)),
        *outside_figures(serving, communication),
        typical(
            "cuda_graph",
            sizes * len(layers) * GRAPH_BYTES_PER_LAYER,
            (Phase.GRAPH_CAPTURE, *RUNNING),
            GRAPHS(sizes=sizes),
        ),
        *required_figures(serving, layers, cell, 0),
    )
    offer = offer_of(pool, None, cell, block, length, serving.count(TOKEN_CAP))
    offer = with_concurrency(offer)
    limits = serving.count("max_batch_size"), serving.count(REQUEST_LIMIT) or USUAL_REQUESTS
    return RankFigures(stage=weights.stage, figures=figures, offer=offer, queues=queues(serving, *limits))


def _captured_sizes(serving: Serving, number: Number) -> int:
    stated = serving.options.get("cuda_graphs")
    if stated is not None:  # a list, or "1,2,4"; 0 switches them off
        sizes = stated if isinstance(stated, list | tuple) else str(stated).split(",")
        return sum(1 for size in sizes if str(size).strip() not in ("", "0"))
    return 0 if number < GRAPHS_FROM else len(GRAPH_SIZES)
