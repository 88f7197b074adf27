"""Helpers of the offer tests: a text becomes a file, a file becomes offers, findings and problems."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from capienza.catalog.notes import Findings
from capienza.catalog.offer import Offer
from capienza.catalog.read import read_offers
from capienza.errors import NOWHERE, InputError, InputErrors

EXAMPLES = Path(__file__).parents[2] / "examples" / "offers"
SHARED = Path(__file__).parents[2] / ".." / "shared" / "data"


class Outcome(NamedTuple):
    offers: list[Offer]
    findings: Findings
    problems: list[InputError]

    @property
    def codes(self) -> list[str]:
        return [problem.message.code.removeprefix("catalog.") for problem in self.problems]

    @property
    def found(self) -> list[tuple[str | None, str]]:
        return [(finding.offer, finding.message.code.removeprefix("catalog.")) for finding in self.findings.kept]

    def places(self) -> list[str]:
        """line:column: key of each problem."""
        return [str(problem.place).split("offers.", 1)[1].split(":", 1)[-1] for problem in self.problems]


def read_text(folder: Path, ending: str, text: str | bytes, **options: Any) -> Outcome:
    path = folder / f"offers.{ending}"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_path(path, **options)


def read_path(path: Path, **options: Any) -> Outcome:
    findings = Findings()
    offers: list[Offer] = []
    problems: list[InputError] = []
    try:
        for offer in read_offers(path, findings, **options):
            offers.append(offer)  # noqa: PERF402 - what was given before an error counts
    except InputErrors as error:
        problems = list(error.problems)
    except InputError as error:
        problems = [error]
    return Outcome(offers, findings, problems)


def placeless(offer: Offer) -> Offer:
    return msgspec.structs.replace(offer, place=NOWHERE)


def flat(**changes: str) -> str:
    """One YAML item: the first package of the design page, with keys changed or (empty text) left out."""
    words = {
        "id": "a",
        "provider": "example",
        "gpu": "L4",
        "cards": "1",
        "days": "3",
        "total": "47.14 USD",
        **changes,
    }
    return "- {" + ", ".join(f"{key}: {value}" for key, value in words.items() if value) + "}\n"
