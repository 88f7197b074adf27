"""The reference page of training recipes: other spellings of options, optimizers, and every default with its source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

TRAINING_HEAD = """# Training recipes

What `training:` of a card may state is in [the workload card](card.md). What it does not state is the framework's
default: `engine: {name: trl, version: "1.16.0"}` names the framework, and versions of other libraries may stand under
`engine.options` (`{transformers: "5.24.0", torch: "2.13.0", peft: "0.21.2"}`). A library whose version is not stated is
taken as it was when the framework's release came out, or as the last one read. Without an engine the Trainer of
transformers is taken. `capienza card check CARD` shows the whole recipe, each field with where it comes from.

## Frameworks

Defaults are looked up in these files (`capienza/recipe/habits/data/`), the first one that has one; *read* are the
versions whose sources were read.

| framework | also written | files |
| --- | --- | --- |
"""
LAYERS_HEAD = """
| file | of | read |
| --- | --- | --- |
"""
SPELLINGS_HEAD = """
## Other spellings

Names of frameworks' own, with dashes or underscores. Two spellings of one option that say different things are
refused.

| written | is | values |
| --- | --- | --- |
"""
OPTIMIZERS_HEAD = """
## Optimizers

Also by class (`torch.optim.AdamW`, `bitsandbytes.optim.PagedAdamW8bit`, `torchao.optim.AdamW8bit`).

| name | family | how it runs | states | library |
| --- | --- | --- | --- | --- |
"""
DEFAULTS_HEAD = """
## Defaults

A row holds for the versions and for the choices named; the first row that holds is taken. `base` is the format of the
model, `microbatch` that of the training.

| option | default | where | versions | when | source |
| --- | --- | --- | --- | --- | --- |
"""


def body() -> str:
    """The page without its first line."""
    return "".join(
        (
            TRAINING_HEAD,
            *_frameworks(),
            LAYERS_HEAD,
            *_layers(),
            SPELLINGS_HEAD,
            *_spellings(),
            OPTIMIZERS_HEAD,
            *_optimizers(),
            DEFAULTS_HEAD,
            *_defaults(),
        )
    )


def _frameworks() -> Iterator[str]:
    from capienza.recipe.habits.lookup import frameworks

    for key, one in frameworks().items():
        yield f"| `{key}` ({one.title}) | {_list(one.names)} | {_list([*one.layers, 'assumed'])} |\n"


def _layers() -> Iterator[str]:
    from capienza.recipe.habits.lookup import layers

    for name, one in layers().items():
        yield f"| `{name}` | {one.title} | {', '.join(one.read)} |\n"


def _spellings() -> Iterator[str]:
    from capienza.card.training_spellings import SPELLINGS

    for name, one in sorted(SPELLINGS.items()):
        values = "" if one.values is None else ", ".join(f"{_value(a)}: {_value(b)}" for a, b in one.values.items())
        yield f"| `{name}` | `{one.option}` | {values} |\n"


def _optimizers() -> Iterator[str]:
    from capienza.recipe.optimizers import NAMES

    for name, one in NAMES.items():
        states = "format of the weights" if one.state_bits == 0 else f"{one.state_bits} bit"
        states += ", paged" if one.is_paged else ""
        run = ("" if one.run is None else one.run) + (", in the backward pass" if one.in_backward else "")
        yield f"| `{name}` | {one.family} | {run} | {states} | {one.library} |\n"


def _defaults() -> Iterator[str]:
    from capienza.recipe.habits.lookup import rows

    found = [(option, name, one, row) for name, one, option, row in rows()]
    for option, name, one, row in sorted(found, key=lambda each: each[0]):
        ranges = {one.library: (row.since, row.below), **row.others}
        versions = ", ".join(f"{library} {_range(*pair)}" for library, pair in ranges.items() if any(pair))
        when = "; ".join(f"{key}: {' or '.join(map(_value, values))}" for key, values in row.when.items())
        yield f"| `{option}` | {_value(row.value)} | {name} | {versions} | {when} | {_cell(row.source)} |\n"


def _range(since: str | None, below: str | None) -> str:
    return " ".join(part for part in (since and f"from {since}", below and f"before {below}") if part)


def _value(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else f"`{value}`"


def _list(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
