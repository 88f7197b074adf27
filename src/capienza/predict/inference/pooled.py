"""What the engines with one pool of equal tokens share: bytes of a token on a rank, versions, figures, offers.

Legend: a cell is what one token takes in all the layers of a rank.
    K and V layer    max(1, K / t) heads * (key_head_dim + value_head_dim) in the cache's format
    latent layer     latent_width in the cache's format, whole on every tensor-parallel rank
    state            one sequence's recurrent state on a rank: parts of the model's format, the others in fp32
Layers with a window are held in full.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from capienza.architecture.model import Layer
from capienza.errors import Message, template
from capienza.formats.blocks import tensor_bytes
from capienza.ledger.phase import Phase
from capienza.predict.inference.release import Number, Read
from capienza.predict.inference.serving import NO_VERSION, Figure, Offer, RankFigures, Serving
from capienza.predict.inference.vllm.memory import CONTEXT_BYTES, NVLINK_NAMES
from capienza.predict.inference.weights import ResidentWeights
from capienza.predict.placement import kv_heads_on_rank
from capienza.units import Range

POOL_OPTION = "kv_cache_memory_bytes"
NEAREST_VERSION = template(
    "predict.engine-version",
    "{engine} {found} is taken by the rules of {rules}",
    "state engine.version on the card as the engine prints it",
)
ASSUMED = template(
    "predict.engine-defaults",
    "the defaults of {engine} are taken for: {names}",
    "state them under engine.options on the card if the run sets them",
)
POOL_CAP = template(
    "predict.pool-cap",
    "{option} is {found}: the cache holds no more, whatever the card leaves for it",
    "raise it to what the load takes, or leave it out",
)
WEIGHTS = template(
    "predict.engine-weights",
    "{tensors} B of tensors + {tables} B of rotary tables + {more} B of other parts, adapter slots and ends of blocks",
)
REQUIRED = template("predict.engine-kv", "{sequences} x {tokens} tokens x {cell} B + {sequences} x {state} B of state")
COMMUNICATION = template("predict.engine-communication", "typical of {ranks} GPUs of a copy")
CONTEXT = template("predict.engine-context", "typical of a CUDA context; taken before the engine's share is counted")
RUNNING = (Phase.PREFILL, Phase.DECODE)
LOADED = (Phase.LOAD, Phase.PROFILE_WARMUP, Phase.GRAPH_CAPTURE, Phase.KV_CACHE_ALLOCATION, *RUNNING)


def version_notes(engine: str, serving: Serving, stated: Number | None, read: Read) -> list[Message]:
    """A word on rules that are not those of a stated release; `stated` is None where the card's text names none."""
    rules = read.newest if stated is None else read.nearest(stated)
    if rules is None:
        return []
    text = ".".join(str(part) for part in rules)
    if not serving.version:
        return [NO_VERSION(engine=engine, rules=text)]
    return [NEAREST_VERSION(engine=engine, found=serving.version, rules=text)]


def cell_bytes(layers: Iterable[Layer], serving: Serving, cache_format: str) -> int:
    """Bytes of one token on one rank that holds these layers."""
    total = 0
    for layer in layers:
        attention = layer.attention
        if attention is None or not attention.cache_width:
            continue
        if attention.kind == "latent":
            total += tensor_bytes((attention.latent_width,), cache_format)
            continue
        heads = kv_heads_on_rank(attention, serving.split.tensor_parallel)
        total += tensor_bytes((heads * (attention.key_head_dim + attention.value_head_dim),), cache_format)
    return total


