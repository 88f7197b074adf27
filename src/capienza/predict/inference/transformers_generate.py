"""`generate` of transformers: no pool, so what the required load needs is all there is.

Legend: S sequences, T tokens of each at the end, P of them prompt, V vocabulary, H hidden size; bytes of one rank.
    prefill    weights + cache + layer of S * P tokens + logits
    decode     weights + cache + copies of it + attention copies + logits of S rows
    logits     rows * V * (2 + 4): the model's format and the fp32 upcast; rows = S from 4.45 (the last position of
               each sequence), S * P in the prefill before
    attention copies    keys and values of one layer, spread to all query heads; none with flash attention
    dequantized         the largest 4-bit matrix of bitsandbytes in the model's format, while a prompt passes
    block ends          half a MiB for each tensor of the cache over 1 MiB: PyTorch's allocator does not split a block
                        when what would be left is 1 MiB or less
    context             outside PyTorch; typical, as for vLLM
How often the cache is held is in `transformers_cache`. What PyTorch keeps reserved and unused beside these is given
back before it fails, so it is no part of the need.
Sources: `generation/utils.py` and modelling files of transformers 4.35, 4.57 and 5.24; `CUDACachingAllocator.cpp`.
"""

from __future__ import annotations

import re

import msgspec

from capienza.errors import Message, template
from capienza.formats.blocks import tensor_bytes
from capienza.ledger.phase import Phase
from capienza.predict.inference.pooled import CONTEXT
from capienza.predict.inference.serving import NO_VERSION, Figure, Offer, RankFigures, Served, Serving
from capienza.predict.inference.transformers_cache import CacheBytes, cache_bytes
from capienza.predict.inference.vllm.memory import CONTEXT_BYTES, layer_peak_bytes
from capienza.predict.inference.weights import ResidentWeights, resident_weights
from capienza.units import MIB, Range

NEWEST_READ = (5, 24)
LAST_LOGITS_FROM = (4, 45)
LOGIT_BYTES = 2 + 4
UNSPLIT_BYTES = MIB // 2
NEAREST_VERSION = template(
    "predict.transformers-version",
    "transformers {found} is taken by the rules of {rules}",
    "state engine.version on the card as `pip show transformers` prints it",
)
ASSUMED_LOAD = template(
    "predict.transformers-load",
    "not stated, so one sequence of all the tokens that the model takes: {names}",
    "state the load on the card",
)
ALL_PROMPT = template(
    "predict.transformers-all-prompt",
    "how the required tokens divide into prompt and output is not stated: all are taken as prompt",
    "write tokens.required as {{prompt: ..., output: ...}}",
)
PROMPT = "prompt_tokens"
WEIGHTS = template("predict.transformers-weights", "{tensors} B of tensors + {more} B of block ends and other parts")
CACHE = template("predict.transformers-cache", "{kind} cache of {sequences} x {tokens} tokens")
COPIES = template("predict.transformers-copies", "what the {kind} cache holds twice while a token is appended")
ATTENTION = template("predict.transformers-attention", "keys and values of one layer for {heads} heads, {kind}")
LAYER = template("predict.transformers-layer", "the widest layer with {tokens} tokens")
LOGITS = template("predict.transformers-logits", "{rows} rows x {vocabulary} x 6 B")
DEQUANTIZED = template("predict.transformers-dequantized", "the largest 4-bit matrix in the model's format")
ENDS = template("predict.transformers-block-ends", "{tensors} tensors x half a MiB that a block is not split for")
STATE = template("predict.transformers-state", "recurrent state of {sequences} sequences")
RUNNING = (Phase.PREFILL, Phase.DECODE)
LOADED = (Phase.LOAD, *RUNNING)
_VERSION = re.compile(r"(?:^|transformers[\s=v]*)(\d+)\.(\d+)", re.ASCII | re.IGNORECASE)


class Load(msgspec.Struct, frozen=True):
    """What is generated, all resolved."""

    sequences: int
    tokens: int
    prompt: int
    assumed: tuple[str, ...]


def serve(serving: Serving) -> Served:
    """Figures of every stage. Raises `InputError` for a split or a format that the model cannot take."""
    version, is_stated = read_version(serving.version)
    load = asked_load(serving)
    whole = msgspec.structs.replace(serving.split, vocab_multiple=1)
    plain = msgspec.structs.replace(serving, split=whole)
    ranks = tuple(_rank(plain, version, load, weights) for weights in resident_weights(plain, joins=False))
    notes: list[Message] = []
    if not is_stated:
        rules = ".".join(map(str, version))
        notes.append(
            NEAREST_VERSION(found=serving.version, rules=rules)
            if serving.version
            else NO_VERSION(engine="transformers", rules=rules)
        )
    unstated = tuple(name for name in load.assumed if name != PROMPT)
    if unstated:
        notes.append(ASSUMED_LOAD(names=unstated))
    if PROMPT in load.assumed:
        notes.append(ALL_PROMPT())
    return Served(ranks=ranks, notes=tuple(notes))


def read_version(text: str | None) -> tuple[tuple[int, int], bool]:
    """The release that a text names, and whether it names one; the newest that was read otherwise."""
    match = _VERSION.search(text or "")
    return ((int(match[1]), int(match[2])), True) if match else (NEWEST_READ, False)


