"""A GGUF file on llama.cpp, as a card asks for it: the buffers of each GPU, and those of the host.

The options that a card states are taken as they are. What it leaves open follows from the load: as many sequences as
are required at once, and a context that holds all of them. Unless the card states how many layers go to the GPUs,
llama.cpp may leave some on the host when they do not fit, so nothing is then proved from below.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from capienza.card.model import Card, Placement
from capienza.card.options import plain_name
from capienza.errors import InputError, Message, Place, template
from capienza.formats.expressions import ExpressionError
from capienza.ledger.entry import Entry
from capienza.ledger.ledger import WEIGHTS
from capienza.ledger.phase import Phase
from capienza.predict.calibration import shipped
from capienza.predict.inference.llamacpp.buffers import LlamaBuffer, LlamaBuffers
from capienza.predict.inference.llamacpp.model import LlamaModel, llama_model
from capienza.predict.inference.llamacpp.options import ALIASES, build_number, llama_runtime
from capienza.predict.inference.llamacpp.prediction import predict_llamacpp
from capienza.predict.inference.llamacpp.rules import MASK_BUILD
from capienza.predict.inference.llamacpp.runtime import LlamaRuntime, sizes_of
from capienza.predict.inference.pooled import NEAREST_VERSION
from capienza.predict.inference.serving import NO_VERSION
from capienza.predict.model import Model
from capienza.predict.unknowns import MEASURED_PHASE, unknown_entry
from capienza.units import MIB, Range

ENGINE = "llama.cpp"
OVERRIDES = "override_tensor"
DEVICE_NAME = "CUDA"
HOST = "host"
CONTEXT_BYTES = 300 * MIB
"""CUDA context, modules and cuBLAS: 297 to 298 MiB on an A40, 140 to 160 on two 8 GB cards."""
RUNNING = (Phase.PREFILL, Phase.DECODE)
LOADED = (Phase.LOAD, *RUNNING)
ENTRIES = {
    "model_buffer": (WEIGHTS, LOADED),
    "kv_buffer": ("kv_cache", LOADED),
    "rs_buffer": ("state", LOADED),
    "compute_buffer": ("compute_buffer", LOADED),
    "output_buffer": ("output_buffer", LOADED),
}
CONTEXT = template(
    "predict.llamacpp-context", "typical of CUDA's context and libraries: 140 to 300 MiB were read on three cards"
)
SHORT_CONTEXT = template(
    "predict.llamacpp-short-context",
    "the context is {streams} x {cells} cells; {sequences} sequences of {tokens} tokens need {needed}",
    "raise ctx_size to at least {needed}, or leave it out",
)
MAX_SEQUENCES = 256
"""LLAMA_MAX_SEQ of llama-cparams.h."""
MANY_SEQUENCES = template(
    "predict.llamacpp-many-sequences",
    "{found} sequences at once are more than the {most} that llama.cpp is built for",
    "lower the concurrency, or serve from several copies (placement.data_parallel)",
)
FEW_SEQUENCES = template(
    "predict.llamacpp-few-sequences",
    "{found} sequences run at once, a copy of the model is asked for {needed}: the others would wait",
    "raise parallel to the concurrency that a copy serves, or leave it out",
)
BAD_PATTERN = template(
    "predict.llamacpp-pattern",
    "found {found}: a pattern is no regular expression that is understood; accepted: letters, ., escapes, sets, "
    "groups, |, * + ? and counts, ^ and $",
    r"correct the pattern, for example blk\.1\.=CPU, or leave the option out",
)
LAYERS_OPEN = template(
    "predict.llamacpp-layers-open",
    "the card does not fix n_gpu_layers: all layers are taken to be on the GPUs, but llama.cpp may leave some on the "
    "host when they do not fit, so nothing is proved from below",
    "state n_gpu_layers as a number, or as all",
)
FROM_LOAD = template(
    "predict.llamacpp-from-load",
    "options that the card does not state follow from the load: {names}",
    "state them under engine.options on the card if the run sets them",
)
DIVIDED_LAYERS = template(
    "predict.llamacpp-divided-layers",
    "{stated} divides each layer over the GPUs, which is not modelled: whole layers are shared out, and nothing is "
    "proved from below",
    "leave it out for llama.cpp's own split by layers, or compare with the buffers that it prints",
)
ZERO_SHARES = template(
    "predict.llamacpp-zero-shares",
    "a tensor_split of zeros is as none: llama.cpp then shares layers out by the free memory of the GPUs",
    "state shares above 0, or leave tensor_split out",
)


class LlamaAnswer(msgspec.Struct, frozen=True):
    """What llama.cpp allocates, by its own device names, with notes on options that are not understood.

    What it allocates holds the whole load: options that do not are refused.
    """

    buffers: LlamaBuffers
    runtime: LlamaRuntime
    notes: tuple[Message, ...]
    is_proved: bool
    is_covered: bool = True
    is_held: bool = True
    queues: bool = False
    is_refused: bool = False

    @property
    def reads_options(self) -> bool:
        """The notes name every option that is not understood, and floors go by them."""
        return True


def llama_answer(card: Card, model: Model, gpus: int) -> LlamaAnswer | None:
    """The buffers of a card's GGUF file; None where the card asks another engine, or leaves the load open.

    Raises `InputError` for an option whose value cannot be, or that leaves no room for the load.
    """
    engine, required, artifact = card.engine, card.tokens.required, model.artifact
    if engine is None or engine.name != ENGINE or card.task != "inference" or card.weights.format is not None:
        return None
    if artifact is None or artifact.kind != "gguf" or model.architecture is None:
        return None
    if required is None or card.concurrency is None:
        return None
    described = llama_model(artifact.metadata, artifact.tensors, artifact.reference)
    sequences = _sequences_per_copy(card, card.concurrency)
    options = _options(engine.options, required.total, sequences)
    devices = tuple(f"{DEVICE_NAME}{index}" for index in range(gpus))
    try:
        runtime, odd = llama_runtime(options, described, version=engine.version, devices=devices)
    except InputError as error:
        raise InputError(error.message, Place(card.file, key=error.place.key)) from error
    _check_load(card, described, runtime, required.total, sequences)
    against = (*odd, *_unproved(card, runtime, engine.options))
    return LlamaAnswer(
        buffers=_buffers(card, described, runtime, engine.options),
        runtime=runtime,
        notes=(*_version_notes(engine.version), *_taken(engine.options, options), *_shares(runtime), *against),
        is_proved=not against,
    )


def _buffers(card: Card, model: LlamaModel, runtime: LlamaRuntime, options: Mapping[str, object]) -> LlamaBuffers:
    """Raises `InputError` for an override whose pattern is not understood, or is too costly."""
    try:
        return predict_llamacpp(model, runtime)
    except ExpressionError as error:
        name, value = next(pair for pair in options.items() if _plain_option(pair[0]) == OVERRIDES)
        place = Place(card.file, key=f"engine.options.{name}")
        raise InputError(BAD_PATTERN(found=repr(value)[:80]), place) from error


def _unproved(card: Card, runtime: LlamaRuntime, options: Mapping[str, object]) -> tuple[Message, ...]:
    """Why nothing is proved from below: layers that may stay on the host, or that are divided."""
    found = []
    if not _fixes_layers(_plain(options).get("n_gpu_layers")):
        found.append(LAYERS_OPEN())
    if runtime.split_mode in ("row", "tensor"):
        found.append(DIVIDED_LAYERS(stated=f"split_mode {runtime.split_mode}"))
    if isinstance(card.placement, Placement) and card.placement.tensor_parallel > 1:
        found.append(DIVIDED_LAYERS(stated=f"tensor_parallel {card.placement.tensor_parallel}"))
    return tuple(found)


def _fixes_layers(stated: object) -> bool:
    """A number of layers, or all of them; -1 is llama.cpp's own auto."""
    text = str(stated).casefold()
    return text == "all" or text.isdecimal()


