"""Writes docs/reference from the code: commands, card fields, codes. `--check` only says whether it is up to date."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, get_args, get_origin

import click
import msgspec
from texts import ROOT, commands, module_names
from training_page import body as training_body

REFERENCE = ROOT / "docs" / "reference"
HEAD = "<!-- Written by scripts/docs from the code; edits here are lost. -->\n\n"
COMMANDS_HEAD = """# Commands

Data goes to standard output, talk to standard error. Exit codes: see [exit codes](exit-codes.md).
"""
CODES_HEAD = """# Codes

Errors, reasons, notes and ways to settle carry a code and parameters; the sentence is made when it is shown. A code
keeps its meaning; its wording may change.

| code | text | what to do |
| --- | --- | --- |
"""
CARD_HEAD = """# The workload card

One YAML file. A field that is left out is *not stated*: the verdicts that need it stay *to confirm*. Written as `none`
(where accepted) it is *not applicable*.

| field | type | required | meaning | example |
| --- | --- | --- | --- | --- |
"""
EVIDENCE_HEAD = """# The form of evidence

One YAML or JSON file for each piece; `capienza evidence add --kind KIND --template` prints one to fill in. A bare date
is a whole day in `timezone`; a date-time needs its offset.

| kind | becomes a record of kind | method | must state, beside `date` |
| --- | --- | --- | --- |
{classes}
| field | type | required | meaning | example |
| --- | --- | --- | --- | --- |
"""
QUANTITIES_HEAD = """
## What `claims.quantity` may be

Any other name is kept and said to decide nothing. An evaluation states the metrics of the card under their own names,
a waiver names criteria. A size is given with its unit and kept in bytes.

| quantity | unit | read by | meaning |
| --- | --- | --- | --- |
"""
API_HEAD = """# Python

One function for each command, in `capienza.api`. Each takes plain values and returns a frozen result; none prints.
Errors are of the tree in `capienza.errors`, with the code, the place and the hint that the command line shows.

```python
import capienza.api

sizing = capienza.api.size("examples/configs/Qwen--Qwen3-8B", tokens=8192, concurrency=4, gpu="RTX 4090")
print(sizing.ledger.predicted_peak("gpu:0"))  # three figures in bytes, and the entries that are not in them
print(sizing.fit.word, sizing.fit.margin_bytes)
```
"""
OFFERS_HEAD = """# The offers file

A list of offers, in YAML, JSON, JSON lines or CSV. GPUs = `lots` x `cards`; `total` covers all lots for all `days`;
paid hours = 24 x days. What the seller does not state is left out (in CSV: left empty) and stays unknown. Zero is a
value, except as a price, where it is read as not known. A bare date is a whole day in the time zone of the card, else
in UTC; a date-time needs its offset.

In CSV, with a header in any order, a key inside another is written with a point (`host.ram`); `fees` needs YAML or
JSON.
`capienza offers import FILE --out FILE.jsonl` writes the full form, which every kind of file may hold too; its JSON
Schema is `capienza/catalog/data/offer.schema.json` of the package. Examples: `examples/offers/`.

```yaml
- id: l4-a
  provider: seller
  gpu: L4
  cards: 1
  days: 3
  total: 60 USD
  document: {id: sheet-12, version: "2026-11", retrieved: 2026-11-29}
```

