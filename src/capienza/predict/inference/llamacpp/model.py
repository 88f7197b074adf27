"""A model as llama.cpp's own accounting needs it: layers, tensor table in the order of the file, and its keys.

Legend: block one layer of the file, the appended next-token-prediction ones included; trunk those without.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from capienza.architecture.gguf import describe_gguf
from capienza.architecture.model import Layer
from capienza.formats.tensor import Tensor

DEFAULT_ALIGNMENT = 32


class LlamaModel(msgspec.Struct, frozen=True, kw_only=True):
    """One GGUF model. `layers` are those of the trunk; `keys` the architecture's own, without its name in front.

    `table_is_read`: the tensors stand in a file; otherwise they were inferred from less, and weights are estimates.
    `parts` is the number of files that the model is split into.
    """

    architecture: str
    blocks: int
    hidden: int
    vocabulary: int
    layers: tuple[Layer, ...]
    tensors: tuple[Tensor, ...]
    keys: dict[str, Any]
    alignment: int = DEFAULT_ALIGNMENT
    parts: int = 1
    table_is_read: bool = True

    @property
    def experts(self) -> int:
        """Experts of one block; 0 for a dense model."""
        return self.number("expert_count")

    def number(self, key: str, default: int = 0) -> int:
        """A whole number among the keys, or the default."""
        value = self.keys.get(key)
        return value if isinstance(value, int) else default


def llama_model(metadata: Mapping[str, Any], tensors: Sequence[Tensor], file: str) -> LlamaModel:
    """The model in a GGUF header. Raises `InputError` for what `describe_gguf` refuses."""
    described = describe_gguf(metadata, tensors, file)
    start = f"{described.model_type}."
    keys = {key.removeprefix(start): value for key, value in metadata.items() if key.startswith(start)}
    return LlamaModel(
        architecture=described.model_type,
        blocks=keys["block_count"],
        hidden=described.hidden_size,
        vocabulary=described.vocab_size,
        layers=described.layers,
        tensors=tuple(tensors),
        keys=keys,
        alignment=metadata.get("general.alignment", DEFAULT_ALIGNMENT),
        parts=metadata.get("split.count", 1) or 1,
    )
