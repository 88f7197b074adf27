"""TensorRT-LLM: weights and the work of the largest shapes first, then a share of what is left free for the pool.

Legend: T CUDA total, k `kv_cache_free_gpu_mem_fraction` (`free_gpu_memory_fraction` in the PyTorch backend; 0.9),
n `max_num_tokens` (8192; one whole batch of inputs before 0.11), b `max_batch_size`, V vocabulary, H hidden size.
    pool          k * (T - context - communication - weights - work)
    work          the widest layer of n tokens + b * V * 4 of logits: fixed at build by the largest shapes
    blocks        of 64 tokens in engines, 32 in the PyTorch backend (1.0 and later)
    cell          kv_heads_on_rank * (key + value head_dim) * layers, or the latent width, in the cache's format
A pool bounded by `max_tokens` takes the smaller of both. Engines keep no rotary table of their own.
    b             1 before 0.11, 256 then, 2048 from 0.12
    communication    as vLLM reads it: 0.22 GiB over PCIe, 1.2 GiB over NVLink
Sources: the page on memory of TensorRT-LLM's documentation, `llm_args.py`, the builder's defaults by its release notes.
Checked: 631 blocks = 0.901 * 21.89 GiB; 524,288 B a token for Llama 2 7B; 35,136 B for 61 latent layers in fp8.
"""

from __future__ import annotations

from capienza.errors import Message, template
from capienza.ledger.phase import Phase
from capienza.predict.inference.checks import check_length, check_prompt
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
)
from capienza.predict.inference.release import Number, Read, release
from capienza.predict.inference.serving import RankFigures, Served, Serving
from capienza.predict.inference.vllm.memory import (
    CONTEXT_BYTES,
    NVLINK_OUTSIDE_BYTES,
    PCIE_OUTSIDE_BYTES,
    layer_peak_bytes,
)
from capienza.predict.inference.weights import ResidentWeights, resident_weights

READ = Read(oldest=(0, 5, 0), newest=(1, 2, 0))
PYTORCH_FROM: Number = (1, 0, 0)
PACKED_FROM: Number = (0, 11, 0)
LARGE_BATCH_FROM: Number = (0, 12, 0)
USUAL_FRACTION = 0.9
USUAL_TOKENS = 8192
TOKEN_CAP = "max_tokens"
FRACTIONS = ("kv_cache_free_gpu_mem_fraction", "free_gpu_memory_fraction", "kv_cache_free_gpu_memory_fraction")
WORK = template("predict.tensorrt-work", "the widest layer of {tokens} tokens and logits of {sequences} sequences")


def serve(serving: Serving) -> Served:
    """Figures of every stage. Raises `InputError` for a split or a format that the model cannot take."""
    stated = release(serving.version, "tensorrt-llm")
    number = stated or READ.newest
    ranks = tuple(_rank(serving, number, weights) for weights in resident_weights(serving))
    notes = version_notes("TensorRT-LLM", serving, stated, READ)
    assumed = [name for name in ("max_num_tokens", "max_batch_size") if serving.count(name) is None]
    if free_fraction(serving) is None:
        assumed.append(FRACTIONS[0])
    if assumed:
        notes.append(ASSUMED(engine="TensorRT-LLM", names=tuple(assumed)))
    return Served(ranks=ranks, notes=(*notes, *cap_notes(serving, TOKEN_CAP, ranks)))


def check_options(serving: Serving) -> tuple[Message, ...]:
    """Notes on limits that may refuse the load. Raises `InputError` for one that does."""
    check_length(serving, "TensorRT-LLM", ("max_seq_len", "max_model_len"))
    return check_prompt(serving, "TensorRT-LLM", ("max_input_len",))


def free_fraction(serving: Serving) -> float | None:
    """The stated share of free memory."""
    stated = (serving.options.get(name) for name in FRACTIONS)
    return next((float(share) for share in stated if isinstance(share, int | float)), None)


def shapes(serving: Serving, number: Number) -> tuple[int, int]:
    """The most tokens and the most sequences that are worked on at once."""
    batch = serving.count("max_batch_size") or serving.count("max_num_seqs")
    if batch is None:
        batch = 2048 if number >= LARGE_BATCH_FROM else 256 if number >= PACKED_FROM else 1
    tokens = serving.count("max_num_tokens") or serving.count("max_num_batched_tokens")
    if tokens is None and number < PACKED_FROM and (longest := _longest_input(serving)) is not None:
        tokens = batch * longest
    return tokens or USUAL_TOKENS, batch


def _longest_input(serving: Serving) -> int | None:
    """The longest input that an engine was built for: as stated, or the whole length without the output."""
    whole, output = serving.count("max_model_len"), serving.count("max_output_len")
    return serving.count("max_input_len") or (whole - output if whole and output else None)


def block_size(serving: Serving, number: Number) -> int:
    """Tokens of a block."""
    stated = serving.count("tokens_per_block") or serving.count("block_size")
    if stated is not None:
        return stated
    return 64 if number < PYTORCH_FROM or serving.options.get("backend") == "tensorrt" else 32


def _rank(serving: Serving, number: Number, weights: ResidentWeights) -> RankFigures:
    layers = [serving.architecture.layers[index] for index in weights.layers]
    cell = cell_bytes(layers, serving, cache_format_of(serving))
    tokens, batch = shapes(serving, number)
    work = layer_peak_bytes(serving.architecture, tokens, serving.split.tensor_parallel)
    work += batch * serving.architecture.vocab_size * 4
    communication = communication_of(serving, PCIE_OUTSIDE_BYTES, NVLINK_OUTSIDE_BYTES)
    resident = weights.total_bytes - weights.table_bytes - weights.block_bytes
    free = None
    if serving.total_bytes is not None:
        free = serving.total_bytes - CONTEXT_BYTES - communication - resident - work
    share = free_fraction(serving)
    stated = serving.count(POOL_OPTION)
    pool = None if free is None else int((USUAL_FRACTION if share is None else share) * free)
    length = serving.count("max_seq_len") or serving.count("max_model_len")
    figures = (
        weights_figure(weights, resident, 0),
        typical("activations", work, (Phase.PROFILE_WARMUP, *RUNNING), WORK(tokens=tokens, sequences=batch)),
        *outside_figures(serving, communication),
        *required_figures(serving, layers, cell, 0),
    )
    pool = stated if stated is not None else pool
    offer = offer_of(pool, None, cell, block_size(serving, number), length, serving.count(TOKEN_CAP))
    return RankFigures(stage=weights.stage, figures=figures, offer=offer, queues=queues(serving, batch))
