"""What the engine will print of itself: its budget, its pool, and the load that the pool carries."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from capienza.i18n.translator import Say, mark
from capienza.predict.inference.serving import RankFigures
from capienza.predict.llama_served import ENGINE, LlamaAnswer
from capienza.predict.served import EngineAnswer
from capienza.report.blocks import Block, Heading, Paragraph, Table
from capienza.units import MIB

BUFFER_LABELS = {
    "model_buffer": mark("model buffer"),
    "kv_buffer": mark("KV buffer"),
    "rs_buffer": mark("state buffer"),
    "compute_buffer": mark("compute buffer"),
    "output_buffer": mark("output buffer"),
}


def engine_data(answer: EngineAnswer | LlamaAnswer) -> dict[str, Any]:
    """The offer of each stage; null where the card's CUDA total is not known. Of llama.cpp its buffers by device."""
    if isinstance(answer, LlamaAnswer):
        return {
            "name": ENGINE,
            "buffers": [
                {
                    "kind": buffer.kind,
                    "device": buffer.device,
                    "status": buffer.status,
                    "expected_bytes": buffer.amount.expected,
                }
                for buffer in answer.buffers.buffers
            ],
            "is_load_covered": answer.is_covered,
        }
    return {
        "name": answer.engine,
        "version": answer.serving.version,
        "stages": [_stage_data(rank) for rank in answer.served.ranks],
        "is_load_covered": answer.is_covered,
    }


def _stage_data(rank: RankFigures) -> dict[str, Any]:
    offer = rank.offer
    words = {name: getattr(offer, name) for name in offer.__struct_fields__}
    required = rank.required
    return {"stage": rank.stage, **words, "required_bytes": None if required is None else required.expected}


def engine_blocks(answer: EngineAnswer | LlamaAnswer, say: Say) -> list[Block]:
    """For comparison with the engine's own log; the stage that offers least decides."""
    if isinstance(answer, LlamaAnswer):
        return _buffer_blocks(answer, say)
    rank = answer.served.tightest
    if not rank.offer.has_pool:
        return []
    rows = [row for row in _rows(rank, say) if row[1]]
    if not rows:
        return []
    heading = Heading(say("What {engine} will offer", engine=answer.engine))
    table = Table(columns=(say("figure"), say("per GPU"), say("basis")), rows=tuple(rows), numeric=(1,))
    return [heading, table, Paragraph(_covered_text(answer, say))]


def _buffer_blocks(answer: LlamaAnswer, say: Say) -> list[Block]:
    """One row for each buffer, in MiB with two decimals as llama.cpp prints them."""
    rows = tuple(
        (
            buffer.device,
            say(BUFFER_LABELS[buffer.kind]),
            say.number(Decimal(buffer.amount.expected) / MIB, 2),
            say("exact") if buffer.status == "exact" else say("estimated"),
        )
        for buffer in sorted(answer.buffers.buffers, key=lambda buffer: (buffer.device, buffer.kind))
        if buffer.amount.expected
    )
    columns = (say("device"), say("buffer"), "MiB", say("origin"))
    return [
        Heading(say("What {engine} will print", engine=ENGINE)),
        Table(columns=columns, rows=rows, numeric=(2,)),
        Paragraph(say("Buffers named CPU and those that end in Host are memory of the host, not of a GPU.")),
    ]


def _rows(rank: RankFigures, say: Say) -> tuple[tuple[str, str, str], ...]:
    offer, required = rank.offer, rank.required
    return (
        (say("budget"), _size(offer.budget_bytes, say), say("the share of the CUDA total that the engine takes")),
        (say("KV pool"), _size(offer.pool_bytes, say), say("what the budget leaves for the cache")),
        (
            say("blocks"),
            "" if offer.gpu_blocks is None else say.number(offer.gpu_blocks),
            say("of {tokens} tokens", tokens=say.number(offer.block_size)),
        ),
        (say("KV cache tokens"), "" if offer.kv_tokens is None else say.number(offer.kv_tokens), say("as it prints")),
        (
            say("maximum concurrency"),
            "" if offer.max_concurrency is None else f"{say.number(Decimal(str(offer.max_concurrency)), 2)}x",
            say("for {tokens} tokens per request", tokens=say.number(offer.max_model_len or 0)),
        ),
        (
            say("the required load takes"),
            _size(None if required is None else required.expected, say),
            say("of that pool, in whole blocks"),
        ),
    )


def _size(amount_bytes: int | None, say: Say) -> str:
    if amount_bytes is None:
        return ""
    return say.size(amount_bytes) if amount_bytes >= 0 else f"-{say.size(-amount_bytes)}"


def _covered_text(answer: EngineAnswer, say: Say) -> str:
    rank = answer.served.tightest
    if rank.is_refused:
        return say(
            "The engine would refuse to start: its share of the card leaves less than one sequence of the longest "
            "length."
        )
    if answer.is_refused:
        return say("The engine would not start: it claims more of the card than is free.")
    if rank.queues:
        return say("The engine's settings run fewer sequences at once than are required: the load is not covered.")
    if rank.is_covered is None:
        return say("The CUDA total of this card is not known, so what the engine leaves for its cache is not known.")
    if rank.is_covered:
        return say("The pool holds the required load at once.")
    return say(
        "The pool does not hold the required load at once: the engine would start and queue requests, so the load is "
        "not covered."
    )
