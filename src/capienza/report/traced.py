"""The trace of a card's program, as a document and as JSON (`capienza.trace/1`)."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from capienza.i18n.translator import Say, mark
from capienza.report.beside import beside_blocks, beside_data
from capienza.report.blocks import Block, Document, Heading, Items, Paragraph, Table
from capienza.report.labels import ENTRY_LABELS, label
from capienza.report.messages import message_data, sentence
from capienza.report.tool import TOOL
from capienza.units import MIB

if TYPE_CHECKING:
    from capienza.predict.training.beside import Comparison
    from capienza.trace.cards.trace import CardTrace
    from capienza.trace.peak import GpuPeak, Prediction

TRACE_SCHEMA = "capienza.trace/1"
MOST_HOLDERS = 12
SUMS = ("rounding", "cached")
FIGURES = (
    ("requested_bytes", mark("tensors, as they were asked for"), mark("-")),
    ("allocated_bytes", mark("allocated: tensors in the allocator's blocks"), mark("torch.cuda.max_memory_allocated")),
    ("reserved_bytes", mark("reserved by the allocator"), mark("torch.cuda.max_memory_reserved")),
    ("smallest_capacity_bytes", mark("smallest capacity at which the program still ends"), mark("no counter")),
)


def traced_data(name: str, found: CardTrace, beside: Comparison | None = None) -> dict[str, Any]:
    """Every figure in bytes; null is unknown. `beside`: a training's closed form, where it has one."""
    prediction = found.prediction
    return {
        "schema": TRACE_SCHEMA,
        "tool": TOOL,
        "card": name,
        "device": prediction.device,
        "total_bytes": prediction.total_bytes,
        "gpus": [_gpu_data(gpu) for gpu in prediction.gpus],
        "closed_form": None if beside is None else beside_data(beside),
        "entries": [
            {
                "name": entry.name,
                "phase": entry.phases[0] if len(entry.phases) == 1 else list(entry.phases),
                "gpu": entry.device,
                "bytes": None if entry.amount is None else entry.amount.expected,
                "status": entry.status,
            }
            for entry in prediction.ledger.entries
        ],
        "attention_kernels": dict(prediction.kernels),
        "guesses": [
            {"op": one.op, "module": one.module, "answer": one.answer, "count": one.count} for one in prediction.guesses
        ],
        "assumed": [message_data(message) for message in (*prediction.assumed, *found.assumed)],
        "left_out": [message_data(message) for message in found.left_out],
        "unknown": [message_data(message) for message in prediction.unknown],
        "warnings": [message_data(message) for message in prediction.warnings],
        "operations": len(prediction.traced.op_names),
        "seconds": round(prediction.traced.seconds, 3),
    }


def _gpu_data(gpu: GpuPeak) -> dict[str, Any]:
    return {
        "gpu": gpu.gpu,
        **{name: getattr(gpu, name) for name, _, _ in FIGURES},
        "device_bytes": None,
        "cuda_mallocs": gpu.cuda_mallocs,
        "phases": [
            {
                "phase": phase.phase,
                "requested_bytes": phase.requested_bytes,
                "allocated_bytes": phase.allocated_bytes,
                "reserved_bytes": phase.reserved_bytes,
            }
            for phase in gpu.phases
        ],
        "holders": [
            {
                "module": one.module,
                "category": one.category,
                "bytes": one.size_bytes,
                "count": one.count,
                "op": one.op,
            }
            for one in gpu.holders[:MOST_HOLDERS]
        ],
    }


def traced_document(name: str, found: CardTrace, say: Say, beside: Comparison | None = None) -> Document:
    """The figures, the phases, who holds the memory, the closed form beside them, and what was assumed."""
    prediction = found.prediction
    blocks: list[Block] = [
        Heading(f"{name}: {prediction.device}", 1),
        Paragraph(
            say(
                "The program was run on fake tensors and nothing was computed: {operations} operations, "
                "{storages} storages.",
                operations=say.number(len(prediction.traced.op_names)),
                storages=say.number(len(prediction.traced.recording.sizes)),
            )
        ),
    ]
    for gpu in prediction.gpus:
        blocks += _gpu_blocks(gpu, prediction, say)
    if beside is not None:
        blocks += beside_blocks(beside, say)
    blocks += _assumptions(found, say)
    return tuple(blocks)


