"""`capienza size`."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

import click

from capienza.cli.base import Command, argument, option, shown_as
from capienza.errors import UsageError, phrase, template

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

    from capienza.api.size import size as compute
    from capienza.cli.output import show
    from capienza.report.size import explain_document, size_document
    from capienza.report.size_data import size_data

    sizing = compute(subject, gpu=gpu, revision=revision, tokens=tokens, concurrency=concurrency, weights=weights)
    if explain is not None:
        from capienza.report.size_data import entry_data

        entries = [entry for entry in sizing.ledger.entries if entry.name == explain]
        show(
            form,
            as_json,
            document=lambda say: explain_document(sizing, explain, say),
            data=lambda: {"schema": "capienza.entry/1", "entries": [entry_data(entry) for entry in entries]},
        )
        return
    from capienza.report.sheet import sheet_document

    show(
        form,
        as_json,
        document=lambda say: size_document(sizing, say),
        data=lambda: size_data(sizing),
        sheet=lambda say: sheet_document(sizing, say),
    )


def _plain(params: str, bits: str | None, reserve: str | None, form: str, as_json: bool) -> None:
    from capienza.api.arithmetic import arithmetic
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
