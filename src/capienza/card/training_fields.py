"""The fields of `training:`: three of the struct's own, and every option that the recipe understands."""

from __future__ import annotations

from typing import Any

from capienza.card.field import Field
from capienza.card.kinds import Kind
from capienza.card.model import Scalar, Training
from capienza.card.training_kinds import OWN_OPTION
from capienza.card.training_options import OPTIONS, OWN_FIELDS
from capienza.card.training_spellings import SAID_ELSEWHERE, SPELLINGS


def _training(
    options: dict[str, Scalar],
    method: str | None = None,
    rank: int | None = None,
    optimizer: str | None = None,
    **known: Any,
) -> Training:
    """Known options stand beside the free ones: what reads the recipe finds all of them in one place."""
    return Training(method=method, rank=rank, optimizer=optimizer, options=known | options)


TRAINING_FIELDS: tuple[Field, ...] = (
    Field(
        "training",
        Kind(
            text="keys and values",
            build=_training,
            rest="options",
            rest_kind=OWN_OPTION,
            rest_names=SAID_ELSEWHERE.union(SPELLINGS),
        ),
        "The fine-tuning recipe; other options may be added by the program's own names.",
        "{method: lora, rank: 16, optimizer: adamw}",
    ),
    Field("training.method", OWN_FIELDS["method"], "How the model is trained: full, lora, dora or qlora.", "lora"),
    Field("training.rank", OWN_FIELDS["rank"], "Rank of the adapters.", "16"),
    Field("training.optimizer", OWN_FIELDS["optimizer"], "The optimizer.", "adamw_torch_fused"),
    *(Field(f"training.{option.name}", option.kind, option.description, option.example) for option in OPTIONS),
)