| key | accepted | required | meaning |
| --- | --- | --- | --- |
"""
ACCEPTED = {
    "line": "one line of text",
    "text": "text",
    "money": "amount and currency, such as 47.14 USD",
    "size": "size with its unit, such as 64 GiB",
    "count": "whole number from {low} to {high}",
    "positive": "number above 0, at most {high}",
    "quantity": "number from {low} to {high}",
    "percent": "number from {low} to {high}",
    "day or moment": "date, or date-time with offset",
    "country": "two capital letters, such as IT",
    "mig profile": "MIG profile, such as 3g.40gb",
}
OFFER_MEANINGS = {
    "id": "The name of the offer, once in a file.",
    "provider": "Who sells it.",
    "gpu": "The seller's name of the GPU; every card that it may mean is considered.",
    "memory": "The seller's text; it tells cards of one name apart, and is compared with nothing.",
    "reported": "The total that the driver prints, as `nvidia-smi --query-gpu=memory.total --format=csv` shows it.",
    "ecc": "Error correction of the GPU memory, which takes a part of it on some cards.",
    "share": "What of a GPU is sold: all of it, or a part.",
    "mig_profile": "The MIG instance, where a part is sold.",
    "form_factor": "The form of the card, which tells variants apart.",
    "lots": "Equal lots of the offer.",
    "cards": "GPUs of one lot.",
    "gpus_per_node": "GPUs in one server.",
    "nodes": "Servers.",
    "gpu_link": "The link between the GPUs of one server.",
    "node_link_gbit_s": "The link between servers.",
    "days": "Paid days of a package; beside an hourly price, the term that is paid at least unless cancellable.",
    "total": "The price of a package: all lots, all days.",
    "hourly": "The price of one hour, in place of a total.",
    "per": "What the hourly price pays for.",
    "usable_hours": "Hours that can be worked, where fewer than the paid ones.",
    "starts": "From when the GPUs can be used, as the seller confirms it.",
    "ends": "Until when; how long an hourly price is paid does not follow from it.",
    "min_hours": "The least that is charged.",
    "max_hours": "The most that can be booked.",
    "billing_step_s": "Seconds that time is rounded up to.",
    "interruptible": "May the seller take the GPUs back?",
    "tax_included": "Is tax in the price?",
    "tax_percent": "The rate of tax that comes on top of the price and the fees, unless `tax_included` is true.",
    "cancellable": "Can it be cancelled?",
    "unused_refunded": "Is unused time paid back?",
    "fees": "What is paid besides, each with the keys below.",
    "fees.kind": "What it is for.",
    "fees.amount": "What it is; of a fee in percent the bare number.",
    "fees.unit": "What it is paid for; `percent` is of the price alone (the total, or the hours paid).",
    "fees.included": "How much of it is free: GB, or hours.",
    "fees.month_hours": "How many hours a month has, of a fee per GB and month.",
    "fees.billed_when_stopped": "Is it charged for hours without work?",
    "host.vcpus": "Processor threads of one server.",
    "host.ram": "Main memory of one server.",
    "host.disk": "Disk space of one server.",
    "host.cpu_arch": "The kind of processor.",
    "host.os": "The operating system.",
    "host.driver_version": "The GPU driver.",
    "host.cuda_max": "The newest CUDA that the driver runs.",
    "host.rocm": "The ROCm version.",
    "host.managed_application": "An application that is ready to use.",
    "document.id": "The sheet or quote that states the offer; without one nothing is documented.",
    "document.version": "Its version.",
    "document.retrieved": "When it was read.",
    "document.valid_from": "From when it holds.",
    "document.valid_until": "Until when it holds; a statement that has ended leaves the offer to confirm.",
    "document.source": "Where it is from.",
    "region": "The seller's region.",
    "country": "The country.",
    "stock": "Availability as shown; a wish, not a promise.",
    "stock_checked": "When that was read.",
    "notes": "Anything else.",
}


def api_page() -> str:
    """Every function of the API with its signature and what it says of itself."""
    import capienza.api

    functions = ((name, getattr(capienza.api, name)) for name in capienza.api.__all__)
    shown = (
        f"## `{name}`\n\n```text\n{name}{_signature(function)}\n```\n\n{inspect.getdoc(function)}\n"
        for name, function in functions
    )
    return HEAD + API_HEAD + "\n" + "\n".join(shown)


class _Plain(str):
    """An annotation that is shown without quotes."""

    __slots__ = ()
    __repr__ = str.__str__


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    """The signature with its annotations as the source has them."""
    found = inspect.signature(function)
    parameters = [one.replace(annotation=_Plain(one.annotation)) for one in found.parameters.values()]
    return found.replace(parameters=parameters, return_annotation=_Plain(found.return_annotation))


def offers_page() -> str:
    """Every key of the flat form."""
    from capienza.catalog.forms import FlatOffer

    return HEAD + OFFERS_HEAD + "".join(_offer_rows(FlatOffer, ""))


def _offer_rows(form: type[msgspec.Struct], before: str) -> Iterator[str]:
    for field in msgspec.structs.fields(form):
        is_optional = type(None) in get_args(field.type)
        kind = next(one for one in get_args(field.type) if one is not type(None)) if is_optional else field.type
        name = f"{before}{field.encode_name}"
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            yield from _offer_rows(kind, f"{name}.")
        else:
            required = "yes" if field.required else ""
            yield f"| `{name}` | {_cell(_accepted(kind))} | {required} | {_cell(OFFER_MEANINGS[name])} |\n"
        if name == "fees":
            from capienza.catalog.forms import FlatFee

            yield from _offer_rows(FlatFee, "fees.")


def _accepted(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return ", ".join(f"`{word}`" for word in get_args(kind))
    if kind is bool:
        return "true or false"
    if not hasattr(kind, "__metadata__"):
        return "amount and currency, such as 47.14 USD; or a number from 0 to 100"
    meta = kind.__metadata__[0]
    if meta.title is None:
        return f"list, at most {meta.max_length} items"
    return ACCEPTED[meta.title].format(low=meta.ge, high=f"{meta.le:.0f}" if meta.le is not None else "")


def commands_page() -> str:
    """Every command with its help, as the terminal shows it."""
    from capienza.cli.main import cli

    shown = (
        f"## `{name}`\n\n```text\n{command.get_help(click.Context(command, info_name=name, terminal_width=100))}\n```\n"
        for name, command in commands(cli)
    )
    return HEAD + COMMANDS_HEAD + "\n" + "\n".join(shown)


def codes_page() -> str:
    """Every code that an error, a reason or a note can carry."""
    for name in module_names():
        importlib.import_module(name)
    from capienza.errors import TEMPLATES

    rows = (f"| `{code}` | {_cell(made.text)} | {_cell(made.hint)} |\n" for code, made in sorted(TEMPLATES.items()))
    return HEAD + CODES_HEAD + "".join(rows)


def card_page() -> str:
    """Every field of a workload card."""
    from capienza.card.fields import fields

    return HEAD + CARD_HEAD + _field_rows(fields())


def evidence_page() -> str:
    """Every field of the form of evidence."""
    from capienza.records.classes import CLASSES
    from capienza.records.fields import FIELDS
    from capienza.records.quantities import QUANTITIES

    classes = (
        f"| `{name}` | `{made.kind}` | {made.method} | {', '.join(f'`{key}`' for key in made.required)} |\n"
        for name, made in CLASSES.items()
    )
    page = HEAD + EVIDENCE_HEAD.format(classes="".join(classes)) + _field_rows(FIELDS)
    return page + QUANTITIES_HEAD + "".join(map(_quantity_row, QUANTITIES))


def _quantity_row(one: Any) -> str:
    criteria = ", ".join(one.criteria) or "none"
    return f"| `{one.name}` | {one.unit} | {criteria} | {_cell(one.meaning)} |\n"


def _field_rows(fields: Iterable[Any]) -> str:
    return "".join(
        f"| `{field.path}` | {_cell(field.type_text)} | {'yes' if field.required else ''} | "
        f"{_cell(field.description)} | `{_cell(str(field.example))}` |\n"
        for field in fields
    )


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")


RULES_HEAD = """# Rules of compatibility

