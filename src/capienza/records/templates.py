"""A form to fill in for each class: what it needs is written with an example, everything else waits in a comment."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from capienza.card.field import Field
from capienza.errors import phrase
from capienza.records.classes import CLASSES, may_have
from capienza.records.fields import CHILDREN

HEADING = phrase("Correct the examples, and take the # away from what you know; what is not known stays out.")
COMMENT_COLUMN = 60
_RUN = (
    "model", "revision", "task", "weight_format", "kv_format", "engine", "engine_version", "gpu", "gpus", "driver",
    "tokens", "concurrency", "configuration",
)  # fmt: skip
_OF_AN_OFFER = ("provider", "offer")
SCOPES: dict[str, tuple[str, ...]] = {
    "commercial_sheet": _OF_AN_OFFER,
    "software_page": ("model", "weight_format", "kv_format", "engine", "engine_version", "gpu"),
    "environment_probe": ("gpu", "gpus", "driver"),
    "calculation": _RUN,
    "measurement": _RUN,
    "evaluation": tuple(field for field in _RUN if field not in ("gpus", "driver", "tokens", "concurrency")),
    "plan": tuple(field for field in _RUN if field not in ("driver", "tokens", "concurrency")),
    "waiver": ("model", "offer"),
}
"""What the scope of a class states in its form; the other fields wait in comments."""
_READING = "- {{quantity: peak_bytes, value: {size}, phase: {phase}, counter: device, gpu: 0}}"
CLAIMS: dict[str, tuple[str, ...]] = {
    "commercial_sheet": ("- {quantity: ram_bytes, value: 128 GiB}", "- {quantity: gpu_link, value: nvlink}"),
    "software_page": ("- {quantity: compatibility, value: satisfied}",),
    "environment_probe": (
        '- {quantity: driver_version, value: "580.65.06"}',
        "- {quantity: gpu_reported_bytes, value: 24564 MiB, gpu: 0}",
    ),
    "calculation": (_READING.format(size="21 GiB", phase="decode"),),
    "measurement": (
        "- {quantity: outcome, value: completed}",
        "- {quantity: truncated_inputs, value: 0}",
        "- {quantity: dropped_samples, value: 0}",
        *(
            _READING.format(size=size, phase=phase)
            for phase, size in (("load", "18 GiB"), ("prefill", "21 GiB"), ("decode", "20 GiB"))
        ),
    ),
    "evaluation": (
        "- {quantity: exact_match, value: satisfied, basis: min=0.82}",
        "- {quantity: control.reference_again, value: as_expected}",
        "- {quantity: control.harmed, value: as_expected}",
    ),
}
DOCUMENTS = {"evaluation": ("name: eval/corpus.jsonl", f'sha256: "{"0" * 64}"')}


def form_template(kind: str, translate: Callable[[str], str] = str) -> str:
    """The form of one class, a key of `CLASSES`; `translate` turns its comments into the reader's language."""
    lines = [f"# {translate(HEADING)}"]
    for key, field in CHILDREN[""].items():
        if may_have(kind, key):
            lines += _block(kind, field, translate)
    return "\n".join([*lines, ""])


def _block(kind: str, field: Field, translate: Callable[[str], str]) -> Iterator[str]:
    key = field.key
    needed = field.required or key in CLASSES[kind].required
    comment = translate(field.description)
    if key == "kind":
        yield _line(f"kind: {kind}", comment)
    elif key == "scope" and kind in SCOPES:
        yield _line("scope:", comment)
        for child in CHILDREN["scope"].values():
            sign = "" if child.key in SCOPES[kind] else "# "
            yield _line(f"  {sign}{child.key}: {child.example}", translate(child.description))
    elif key == "claims" and kind in CLAIMS:
        yield _line("claims:", comment)
        yield from CLAIMS[kind]
    elif key == "document" and needed:
        yield _line("document:", comment)
        written = DOCUMENTS.get(kind, ("name: order 17",))
        keys = [line.partition(":")[0] for line in written]
        for child in CHILDREN["document"].values():
            stated = written[keys.index(child.key)] if child.key in keys else f"# {child.key}: {child.example}"
            yield _line(f"  {stated}", translate(child.description))
    else:
        yield _line(f"{'' if needed else '# '}{key}: {field.example}", comment)


def _line(text: str, comment: str) -> str:
    return f"{text.ljust(COMMENT_COLUMN)}  # {comment}"
