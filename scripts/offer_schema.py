"""Write the JSON Schema of the full offer form from its types: python scripts/offer_schema.py"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from capienza.catalog.forms import FullOffer

TARGET = Path(__file__).resolve().parents[1] / "src" / "capienza" / "catalog" / "data" / "offer.schema.json"
DESCRIPTION = (
    "One offer = one thing that can be bought. Unknown is absent or null, never 0 and never a default. Money is "
    "decimal text. Moments are RFC 3339 with an offset; the end of a window is outside it. GiB and MiB are binary, GB "
    "decimal, except memory_nominal_gb, which is the seller's number as written and enters no comparison."
)
CONDITIONS: list[dict[str, Any]] = [
    {
        "if": {"properties": {"kind": {"const": "total"}}},
        "then": {"required": ["term_hours"], "properties": {"term_hours": {"type": "number"}}},
    },
    {
        "if": {"required": ["amount"], "properties": {"amount": {"type": "string"}}},
        "then": {"required": ["currency"], "properties": {"currency": {"type": "string"}}},
    },
]


def build() -> dict[str, Any]:
    schema = msgspec.json.schema(FullOffer)
    schema["$defs"]["FullPrice"]["allOf"] = CONDITIONS
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "GPU offer, full form",
        "description": DESCRIPTION,
        **schema,
    }


if __name__ == "__main__":
    TARGET.write_text(json.dumps(build(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