def _version_notes(version: str | None) -> tuple[Message, ...]:
    """A word on rules that no stated build chose."""
    rules = f"b{MASK_BUILD}"
    if not version:
        return (NO_VERSION(engine=ENGINE, rules=rules),)
    return () if build_number(version) is not None else (NEAREST_VERSION(engine=ENGINE, found=version, rules=rules),)


def _taken(stated: Mapping[str, object], asked: Mapping[str, object]) -> tuple[Message, ...]:
    """What was taken for options that the card leaves open."""
    names = tuple(f"{name} {value}" for name, value in asked.items() if name not in stated)
    return (FROM_LOAD(names=names),) if names else ()


def _shares(runtime: LlamaRuntime) -> tuple[Message, ...]:
    return (ZERO_SHARES(),) if runtime.tensor_split and not any(runtime.tensor_split) else ()


def _sequences_per_copy(card: Card, concurrency: int) -> int:
    """Sequences of the busiest copy of the model: data-parallel copies share them."""
    copies = card.placement.data_parallel if isinstance(card.placement, Placement) else 1
    return -(-concurrency // copies)


def llama_entries(answer: LlamaAnswer, device: str) -> list[Entry]:
    """The entries of "gpu:N" (ggml's CUDAN)."""
    name = f"{DEVICE_NAME}{device.partition(':')[2]}"
    entries = [_entry(buffer, device, answer) for buffer in answer.buffers.buffers if buffer.device == name]
    entries += [
        unknown_entry(ENTRIES[unknown.kind][0], LOADED, device, ("engine.version",), unknown.reason)
        for unknown in answer.buffers.unknown
    ]
    entries.append(
        Entry(
            name="context",
            phases=LOADED,
            device=device,
            amount=Range(0, CONTEXT_BYTES, 2 * CONTEXT_BYTES),
            status="estimated",
            formula=CONTEXT(),
        )
    )
    proof = MEASURED_PHASE(phases=tuple(RUNNING))
    return [*entries, unknown_entry("runtime_pool", RUNNING, device, ("engine.version",), proof)]


def _entry(buffer: LlamaBuffer, device: str, answer: LlamaAnswer) -> Entry:
    name, phases = ENTRIES[buffer.kind]
    amount = buffer.amount
    if buffer.status == "estimated":
        factor = shipped().factor(ENGINE, buffer.kind).value
        amount = Range(0, amount.expected, max(amount.expected, int(amount.expected * factor)))
    if not answer.is_proved:
        amount = Range(0, amount.expected, amount.ceiling)
    return Entry(name=name, phases=phases, device=device, amount=amount, status="estimated", formula=buffer.formula)


def _plain(options: Mapping[str, object]) -> dict[str, object]:
    return {_plain_option(name): value for name, value in options.items()}


def _plain_option(name: str) -> str:
    plain = plain_name(name)
    return ALIASES.get(plain, plain)


def _options(stated: Mapping[str, object], tokens: int, sequences: int) -> dict[str, object]:
    """The card's options, and for what they leave open those that the load asks for."""
    plain = _plain(stated)
    asked: dict[str, object] = dict(stated)
    if "parallel" not in plain:
        asked["parallel"] = sequences
    if "ctx_size" not in plain:
        asked["ctx_size"] = tokens * sequences
    return asked


def _check_load(card: Card, model: LlamaModel, runtime: LlamaRuntime, tokens: int, sequences: int) -> None:
    """Raises `InputError` where stated options hold fewer sequences, or fewer tokens, than the load has."""
    if runtime.n_seq_max > MAX_SEQUENCES:
        message = MANY_SEQUENCES(found=runtime.n_seq_max, most=MAX_SEQUENCES)
        key = "concurrency" if runtime.n_seq_max == sequences else "engine.options.parallel"
        raise InputError(message, Place(card.file, key=key))
    if runtime.n_seq_max < sequences:
        message = FEW_SEQUENCES(found=runtime.n_seq_max, needed=sequences)
        raise InputError(message, Place(card.file, key="engine.options.parallel"))
    sizes = sizes_of(runtime, model.number("context_length"))
    if sizes.cells < (tokens if sizes.streams > 1 else tokens * sequences):
        message = SHORT_CONTEXT(
            streams=sizes.streams, cells=sizes.cells, sequences=sequences, tokens=tokens, needed=tokens * sequences
        )
        raise InputError(message, Place(card.file, key="engine.options.ctx_size"))
