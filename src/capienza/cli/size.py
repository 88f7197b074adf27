"""`capienza size`."""

from __future__ import annotations

import importlib
from decimal import Decimal, InvalidOperation
from typing import Any

import click

from capienza.cli.base import Command, argument, option, shown_as
from capienza.errors import UsageError, phrase, template

NO_SUCH_ENTRY = template(
    "size.no-such-entry",
    "the ledger has no entry {found}; it has: {accepted}",
    "take one of these names for --explain",
)
BAD_VALUE = template("size.bad-value", "{option}: expected {accepted}, got {found}")
NEEDS_SUBJECT = template(
    "size.needs-subject",
    "expected a card, a model, or --params",
    "try: capienza size card.yaml, capienza size ./model-folder, or capienza size --params 7e9",
)
ONE_SUBJECT = template("size.one-subject", "{options} go with --params, which takes the place of a card or model")
A_COUNT = phrase("a whole number of parameters, such as 7e9")
SOME_BITS = phrase("bits per parameter, at most 64")
A_SIZE = phrase("a number and its unit, such as 6 GiB")
MAX_PARAMETERS = 10**18


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
    "--tokens", type=click.IntRange(1, 2**31), help="Bare model: tokens of one sequence, prompt and output together."
)
@option("--concurrency", type=click.IntRange(1, 2**31), help="Bare model: sequences at a time (1 unless given).")
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
        if any(value is not None for value in beside.values()):
            raise UsageError(ONE_SUBJECT(options=("--bits", "--reserve")))
        _plain(params, bits, reserve, form, as_json)
        return
    if bits is not None or reserve is not None:
        raise UsageError(ONE_SUBJECT(options=("--bits", "--reserve")))
    if subject is None:
        raise UsageError(NEEDS_SUBJECT())

    from capienza.api.sizing import size as compute
    from capienza.cli.output import show

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
    entries = sizing.entries(explain)
    if not entries:
        raise UsageError(NO_SUCH_ENTRY(found=explain, accepted=sizing.entry_names()))
    show(
        form,
        as_json,
        document=lambda say: _report("size").explain_document(sizing.card.name, entries, say),
        data=lambda: _report("size_data").entries_data(entries),
    )


def _report(name: str) -> Any:
    """A module of `report`: only the form that is asked for is loaded."""
    return importlib.import_module(f"capienza.report.{name}")


def _plain(params: str, bits: str | None, reserve: str | None, form: str, as_json: bool) -> None:
    from capienza.api.calculator import arithmetic
    from capienza.cli.output import show
    from capienza.report.arithmetic import arithmetic_data, arithmetic_document
    from capienza.units import QuantityError, parse_size

    parameters = _decimal("--params", params, MAX_PARAMETERS, A_COUNT)
    if parameters != parameters.to_integral_value():
        raise UsageError(BAD_VALUE(option="--params", accepted=A_COUNT, found=params))
    width = None if bits is None else _decimal("--bits", bits, 64, SOME_BITS)
    try:
        reserve_bytes = None if reserve is None else int(parse_size(reserve))
    except QuantityError as error:
        raise UsageError(BAD_VALUE(option="--reserve", accepted=A_SIZE, found=error.found)) from error
    rows = arithmetic(int(parameters), width, reserve_bytes)
    show(
        form,
        as_json,
        document=lambda say: arithmetic_document(rows, reserve_bytes, say),
        data=lambda: arithmetic_data(rows, reserve_bytes),
    )


def _decimal(name: str, text: str, maximum: int, accepted: str) -> Decimal:
    try:
        value = Decimal(text) if len(text) <= 40 else Decimal("NaN")
    except InvalidOperation:
        value = Decimal("NaN")
    if not (value.is_finite() and 0 < value <= maximum):
        raise UsageError(BAD_VALUE(option=name, accepted=accepted, found=text[:40]))
    return value
