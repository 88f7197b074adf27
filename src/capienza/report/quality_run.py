"""What was collected of one arm, as a document and as JSON (`capienza.quality-run/1`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from capienza.i18n.translator import Say
from capienza.report.blocks import Block, Document, Heading, Items, Paragraph, Table
from capienza.report.messages import message_data, sentence
from capienza.report.quality_plan import ARM_LABELS
from capienza.report.tool import TOOL

if TYPE_CHECKING:
    from capienza.api.qualifying import Ran

RUN_SCHEMA = "capienza.quality-run/1"
SHOWN = 10


def ran_data(ran: Ran) -> dict[str, Any]:
    """Counts, open items with their failures, and what was noticed."""
    found = ran.collected
    return {
        "schema": RUN_SCHEMA,
        "tool": TOOL,
        "plan": ran.plan.id,
        "arm": ran.arm,
        "file": str(ran.path),
        **_counts(ran),
        "open_items": list(found.open_items),
        "failures": [
            {"item": failed.item, "failure": message_data(failed.failure)}
            for failed in found.failures
            if failed.failure
        ],
        "findings": [message_data(message) for message in found.findings],
    }


def _counts(ran: Ran) -> dict[str, int]:
    answers = ran.collected.answers.by_item.values()
    return {
        "items": len(ran.plan.corpus.items),
        "answered": len(answers),
        "truncated": sum(answer.is_truncated for answer in answers),
        "refused": sum(answer.refused is not None for answer in answers),
        "asked_again": sum(answer.attempts > 1 for answer in answers),
        "open": len(ran.collected.open_items),
    }


def ran_document(ran: Ran, say: Say) -> Document:
    """The counts, then what failed."""
    counts, found = _counts(ran), ran.collected
    columns = (say("items"), say("answered"), say("truncated"), say("refused"), say("asked again"), say("open"))
    blocks: list[Block] = [
        Heading(say("Answers: {arm}", arm=say(ARM_LABELS[ran.arm])), 1),
        Paragraph(say("Plan {plan}; outputs in {file}.", plan=ran.plan.id[:12], file=str(ran.path))),
        Table(columns, (tuple(say.number(count) for count in counts.values()),), numeric=tuple(range(len(counts)))),
    ]
    if counts["truncated"]:
        blocks.append(
            Paragraph(
                say("A truncated answer counts as wrong: raise max_tokens or the server's limit, under a new plan.")
            )
        )
    if counts["open"]:
        blocks.append(Paragraph(say("The same command asks the open items again, and no other.")))
        reasons = [f"{failed.item}: {sentence(failed.failure, say)}" for failed in found.failures if failed.failure]
        blocks.append(Items(tuple(reasons[:SHOWN])))
        if len(reasons) > SHOWN:
            blocks.append(
                Paragraph(say("And {count} more; --json has them all.", count=say.number(len(reasons) - SHOWN)))
            )
    if found.findings:
        blocks.append(Items(tuple(sentence(message, say) for message in found.findings)))
    return tuple(blocks)
