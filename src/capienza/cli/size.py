"""`capienza size`."""

from __future__ import annotations

import importlib
import re
from decimal import Decimal
from typing import Any

import click

from capienza.cli.base import Command, argument, option, shown_as
from capienza.cli.values import WholeNumber, refuse, size_bytes, whole_number
from capienza.errors import UsageError, template

NO_SUCH_ENTRY = template(
    "size.no-such-entry",
    "the ledger has no entry {found}; it has: {accepted}",
    "take one of these names for --explain",
)
BAD_BITS = template("size.bad-bits", "expected bits per parameter, above 0 and at most {maximum}, got {found}")
NEEDS_SUBJECT = template(
    "size.needs-subject",
    "expected a card, a model, or --params",
    "try: capienza size card.yaml, capienza size ./model-folder, or capienza size --params 7e9",
)
ONE_SUBJECT = template(
    "size.one-subject",
    "not with --params, which takes the place of a card or model: {options}",
    "leave them out, or size a card or a model: the plain calculator takes --bits and --reserve alone",
)
ONLY_WITH_PARAMS = template(
    "size.only-with-params",
    "only with --params: {options}",
    "leave them out; a card states its reserve, and --weights the format of a bare model",
)
MAX_PARAMETERS = 10**18
MAX_BITS = 64
MAX_COUNT = 2**31
_BITS = re.compile(r"[0-9]{1,2}(?:\.[0-9]{1,10})?", re.ASCII)


@click.command(
    "size",
    cls=Command,
    help="Compute the memory ledger of a workload card (.yaml) or of a bare model (a folder, .safetensors, .gguf, "
    "config.json or Hub id): every entry, the peak of each phase, and what is unknown. With --params: the plain "
    "calculator, parameters times bits plus a reserve you choose.",
)
@argument("subject", metavar="[CARD|MODEL]", required=False, help="A workload card, or a model.")
@option("--gpu", metavar="NAME[xN]", help="Set the ledger beside this GPU, or N of them.")
@option("--revision", metavar="REV", help="Branch, tag or commit of a Hub model.")
@option(
    "--tokens",
    type=WholeNumber(1, MAX_COUNT),
    help="Bare model: tokens of one sequence, prompt and output together.",
)
@option("--concurrency", type=WholeNumber(1, MAX_COUNT), help="Bare model: sequences at a time (1 unless given).")
@option("--weights", metavar="FORMAT", help="Bare model: resident weight format, such as bf16 or nf4.")
@option("--explain", metavar="ENTRY", help="Show one entry: formula with its numbers, values, source.")
@option("--params", metavar="COUNT", help="Plain calculator: number of parameters, such as 7e9.")
@option("--bits", metavar="BITS", help="Plain calculator: bits per parameter (32, 16, 8 and 4 unless given).")
@option("--reserve", metavar="SIZE", help='Plain calculator: a reserve you choose, such as "6 GiB".')
@shown_as
def size_command(
    subject: str | None,
    gpu: str | None,
    revision: str | None,
    tokens: int | None,
    concurrency: int | None,
    weights: str | None,
    explain: str | None,
    params: str | None,
    bits: str | None,
    reserve: str | None,
    form: str,
    as_json: bool,
) -> None:
    """Run `capienza.api.size` or the plain calculator and show the result."""
    if params is not None:
        beside = {"CARD|MODEL": subject, "--gpu": gpu, "--revision": revision, "--tokens": tokens,
                  "--concurrency": concurrency, "--weights": weights, "--explain": explain}  # fmt: skip
        given = tuple(name for name, value in beside.items() if value is not None)
        if given:
            raise UsageError(ONE_SUBJECT(options=given))
        _plain(params, bits, reserve, form, as_json)
        return
    only_with_params = {"--bits": bits, "--reserve": reserve}
    given = tuple(name for name, value in only_with_params.items() if value is not None)
    if given:
        raise UsageError(ONLY_WITH_PARAMS(options=given))
    if subject is None:
        raise UsageError(NEEDS_SUBJECT())

    from capienza.api.sizing import held_rows
    from capienza.api.sizing import size as compute
    from capienza.cli.output import current_say, show

    sizing = compute(subject, gpu=gpu, revision=revision, tokens=tokens, concurrency=concurrency, weights=weights)
    if explain is None:
        show(
            form,
            as_json,
            document=lambda say: _report("size").size_document(sizing, say),
            data=lambda: _report("size_data").size_data(sizing),
            sheet=lambda say: _report("sheet").sheet_document(sizing, say),
        )
        return
    entries = sizing.entries(_report("labels").named(_report("labels").ENTRY_LABELS, explain, current_say()))
    if not entries:
        raise UsageError(NO_SUCH_ENTRY(found=explain, accepted=sizing.entry_names()))
    show(
        form,
        as_json,
        document=lambda say: _report("size").explain_document(
            sizing.card.name, entries, say, held_rows(sizing, entries)
        ),
        data=lambda: _report("size_data").entries_data(entries, held_rows(sizing, entries)),
    )


def _report(name: str) -> Any:
    """A module of `report`: only the form that is asked for is loaded."""
    return importlib.import_module(f"capienza.report.{name}")


def _plain(params: str, bits: str | None, reserve: str | None, form: str, as_json: bool) -> None:
    from capienza.api.calculator import arithmetic
    from capienza.cli.output import show
    from capienza.report.arithmetic import arithmetic_data, arithmetic_document

    parameters = whole_number("--params", params, 1, MAX_PARAMETERS)
    width = None if bits is None else _bits(bits)
    reserve_bytes = None if reserve is None else size_bytes("--reserve", reserve)
    rows = arithmetic(parameters, width, reserve_bytes)
    show(
        form,
        as_json,
        document=lambda say: arithmetic_document(rows, reserve_bytes, say),
        data=lambda: arithmetic_data(rows, reserve_bytes),
    )


def _bits(text: str) -> Decimal:
    value = Decimal(text) if _BITS.fullmatch(text) else Decimal(0)
    if not 0 < value <= MAX_BITS:
        refuse("--bits", BAD_BITS(maximum=MAX_BITS, found=text[:40]))
    return value
