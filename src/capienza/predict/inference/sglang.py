"""SGLang: a static share of the free memory for weights and pool, the rest for work and graphs.

Legend: F free at start (CUDA total - context - communication), f `mem_fraction_static`, M the card's total in MiB,
c `chunked_prefill_size`, g `cuda_graph_max_bs`, t and p ranks and stages.
    pool      f * F - weights                      (free after loading - (1 - f) * F); no profile run
    tokens    floor(pool / cell), in whole pages of `page_size` (1)
    hybrid    states first: pool * r / (1 + r), r = `mamba_full_memory_ratio` (0.9), or the stated number of requests;
              their convolution in the model's format, the recurrent part in fp32
    weights   whole segments of PyTorch, as the device counts them; rotary tables in fp32 on CUDA cards
Default f in 0.5.5 (taken from 0.4.7 on): 1 - reserve / M, rounded to 0.001; reserve in MiB
    512 + 1.5 max(c, 2048) + 2 g + 1024 t p / 8, with attention ranks + 3 g d (+ 1.5 g d when g > 300)
    at least 10240 on cards over 60 GiB; + 6144 for a drafting model of its own, + 2048 for EAGLE and the like
in 0.4.3: 0.88, 0.87, 0.85, 0.81, 0.79 from 1, 2, 4, 8, 16 GPUs.
    card, MiB     < 20480      < 35840           < 61440            < 163840           larger
    c, g          2048, 8      2048, 24 (80)     4096, 32 (160)     8192, 256 (512)    16384, 512    () from t = 4
    before 0.4.7  c 2048 below 25000 MiB, else 8192; g 8 (80 from t = 4) below, else 160
Graphs, activations and workspaces live in the reserve; what AITER takes (51.75 GiB in one log) is not predicted.
    communication    0.13 GiB over PCIe (one log, 4 L4), 2.0 GiB over NVLink (one log, 8 H200), none on one GPU
    graphs           sizes * layers * 0.64 MiB on one GPU (logs of up to 8 sequences: 0.07 to 0.11 GiB), 1.1 MiB on
                     several (one log: QwQ-32B, 13 sizes, 0.93 GiB)
Sources: `server_args.py`, `model_runner.py`, `rotary_embedding.py` of 0.4.3 and 0.5.5; the pool rule meets four logged
pools to 0.1 %, the fp32 table explains 15.02 GiB of Llama 3.1 8B.
"""

from __future__ import annotations

import msgspec

from capienza.architecture.model import Layer
from capienza.errors import Message, template
from capienza.ledger.phase import Phase
from capienza.predict.inference.checks import check_division, check_length
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
    state_bytes,
    typical,
    version_notes,
    weights_figure,
)
from capienza.predict.inference.release import Number, Read, release
from capienza.predict.inference.serving import Offer, RankFigures, Served, Serving
from capienza.predict.inference.vllm.memory import CONTEXT_BYTES, layer_peak_bytes
from capienza.predict.inference.weights import ResidentWeights, resident_weights
from capienza.units import GIB, MIB

READ = Read(oldest=(0, 4, 3), newest=(0, 5, 5))
RESERVE_FROM: Number = (0, 4, 7)
OLD_FRACTIONS = ((16, 0.79), (8, 0.81), (4, 0.85), (2, 0.87), (1, 0.88))
CLASSES = ((20480, 2048, 8, 8), (35840, 2048, 24, 80), (61440, 4096, 32, 160), (163840, 8192, 256, 512))
LARGEST_CLASS = (16384, 512)
PCIE_BYTES = int(0.13 * GIB)
NVLINK_BYTES = int(2.0 * GIB)
ONE_GPU_GRAPH_BYTES = int(0.64 * MIB)
SEVERAL_GPUS_GRAPH_BYTES = int(1.1 * MIB)
STATE_RATIO = 0.9
TOKEN_CAP = "max_total_tokens"
CHUNK = template("predict.sglang-activations", "the widest layer with a chunk of {tokens} tokens; in the reserve")
GRAPHS = template("predict.sglang-graphs", "typical of {sizes} captured sizes; in the reserve")


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All resolved; `fraction` is None where neither it nor the card's total is stated."""

    number: Number
    fraction: float | None
    chunk: int
    graph_batch: int
    page: int
    assumed: tuple[str, ...]


def serve(serving: Serving) -> Served:
    """Figures of every stage. Raises `InputError` for a split or a format that the model cannot take."""
    stated = release(serving.version, "sglang")
    number = stated or READ.newest
    chosen = settings(serving, number)
    ranks = tuple(_rank(serving, chosen, weights) for weights in resident_weights(serving))
    notes = version_notes("SGLang", serving, stated, READ)
    if chosen.assumed:
        notes.append(ASSUMED(engine="SGLang", names=chosen.assumed))
    return Served(ranks=ranks, notes=(*notes, *cap_notes(serving, TOKEN_CAP, ranks)))


def check_options(serving: Serving) -> tuple[Message, ...]:
    """No notes. Raises `InputError` for a length below the load, and for another division."""
    check_length(serving, "SGLang", ("context_length", "max_model_len"))
    check_division(serving, {"tp": "tensor_parallel"})
    return ()