def state_bytes(layers: Iterable[Layer], serving: Serving) -> int:
    """Bytes of one sequence's state on one rank that holds these layers."""
    return sum(
        -(-tensor_bytes(part.shape, "fp32" if part.dtype else serving.dtype) // serving.split.tensor_parallel)
        for layer in layers
        if layer.state is not None
        for part in layer.state.parts
    )


def cache_format_of(serving: Serving) -> str:
    """The format of K and V."""
    asked = str(serving.options.get("kv_cache_dtype") or "auto")
    return serving.dtype if asked == "auto" else asked


def typical(name: str, size_bytes: int, phases: tuple[Phase, ...], formula: Message) -> Figure:
    """A figure of which nothing is proved."""
    return Figure(name=name, amount=Range(0, size_bytes, size_bytes), phases=phases, formula=formula)


def weights_figure(weights: ResidentWeights, total_bytes: int, table_bytes: int) -> Figure:
    """Resident weights; the tensors alone are proved."""
    more = total_bytes - weights.tensor_bytes - table_bytes
    formula = WEIGHTS(tensors=weights.tensor_bytes, tables=table_bytes, more=more)
    amount = Range(weights.tensor_bytes, total_bytes, total_bytes)
    return Figure(name="weights", amount=amount, phases=LOADED, formula=formula)


def outside_figures(serving: Serving, communication_bytes: int) -> tuple[Figure, ...]:
    """What PyTorch does not own: communication and the context."""
    return (
        typical("non_torch", communication_bytes, LOADED, COMMUNICATION(ranks=serving.split.ranks)),
        typical("context", CONTEXT_BYTES, LOADED, CONTEXT()),
    )


def communication_of(serving: Serving, pcie_bytes: int, nvlink_bytes: int) -> int:
    """What starting the group of ranks takes: nothing on one GPU."""
    if serving.split.ranks == 1:
        return 0
    return nvlink_bytes if any(name in serving.gpu.lower() for name in NVLINK_NAMES) else pcie_bytes


def required_figures(serving: Serving, layers: Iterable[Layer], cell: int, state: int) -> tuple[Figure, ...]:
    """KV and state of the required load, where both numbers of it are known.

    Proved is what windowed layers need to keep: an engine that holds them in full takes more, and another does not.
    """
    tokens, sequences = serving.required_tokens, serving.concurrency
    if tokens is None or sequences is None or not cell + state:
        return ()
    formula = REQUIRED(sequences=sequences, tokens=tokens, cell=cell, state=state)
    expected = sequences * (tokens * cell + state)
    floor = sequences * (kept_bytes(layers, serving, tokens) + state)
    amount = Range(min(floor, expected), expected, expected)
    return (Figure(name="kv_cache", amount=amount, phases=RUNNING, formula=formula, kind="blocks"),)


def kept_bytes(layers: Iterable[Layer], serving: Serving, tokens: int) -> int:
    """What one sequence of `tokens` tokens needs on a rank when a windowed layer keeps its window alone."""
    total = 0
    for layer in layers:
        window = layer.attention.window if layer.attention is not None else None
        kept = tokens if window is None else min(tokens, window)
        total += kept * cell_bytes([layer], serving, cache_format_of(serving))
    return total


def offer_of(
    pool_bytes: int | None,
    budget_bytes: int | None,
    cell: int,
    block: int,
    length: int | None,
    whole: int | None = None,
) -> Offer:
    """Blocks of `block` tokens that a pool holds; `whole` bounds the tokens, and so the pool, where an option does.

    The engines that only shorten what they accept, instead of refusing to start, count no sequences.
    """
    if pool_bytes is None or not cell:
        return Offer(budget_bytes=budget_bytes, pool_bytes=pool_bytes, block_size=block, max_model_len=length)
    blocks = max(0, pool_bytes) // (cell * block)
    if whole is not None and whole // block < blocks:
        blocks = whole // block
        pool_bytes = blocks * block * cell
    return Offer(
        budget_bytes=budget_bytes,
        pool_bytes=pool_bytes,
        block_size=block,
        gpu_blocks=blocks,
        kv_tokens=blocks * block,
        max_model_len=length,
    )


def cap_notes(serving: Serving, option: str, ranks: Iterable[RankFigures]) -> list[Message]:
    """A word on an option that bounds the pool, where the pool does not hold the load."""
    cap = serving.count(option)
    if cap is None or all(rank.is_held is not False for rank in ranks):
        return []
    return [POOL_CAP(option=option, found=cap)]


def queues(serving: Serving, *limits: int | None) -> bool:
    """Do the settings run fewer sequences at once than are required? A limit of None is none."""
    return any(limit is not None and limit < (serving.concurrency or 0) for limit in limits)


def with_concurrency(offer: Offer) -> Offer:
    """The offer of an engine that refuses a length that its pool cannot hold."""
    if offer.kv_tokens is None or not offer.max_model_len:
        return offer
    return msgspec.structs.replace(offer, max_concurrency=offer.kv_tokens / offer.max_model_len)
