"""The diagnosis of a log, as a document and as JSON (`capienza.diagnose/1`)."""

from __future__ import annotations

from typing import Any

from capienza.diagnose.diagnosis import SIZES, Diagnosis
from capienza.i18n.translator import Say, mark
from capienza.report.blocks import Block, Document, Heading, Items, Paragraph, Table
from capienza.report.labels import label
from capienza.report.messages import message_data, sentence
from capienza.report.tool import TOOL
from capienza.units import telling_unit

DIAGNOSE_SCHEMA = "capienza.diagnose/1"
CAUSES = {
    "weights": mark("weights"),
    "kv_cache": mark("KV cache"),
    "activations": mark("activations"),
    "optimizer_state": mark("optimizer states"),
    "fragmentation": mark("fragmentation"),
    "other_process": mark("another process"),
    "loading_transient": mark("extra while loading"),
    "graph_capture": mark("graph capture"),
    "logits": mark("logits"),
    "eval_accumulation": mark("results kept during validation"),
    "save_gather": mark("gathering to save"),
    "host_ram": mark("memory of the host"),
    "disk": mark("disk"),
    "unit_confusion": mark("mix-up of units"),
    "configuration": mark("configuration"),
    "compatibility": mark("compatibility"),
    "communication": mark("communication"),
    "not_memory": mark("no lack of memory"),
    "unknown": mark("unknown"),
}
MEMORIES = {
    "device": mark("memory of the GPU"),
    "host": mark("memory of the host"),
    "no": mark("no lack of memory"),
    "unknown": mark("unknown"),
}
CONFIDENCE = {"high": mark("high"), "medium": mark("medium"), "low": mark("low")}
FIGURES = {
    "requested_bytes": mark("asked for"),
    "total_bytes": mark("total"),
    "free_bytes": mark("free"),
    "allocated_bytes": mark("allocated"),
    "reserved_unallocated_bytes": mark("reserved and unallocated"),
    "reserved_total_bytes": mark("reserved in total"),
    "other_process_bytes": mark("held by other processes"),
}
DETAILS = {
    "killed": mark("killed by the system or its container"),
    "graph": mark("reservation of the largest graph when the context is made"),
}
SHOWN_CHARACTERS = 240


def diagnose_data(found: Diagnosis) -> dict[str, Any]:
    """Sizes in bytes; null is "not in the log". `phase` is null where nothing failed."""
    return {
        "schema": DIAGNOSE_SCHEMA,
        "tool": TOOL,
        "log": found.log,
        "lines": found.lines,
        "failure": found.is_failure,
        "phase": found.phase if found.is_failure else None,
        "cause": found.cause if found.is_failure else None,
        "memory": found.memory,
        "fatal": found.is_fatal,
        "detail": found.detail,
        **{name: getattr(found, name) for name in SIZES},
        "gpu_index": found.gpu_index,
        "evidence": found.evidence,
        "evidence_line": found.evidence_line,
        "occurrences": found.evidence_lines,
        "last_line": found.last_line,
        "phase_evidence": found.phase_evidence,
        "phase_line": found.phase_line,
        "source": found.source,
        "confidence": found.confidence,
        "explains": [message_data(message) for message in found.explains],
        "examine": [message_data(message) for message in found.examine],
        "keep": [message_data(message) for message in found.keep],
        "notes": [message_data(message) for message in found.notes],
        "seen": [
            {
                "code": one.code,
                "line": one.line,
                "text": one.text,
                "occurrences": one.count,
                "last_line": one.last_line,
                "fatal": one.is_fatal,
            }
            for one in found.seen
        ],
    }


def diagnose_document(found: Diagnosis, say: Say) -> Document:
    """The answer first, then the figures, the arithmetic, and what to do."""
    title = Heading(say("Diagnosis of {log}", log=found.log), 1)
    if not found.is_failure:
        return (title, Paragraph(say("No failure found. Lines read: {count}.", count=say.number(found.lines))))
    blocks: list[Block] = [title, _answer(found, say)]
    rows = tuple(
        (say(text), say.size(value, unit=telling_unit(value)), f"{say.number(value)} B")
        for name, text in FIGURES.items()
        if (value := getattr(found, name)) is not None
    )
    if rows:
        columns = (say("figure"), say("size"), "B")
        blocks += [Heading(say("Figures in the log")), Table(columns=columns, rows=rows, numeric=(1, 2))]
    for heading, messages in (
        (say("What explains it"), found.explains),
        (say("What to examine"), found.examine),
        (say("What not to change in silence"), found.keep),
    ):
        if messages:
            blocks += [Heading(heading), Items(tuple(sentence(message, say) for message in messages))]
    others = tuple(_seen_row(one, say) for one in found.seen)
    if len(others) > 1:
        heads = (say("line"), say("times"), say("kind"), say("text"))
        blocks += [Heading(say("Failing lines")), Table(columns=heads, rows=others, numeric=(0, 1), whole=(2,))]
    if found.notes:
        blocks.append(Items(tuple(sentence(message, say) for message in found.notes)))
    return tuple(blocks)


def _answer(found: Diagnosis, say: Say) -> Table:
    where = [(say("evidence"), _line(found.evidence, found.evidence_line, say))]
    if found.phase_evidence and found.phase_line != found.evidence_line:
        where.append((say("what tells the phase"), _line(found.phase_evidence, found.phase_line, say)))
    if found.evidence_lines > 1:
        where.append((say("times"), say.number(found.evidence_lines)))
    if found.source:
        where.append((say("process"), found.source))
    if found.gpu_index is not None:
        where.append(("GPU", str(found.gpu_index)))
    if found.detail:
        where.append((say("detail"), say(label(DETAILS, found.detail))))
    rows = (
        (say("phase"), found.phase if found.phase != "unknown" else say("unknown: the log does not tell")),
        (say("cause"), say(label(CAUSES, found.cause))),
        (say("what ran out"), say(label(MEMORIES, found.memory))),
        (say("the run"), say("ends here") if found.is_fatal else say("goes on")),
        (say("confidence in the phase"), say(CONFIDENCE[found.confidence])),
        *where,
    )
    return Table(columns=(say("question"), say("answer")), rows=rows)


def _line(text: str, number: int | None, say: Say) -> str:
    cut = text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}..."
    return cut if number is None else say("line {number}: {text}", number=number, text=cut)


def _seen_row(one: Any, say: Say) -> tuple[str, ...]:
    text = one.text if len(one.text) <= 100 else f"{one.text[:100]}..."
    return say.number(one.line), say.number(one.count), one.code, text