def settings(serving: Serving, number: Number) -> Settings:
    """Flags first, then the defaults of the version for this card."""
    chunk, batch = default_sizes(serving, number)
    chunk = serving.count("chunked_prefill_size") or chunk
    batch = serving.count("cuda_graph_max_bs") or batch
    names = ("mem_fraction_static", "chunked_prefill_size", "cuda_graph_max_bs")
    stated = serving.options.get("mem_fraction_static")
    return Settings(
        number=number,
        fraction=serving.number("mem_fraction_static", 0.0)
        if stated
        else default_fraction(serving, number, chunk, batch),
        chunk=chunk,
        graph_batch=0 if serving.flag("disable_cuda_graph") else batch,
        page=serving.count("page_size") or 1,
        assumed=tuple(name for name in names if serving.options.get(name) is None),
    )


def default_sizes(serving: Serving, number: Number) -> tuple[int, int]:
    """Tokens of a prefill chunk and the largest captured batch for a card of this size."""
    mebibytes, is_wide = _mebibytes(serving), serving.split.tensor_parallel >= 4
    if number < RESERVE_FROM:
        is_small = 0 < mebibytes < 25000
        return (2048 if is_small else 8192), (80 if is_wide else 8) if is_small else 160
    for below, chunk, narrow, wide in CLASSES:
        if mebibytes < below:
            return chunk, wide if is_wide else narrow
    return LARGEST_CLASS


def default_fraction(serving: Serving, number: Number, chunk: int, batch: int) -> float | None:
    """The share that SGLang takes for weights and pool; None where the card's total decides and is not known."""
    split = serving.split
    if number < RESERVE_FROM:
        return next(fraction for ranks, fraction in OLD_FRACTIONS if split.ranks >= ranks)
    mebibytes = _mebibytes(serving)
    if not mebibytes:
        return None
    reserve = 512 + 1.5 * max(chunk, 2048) + 2 * batch + split.ranks * 1024 / 8
    if serving.flag("enable_dp_attention"):
        reserve += batch * (serving.count("dp_size") or 1) * (4.5 if batch > 300 else 3)
    if mebibytes > 60 * 1024:
        reserve = max(reserve, 10 * 1024)
    drafting = str(serving.options.get("speculative_algorithm") or "").upper()
    reserve += {"": 0, "NGRAM": 0, "STANDALONE": 6144}.get(drafting, 2048)
    return round((mebibytes - reserve) / mebibytes, 3)


def captured_sizes(chosen: Settings) -> int:
    """How many batch sizes are captured."""
    largest = chosen.graph_batch
    if chosen.number < RESERVE_FROM:
        sizes = [1, 2, 4, *range(8, 161, 8)]
    else:
        sizes = [1, 2, 4, 8, 12, *range(16, 257, 8), *range(272, 512, 16), *range(512, largest + 1, 32)]
    return sum(1 for size in sizes if size <= largest)


def _rank(serving: Serving, chosen: Settings, weights: ResidentWeights) -> RankFigures:
    layers = [serving.architecture.layers[index] for index in weights.layers]
    tables = weights.table_bytes * (1 if "amd" in serving.gpu.lower() or "mi3" in serving.gpu.lower() else 2)
    resident = weights.device_bytes - weights.table_bytes + tables
    communication = communication_of(serving, PCIE_BYTES, NVLINK_BYTES)
    sizes = captured_sizes(chosen)
    activations = layer_peak_bytes(serving.architecture, chosen.chunk, serving.split.tensor_parallel)
    graphs = sizes * len(layers) * (ONE_GPU_GRAPH_BYTES if serving.split.ranks == 1 else SEVERAL_GPUS_GRAPH_BYTES)
    cell = cell_bytes(layers, serving, cache_format_of(serving))
    state = state_bytes(layers, serving)
    figures = (
        weights_figure(weights, resident, tables),
        *outside_figures(serving, communication),
        typical("activations", activations, (Phase.PREFILL,), CHUNK(tokens=chosen.chunk)),
        typical("cuda_graph", graphs, (Phase.GRAPH_CAPTURE, *RUNNING), GRAPHS(sizes=sizes)),
        *required_figures(serving, layers, cell, state),
    )
    free = None if serving.total_bytes is None else serving.total_bytes - CONTEXT_BYTES - communication
    return RankFigures(
        stage=weights.stage,
        figures=figures,
        offer=_offer(serving, chosen, layers, free, resident, cell),
        queues=queues(serving, serving.count("max_running_requests")),
    )


def _offer(
    serving: Serving, chosen: Settings, layers: list[Layer], free: int | None, resident: int, cell: int
) -> Offer:
    length = serving.count("context_length") or serving.count("max_model_len")
    length = length or serving.architecture.max_position_embeddings
    stated = serving.count(POOL_OPTION)
    if stated is not None:
        return offer_of(stated, None, cell, chosen.page, length, serving.count(TOKEN_CAP))
    if free is None or chosen.fraction is None:
        return offer_of(None, None, cell, chosen.page, length)
    budget = int(chosen.fraction * free)
    pool = budget - resident
    return offer_of(
        pool - _state_pool(serving, layers, pool), budget, cell, chosen.page, length, serving.count(TOKEN_CAP)
    )


def _state_pool(serving: Serving, layers: list[Layer], pool_bytes: int) -> int:
    """What recurrent states take of the pool before tokens do."""
    one = state_bytes(layers, serving)
    if not one:
        return 0
    stated = serving.count("max_mamba_cache_size")
    if stated is None and serving.flag("disable_radix_cache"):
        stated = serving.count("max_running_requests")
    ratio = serving.number("mamba_full_memory_ratio", STATE_RATIO)
    slots: int = int(max(0, pool_bytes) * ratio / (1 + ratio)) // one if stated is None else stated
    return slots * one


def _mebibytes(serving: Serving) -> int:
    return int((serving.total_bytes or 0) // MIB)
