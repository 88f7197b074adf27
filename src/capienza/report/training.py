"""A training in the answer of `size`: what each counter shows by phase, and the recipe that the figures rest on."""

from __future__ import annotations

from typing import Any

from capienza.i18n.translator import Say
from capienza.ledger.counters import Counters, counters_of
from capienza.ledger.ledger import Ledger, Total
from capienza.predict.training.answer import TrainingAnswer
from capienza.predict.training.trained import num_trained
from capienza.report.blocks import Block, Paragraph, Table
from capienza.report.recipe import recipe_data, recipe_table

SHOWN_DECIMALS = 3
COUNTERS = ("allocated", "reserved", "on_device", "smallest")


def training_blocks(answer: TrainingAnswer, ledger: Ledger, device: str, say: Say) -> list[Block]:
    """The counters of one GPU, phase by phase, and every choice with its origin."""
    return [_counters_table(ledger, device, say), _trained_line(answer, say), recipe_table(answer.recipe, say)]


def training_data(answer: TrainingAnswer, ledger: Ledger) -> dict[str, Any]:
    """The same as data; figures in bytes."""
    from capienza.report.size_data import total_data

    return {
        "num_trained_parameters": num_trained(answer.resident.trained),
        "allocated_after_bytes": answer.after_bytes,
        "recipe": recipe_data(answer.recipe),
        "counters": [
            {
                "gpu": device,
                "phase": counters.phase,
                **{name: total_data(getattr(counters, name)) for name in COUNTERS},
            }
            for device in ledger.gpus
            for counters in counters_of(ledger, device)
        ],
    }


def _counters_table(ledger: Ledger, device: str, say: Say) -> Table:
    rows = [(str(one.phase), *_cells(one, say)) for one in counters_of(ledger, device)]
    return Table(
        columns=(
            say("phase"),
            say("allocated by PyTorch"),
            say("reserved by PyTorch"),
            say("on the device"),
            say("smallest capacity"),
        ),
        rows=tuple(rows),
        numeric=(1, 2, 3, 4),
        title=say("What each counter is expected to show, {gpu}: they do not add up", gpu=device),
    )


def _cells(counters: Counters, say: Say) -> tuple[str, ...]:
    return tuple(_cell(getattr(counters, name), say) for name in COUNTERS)


def _cell(total: Total, say: Say) -> str:
    text = say.size(total.amount.expected, SHOWN_DECIMALS)
    return text if total.is_complete else say("at least {size}", size=text)


def _trained_line(answer: TrainingAnswer, say: Say) -> Paragraph:
    if answer.after_bytes is None:
        return Paragraph(say("{count} parameters are trained.", count=say.number(num_trained(answer.resident.trained))))
    return Paragraph(
        say(
            "{count} parameters are trained; when training has returned, {after_bytes} stay allocated.",
            count=say.number(num_trained(answer.resident.trained)),
            after_bytes=answer.after_bytes,
        )
    )