def asked_load(serving: Serving) -> Load:
    """The required load. One sequence where nothing is said; of an unstated prompt, all tokens."""
    tokens = serving.required_tokens
    sequences = serving.concurrency
    longest = serving.architecture.max_position_embeddings or 0
    held = longest if tokens is None else tokens
    prompt = serving.count("prompt_tokens") if serving.prompt_tokens is None else serving.prompt_tokens
    stated = {"tokens.required": tokens, "concurrency": sequences, PROMPT: prompt}
    assumed = [name for name, value in stated.items() if value is None]
    return Load(sequences or 1, held, min(held, held if prompt is None else prompt), tuple(assumed))


def _rank(serving: Serving, version: tuple[int, int], load: Load, weights: ResidentWeights) -> RankFigures:
    part = msgspec.structs.replace(
        serving.architecture, layers=tuple(serving.architecture.layers[index] for index in weights.layers)
    )
    staged = msgspec.structs.replace(serving, architecture=part)
    cache = cache_bytes(staged, version, load.tokens, load.sequences)
    tensors = weights.tensor_bytes
    known = tensors + weights.unlisted_bytes + weights.adapter_bytes + weights.block_bytes
    figures = [
        Figure(
            name="weights",
            amount=Range(tensors, known, known),
            phases=LOADED,
            formula=WEIGHTS(tensors=tensors, more=known - tensors),
        ),
        Figure(
            name="kv_cache",
            amount=Range.exact(cache.kept_bytes),
            phases=RUNNING,
            formula=CACHE(kind=cache.kind, sequences=load.sequences, tokens=load.tokens),
        ),
        Figure(
            name="state",
            amount=Range.exact(cache.state_bytes),
            phases=RUNNING,
            formula=STATE(sequences=load.sequences),
        ),
        _typical("kv_copies", cache.copies_bytes, (Phase.DECODE,), COPIES(kind=cache.kind)),
        *_work(staged, version, load, cache),
        _typical("context", CONTEXT_BYTES, LOADED, CONTEXT()),
    ]
    shown = tuple(figure for figure in figures if figure.amount.expected)
    return RankFigures(
        stage=weights.stage, figures=shown, offer=Offer(max_model_len=load.tokens or None, has_pool=False)
    )


def _work(serving: Serving, version: tuple[int, int], load: Load, cache: CacheBytes) -> tuple[Figure, ...]:
    """What is alive beside weights and cache for a moment."""
    architecture, ranks = serving.architecture, serving.split.tensor_parallel
    rows = load.sequences * (1 if version >= LAST_LOGITS_FROM else max(1, load.prompt))
    tokens = load.sequences * load.prompt
    heads, copies = _spread_bytes(serving, cache)
    vocabulary = architecture.vocab_size
    first, later = rows * vocabulary * LOGIT_BYTES, load.sequences * vocabulary * LOGIT_BYTES
    held = cache.tensors * (2 if cache.kind == "tuple" else 1)
    large = cache.tensors and cache.kept_bytes // cache.tensors > MIB
    return (
        _typical("activations", layer_peak_bytes(architecture, tokens, ranks), (Phase.PREFILL,), LAYER(tokens=tokens)),
        _typical("dequantized", dequantized_bytes(serving), (Phase.PREFILL,), DEQUANTIZED()),
        _typical("prefill_logits", first, (Phase.PREFILL,), LOGITS(rows=rows, vocabulary=vocabulary)),
        _typical("logits", later, (Phase.DECODE,), LOGITS(rows=load.sequences, vocabulary=vocabulary)),
        _typical("attention_copies", copies, (Phase.DECODE,), ATTENTION(heads=heads, kind=cache.kind)),
        _typical("block_ends", held * UNSPLIT_BYTES if large else 0, RUNNING, ENDS(tensors=held)),
    )


def dequantized_bytes(serving: Serving) -> int:
    """The largest matrix that bitsandbytes keeps in 4 bits, in the model's format: prompts are multiplied by it."""
    scheme = serving.scheme
    if scheme is None or scheme.method != "bitsandbytes" or scheme.name.startswith("int8"):
        return 0
    matrices = (
        parameter.shape[-2] * parameter.shape[-1]
        for parameter in serving.architecture.parameters
        if parameter.role in scheme.roles and len(parameter.shape) >= 2
    )
    return tensor_bytes((-(-max(matrices, default=0) // serving.split.tensor_parallel),), serving.dtype)


def _spread_bytes(serving: Serving, cache: CacheBytes) -> tuple[int, int]:
    """Query heads of a rank, and the bytes of one layer's keys and values spread to them."""
    attention = next((layer.attention for layer in serving.architecture.layers if layer.attention), None)
    if attention is None or "flash" in str(serving.options.get("attn_implementation") or ""):
        return 0, 0
    heads, kv_heads = attention.num_attention_heads, max(1, attention.num_key_value_heads)
    return heads, cache.layer_bytes * (heads // kv_heads if attention.kind != "latent" else 1)


def _typical(name: str, size_bytes: int, phases: tuple[Phase, ...], formula: Message) -> Figure:
    return Figure(name=name, amount=Range(0, size_bytes, size_bytes), phases=phases, formula=formula)