Every rule that `decide`, `size --gpu` and `capienza rules` know, as the tables of the package hold them
(`capienza/catalog/data/rules.csv`, `vllm_quant_hw.csv`, `cuda_drivers.csv`). A rule holds at the releases that it was
read at; by a rule of another release nothing is excluded. *needs*: compute capabilities, built code (`sm_86` runs on
8.6 and on a higher minor of the same major), gfx names, a package, or a property of the server; `!=` is what a table
documents as not supported. *otherwise*: `refused`, `no_kernel` (no code for the chip), `slower` (in the same memory),
`silently_larger` (the weights are held in a larger format).

| rule | read in | read on | speaks of | needs | otherwise | source | note |
| --- | --- | --- | --- | --- | --- | --- | --- |
"""
PINS_HEAD = """
What a release of an engine is known to bring along:

| engine | releases | brings | source |
| --- | --- | --- | --- |
"""


def rules_page() -> str:
    """Every rule with its source, and what engines bring along."""
    from capienza.catalog.outcome import needed_text
    from capienza.catalog.rules import load_pins, load_rules

    rules = "".join(
        f"| `{rule.id}` | {f'{rule.software} {rule.releases}'.strip()} | {rule.date} | {', '.join(rule.subjects)} | "
        f"{_cell(_vendor(rule.vendor) + needed_text(rule))} | {_cell(_otherwise(rule))} | {_cell(rule.source)} | "
        f"{_cell(rule.note)} |\n"
        for rule in load_rules()
    )
    pins = "".join(
        f"| {pin.engine} | {_span(pin.first, pin.last)} | {pin.package} {pin.version} | {_cell(pin.source)} |\n"
        for pin in load_pins()
    )
    return HEAD + RULES_HEAD + rules + PINS_HEAD + pins


def _vendor(vendor: str) -> str:
    return f"{vendor}: " if vendor else ""


def _otherwise(rule: Any) -> str:
    only = f" (established on {', '.join(rule.classes)} alone)" if rule.classes else ""
    larger = f", {rule.becomes} in its place" if rule.becomes else ""
    return rule.violation + larger + only


def _span(first: tuple[int, ...], last: tuple[int, ...]) -> str:
    ends = dict.fromkeys(".".join(map(str, release)) for release in (first, last))
    return " .. ".join(ends)


def training_page() -> str:
    """Spellings, optimizers and defaults of training recipes."""
    return HEAD + training_body()


PAGES = {
    "rules.md": rules_page,
    "commands.md": commands_page,
    "codes.md": codes_page,
    "card.md": card_page,
    "evidence.md": evidence_page,
    "offers.md": offers_page,
    "api.md": api_page,
    "training.md": training_page,
}


def main(arguments: list[str]) -> int:
    """Write the pages, or with --check compare them."""
    stale = []
    for name, page in PAGES.items():
        path, text = REFERENCE / name, page()
        if "--check" in arguments:
            if not path.exists() or path.read_text() != text:
                stale.append(name)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    if stale:
        sys.stderr.write(f"out of date, run scripts/docs: {', '.join(stale)}\n")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
