"""What an engine takes of the card: its share, and the sizes that it prepares for.

A size goes down to what the load requires and no further: the longest sequence to the required length, the sequences
at once to the required concurrency, the tokens of a prefill to the prompt where the engine does not cut prompts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from capienza.card.model import TokenCount
from capienza.card.options import as_flag
from capienza.decide.alternatives.change import Proposals, Value, change, engine_path
from capienza.decide.alternatives.levers.texts import NO_ENGINE, NOT_SERVED, OTHER_ENGINE
from capienza.decide.alternatives.scene import Scene

Sizes = Callable[[Scene], Iterable[Value]]
SHARES = (0.8, 0.85, 0.9, 0.95, 0.98)
UNPREDICTED = ("activations", "engine_runtime")
"""Entries that stand for the engine where its memory is not predicted."""
PREFILLS = (8192, 4096, 2048, 1024, 512)


def shares(_scene: Scene) -> Iterable[Value]:
    """Shares of the card."""
    return SHARES


def required_length(scene: Scene) -> Iterable[Value]:
    """Prompt and output of the required load."""
    required = scene.card.tokens.required
    return (required.total,) if required else ()


def required_sequences(scene: Scene) -> Iterable[Value]:
    """The sequences that have to run at once."""
    return (scene.card.concurrency,) if scene.card.concurrency else ()


def prefills(scene: Scene) -> Iterator[Value]:
    """Tokens of one prefill where the engine cuts prompts, at least one for each sequence that may run."""
    sequences = scene.option("max_num_seqs") or scene.card.concurrency
    least = sequences if isinstance(sequences, int) else 0
    return (size for size in PREFILLS if size >= least)


def whole_prompts(scene: Scene) -> Iterator[Value]:
    """Tokens of one prefill where the engine takes a prompt whole; none where its length is not stated."""
    required = scene.card.tokens.required
    least = _prompt(required) if required else None
    if least is None or required is None:
        return iter(())
    return (size for size in dict.fromkeys((*PREFILLS[:3], least)) if size >= least)


def on(_scene: Scene) -> Iterable[Value]:
    """A switch, on."""
    return (True,)


def captured(_scene: Scene) -> Iterator[Value]:
    """Batch sizes up to which graphs are captured; larger batches run without."""
    return (size for size in (32, 8, 1))


def _prompt(required: TokenCount) -> int:
    return required.prompt or required.total


def _vllm_prefills(scene: Scene) -> Iterable[Value]:
    """V1 cuts prompts unless told not to; V0 does where it is told to, and else takes a sequence whole."""
    from capienza.predict.inference.vllm.version import read_version

    engine = scene.card.engine
    version = read_version(engine.version if engine else None, use_v1=as_flag(scene.option("use_v1")))
    told = as_flag(scene.option("enable_chunked_prefill"))
    if told or (version.is_v1 and told is None):
        return prefills(scene)
    length = scene.option("max_model_len")
    return (size for size in PREFILLS if isinstance(length, int) and size >= length)


OPTIONS: dict[str, tuple[tuple[str, Sizes], ...]] = {
    "vllm": (
        ("gpu_memory_utilization", shares),
        ("max_model_len", required_length),
        ("max_num_seqs", required_sequences),
        ("max_num_batched_tokens", _vllm_prefills),
        ("enforce_eager", on),
        ("swap_space", lambda _: (0,)),
    ),
    "sglang": (
        ("mem_fraction_static", shares),
        ("context_length", required_length),
        ("max_running_requests", required_sequences),
        ("chunked_prefill_size", prefills),
        ("cuda_graph_max_bs", captured),
        ("disable_cuda_graph", on),
    ),
    "tgi": (
        ("cuda_memory_fraction", shares),
        ("max_total_tokens", required_length),
        ("max_batch_size", required_sequences),
        ("max_batch_prefill_tokens", whole_prompts),
    ),
    "tensorrt-llm": (
        ("kv_cache_free_gpu_mem_fraction", shares),
        ("max_seq_len", required_length),
        ("max_batch_size", required_sequences),
        ("max_num_tokens", whole_prompts),
    ),
    "transformers": (),
}
"""Options of each engine with the values that are tried."""
SAME_OPTION = {
    "free_gpu_memory_fraction": "kv_cache_free_gpu_mem_fraction",
    "kv_cache_free_gpu_memory_fraction": "kv_cache_free_gpu_mem_fraction",
}
"""Other names by which a card may already write one of them."""


def engine_budgets(scene: Scene) -> Proposals:
    """One option of the engine each."""
    card = scene.card
    if card.task != "inference":
        return Proposals(notes=(NOT_SERVED(),))
    if card.engine is None:
        return Proposals(notes=(NO_ENGINE(),))
    options = OPTIONS.get(card.engine.name)
    if not options:
        return Proposals(notes=(OTHER_ENGINE(engine=card.engine.name),))
    changes = (
        change("engine_budget", card, {engine_path(card, _name(scene, name)): value}, UNPREDICTED)
        for name, sizes in options
        for value in sizes(scene)
        if not _is_stated(scene.option(_name(scene, name)), value)
    )
    return Proposals(changes=tuple(changes))


def _name(scene: Scene, name: str) -> str:
    """The name that the card writes it by, where it has several."""
    others = [other for other, same in SAME_OPTION.items() if same == name]
    return next((other for other in others if scene.option(other) is not None), name)


def _is_stated(found: Value, value: Value) -> bool:
    return as_flag(found) is True if value is True else found is not None and str(found) == str(value)
