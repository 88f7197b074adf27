"""Main memory that a workload provably takes on the server; what loading takes beside it stays an unknown entry.

Legend: n GPUs of one copy; W bytes of all its weights; E elements outside the layers (embeddings, head and the like),
4 bytes each at most; o the bytes that vLLM is told to keep on the host for each GPU. It moves parameters of layers
until o is reached, so at least min(o, W / n - 4 E) lies there, of each GPU.
Files that are mapped (safetensors, GGUF) need no copy of their own: the system may read them again, so nothing is
proved of them. Buffers that llama.cpp allocates on the host are proved as far as its own answer is.
Sources: vLLM `maybe_offload_to_cpu`; DeepSpeed `CPUAdam`; `predict.inference.llamacpp` for the buffers.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING

from capienza.card.model import Card, Placement
from capienza.card.options import plain_name
from capienza.errors import Message, template
from capienza.ledger.entry import Entry
from capienza.ledger.phase import INFERENCE_PHASES, TRAINING_PHASES, Phase
from capienza.predict.model import Model
from capienza.predict.training.saved import option, saved
from capienza.predict.unknowns import A_RULE, unknown_entry
from capienza.predict.weights import FROM_FIELD, weight_bytes
from capienza.units import GIB, Range

if TYPE_CHECKING:
    from capienza.predict.sizing import Answer

HOST = "host"
MAPPED = "CPU_Mapped"
WIDEST_BYTES = 4
OUTSIDE = frozenset({"embedding", "head", "position", "norm", "vision", "other"})
"""Roles that may stand outside the layers; counting one of a layer here only lowers what is proved."""
_GPU = re.compile(r"CUDA[0-9]+")
OFFLOAD_KEY, SWAP_KEY, STATES_KEY = "cpu_offload_gb", "swap_space", "offload_optimizer"
ON_HOST = ("cpu", True)

HOST_BUFFERS = template("predict.formula-host-buffers", "llama.cpp on the host: {sum} = {total} B")
MAPPED_FILES = template(
    "predict.formula-mapped",
    "{total} B of the file are mapped: the system may read them again from disk, so nothing is proved from below",
)
OFFLOADED = template(
    "predict.formula-offloaded",
    "{gpus} x {stated} GiB kept on the host for each GPU, as far as the layers have that much",
)
SWAP = template("predict.formula-swap", "{gpus} x {stated} GiB; engines without swapping allocate none of it")
STATES = template("predict.formula-offloaded-states", "optimizer states on the host, {parameters} parameters")
MEASURED_RAM = template(
    "predict.proof-ram",
    "the highest main memory of a complete run on that server, loading included",
    "watch the memory of the process from start to end, and write it as host.ram",
)


def ram_entries(card: Card, model: Model, answer: Answer | None) -> list[Entry]:
    """What main memory provably holds, and the unknown rest."""
    entries = [*_buffers(answer), *_offloaded_weights(card, model), *_swap(card), *_offloaded_states(card, model)]
    needs = tuple(field for field, stated in _open(card) if stated is None) or (A_RULE,)
    return [*entries, unknown_entry("host_loading", (Phase.LOAD,), HOST, needs, MEASURED_RAM())]


def _open(card: Card) -> tuple[tuple[str, object], ...]:
    engine = card.engine
    return (("engine", engine), ("engine.version", engine.version if engine else None))


def _buffers(answer: Answer | None) -> list[Entry]:
    """What llama.cpp keeps on the host: layers that are not on a GPU, the input embedding, caches, work buffers."""
    buffers = getattr(answer, "buffers", None)
    if buffers is None:
        return []
    on_host = [buffer for buffer in buffers.buffers if not _GPU.fullmatch(buffer.device)]
    entries = []
    for mapped in (False, True):
        some = [buffer for buffer in on_host if (buffer.device == MAPPED) is mapped]
        if not some:
            continue
        floors = sum(buffer.amount.floor for buffer in some if buffer.status == "exact")
        expected = sum(buffer.amount.expected for buffer in some)
        is_proved = getattr(answer, "is_proved", False) and not mapped
        amount = Range(
            floors if is_proved else 0, expected, max(expected, sum(buffer.amount.ceiling for buffer in some))
        )
        text = " + ".join(f"{buffer.amount.expected} ({buffer.device} {buffer.kind})" for buffer in some)
        formula = MAPPED_FILES(total=expected) if mapped else HOST_BUFFERS(sum=text, total=expected)
        entries.append(_entry("host_mapped" if mapped else "host_buffers", INFERENCE_PHASES, amount, formula))
    return entries


def _offloaded_weights(card: Card, model: Model) -> list[Entry]:
    stated = _gib(card, OFFLOAD_KEY)
    if not stated:
        return []
    gpus, each = _gpus(card), int(stated * GIB)
    architecture = model.architecture
    floor = 0
    if architecture is not None and architecture.parameters:
        outside = sum(parameter.elements for parameter in architecture.parameters if parameter.role in OUTSIDE)
        share = weight_bytes(model, card.weights.format).total_bytes // gpus - WIDEST_BYTES * outside
        floor = gpus * max(0, min(each, share))
    amount = Range(floor, gpus * each, gpus * each)
    formula = OFFLOADED(gpus=gpus, stated=f"{stated:f}")
    return [
        _entry(
            "offloaded_weights", INFERENCE_PHASES, amount, formula, FROM_FIELD(field=f"engine.options.{OFFLOAD_KEY}")
        )
    ]


def _swap(card: Card) -> list[Entry]:
    stated = _gib(card, SWAP_KEY)
    if not stated:
        return []
    gpus = _gpus(card)
    amount = Range(0, gpus * int(stated * GIB), gpus * int(stated * GIB))
    formula = SWAP(gpus=gpus, stated=f"{stated:f}")
    return [_entry("kv_swap", INFERENCE_PHASES, amount, formula, FROM_FIELD(field=f"engine.options.{SWAP_KEY}"))]


def _offloaded_states(card: Card, model: Model) -> list[Entry]:
    """Moments at least in the parameters' format; DeepSpeed holds them in fp32 with fp32 weights and gradients."""
    stated = option(card, STATES_KEY)
    if stated not in ON_HOST:
        return []
    found = saved(card, model)
    if found is None:
        needs = ("training.method", "training.optimizer")
        return [unknown_entry("offloaded_states", TRAINING_PHASES, HOST, needs, MEASURED_RAM())]
    count = found.parameters
    amount = Range(found.states.floor, max(12 * count, found.states.floor), max(16 * count, found.states.ceiling))
    source = FROM_FIELD(field=f"training.{STATES_KEY}")
    return [_entry("offloaded_states", TRAINING_PHASES, amount, STATES(parameters=count), source)]


def _gib(card: Card, name: str) -> Decimal | None:
    """An engine option in GiB; None when it is not stated, or says nothing that can be read."""
    options = card.engine.options if card.engine else {}
    value = next((value for key, value in options.items() if plain_name(key) == name), None)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 10**6:
        return None
    return Decimal(str(value))


def _gpus(card: Card) -> int:
    return card.placement.gpus_per_copy if isinstance(card.placement, Placement) else 1


def _entry(
    name: str, phases: tuple[Phase, ...], amount: Range, formula: Message, source: Message | None = None
) -> Entry:
    return Entry(
        name=name, phases=phases, device=HOST, amount=amount, status="estimated", formula=formula, source=source
    )