def _gpu_blocks(gpu: GpuPeak, prediction: Prediction, say: Say) -> list[Block]:
    from capienza.trace.holders import alike

    figures = tuple(
        (
            say(words),
            say.size(value) if (value := getattr(gpu, attribute)) is not None else say("unknown"),
            say(counter),
        )
        for attribute, words, counter in FIGURES
    )
    device = (
        say("device: reserved and the CUDA context"),
        say("at least {size}", size=say.size(gpu.reserved_bytes)),
        say("the driver, for the process"),
    )
    return [
        Heading(say("Peaks of {gpu}", gpu=gpu.gpu)),
        Table(
            columns=(say("figure"), say("amount"), say("its counter")),
            rows=(*figures[:3], device, figures[3], *_of_the_card(prediction, say)),
            numeric=(1,),
        ),
        *_too_small(gpu, prediction, say),
        _phases(gpu, prediction, say),
        Heading(say("Who holds it when most is allocated")),
        Table(
            columns=(say("module"), say("what"), "MiB", say("storages"), say("largest made by")),
            rows=tuple(
                (
                    one.module or "-",
                    say(label(ENTRY_LABELS, one.category)),
                    _mib(one.size_bytes, say),
                    str(one.count),
                    one.op,
                )
                for one in alike(gpu.holders)[:MOST_HOLDERS]
            ),
            numeric=(2, 3),
        ),
    ]


def _of_the_card(prediction: Prediction, say: Say) -> list[tuple[str, str, str]]:
    total = prediction.total_bytes
    return [] if total is None else [(say("memory of the card"), say.size(total), say("torch.cuda.mem_get_info"))]


def _too_small(gpu: GpuPeak, prediction: Prediction, say: Say) -> list[Block]:
    """What those who read on are to know: the figures are of a run that the card would have ended."""
    total, least = prediction.total_bytes, gpu.smallest_capacity_bytes
    if total is None or least is None or least <= total:
        return []
    return [
        Paragraph(
            say(
                "The program runs out of memory on this card: it needs {least}, and the card has {total}. "
                "The figures are those of a card that is large enough.",
                least=say.size(least),
                total=say.size(total),
            )
        )
    ]


def _phases(gpu: GpuPeak, prediction: Prediction, say: Say) -> Table:
    """One row for each phase: its entries at its own peak, then what they add up to."""
    entries = [entry for entry in prediction.ledger.on(gpu.gpu) if entry.amount is not None]
    names = [name for name in dict.fromkeys(entry.name for entry in entries) if name not in SUMS]
    amounts = {
        (entry.name, str(entry.phases[0])): entry.amount.expected for entry in entries if entry.amount is not None
    }
    rows = tuple(
        (
            phase.phase,
            *(_mib(amounts.get((name, phase.phase), 0), say) for name in names),
            _mib(phase.allocated_bytes, say),
            _mib(phase.reserved_bytes, say),
        )
        for phase in gpu.phases
    )
    return Table(
        columns=(
            say("phase, MiB"),
            *(say(label(ENTRY_LABELS, name)) for name in names),
            say("allocated"),
            say("reserved"),
        ),
        rows=rows,
        numeric=tuple(range(1, len(names) + 3)),
    )


def _assumptions(found: CardTrace, say: Say) -> list[Block]:
    prediction = found.prediction
    kernels = [
        say(
            "attention ran {kernel} {count} times, as this card would choose it", kernel=kernel, count=say.number(count)
        )
        for kernel, count in prediction.kernels
    ]
    guesses = [
        say(
            "{op} in {module} asked for a value that nobody knows, {count} times; assumed: {answer}",
            op=one.op,
            module=one.module or "-",
            count=say.number(one.count),
            answer=one.answer,
        )
        for one in prediction.guesses
    ]
    assumed = [*kernels, *(sentence(message, say) for message in (*prediction.assumed, *found.assumed)), *guesses]
    missing = [sentence(message, say) for message in (*found.left_out, *prediction.unknown)]
    if prediction.device != "cpu":
        missing.append(say("the CUDA context: measure the run on the intended card"))
    blocks: list[Block] = []
    if prediction.warnings:
        blocks += [Heading(say("Warnings")), Items(tuple(sentence(one, say) for one in prediction.warnings))]
    if assumed:
        blocks += [Heading(say("Assumed")), Items(tuple(assumed))]
    if missing:
        blocks += [Heading(say("Not in these figures")), Items(tuple(missing))]
    return blocks


def _mib(size_bytes: int, say: Say) -> str:
    return say.number(Decimal(size_bytes) / MIB, 1)
