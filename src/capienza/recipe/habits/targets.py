"""The modules that PEFT gives adapters when nobody says which, by the model's type."""

from __future__ import annotations

import functools

import msgspec

from capienza.recipe.choices import Choice
from capienza.recipe.habits.lookup import DATA, HABIT

FILE = DATA / "targets" / "peft.json"
TABLE = "peft.utils.constants.TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING"


class Targets(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Ends of module names by model type, and the version of PEFT that they were read in."""

    read: str
    targets: dict[str, str]


def default_targets(model_type: str | None) -> Choice | None:
    """PEFT's targets for a type of model; None where PEFT has none and asks for them."""
    table = _table()
    found = table.targets.get(model_type or "")
    return None if found is None else Choice(found, HABIT(library="peft", version=table.read, read_in=TABLE))


@functools.cache
def _table() -> Targets:
    return msgspec.json.decode(FILE.read_bytes(), type=Targets)
