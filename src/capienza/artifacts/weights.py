"""What a set of weight files says: the common result of the safetensors and GGUF readers."""

from __future__ import annotations

from typing import Any

import msgspec

from capienza.errors import Message
from capienza.formats.tensor import Tensor


class Weights(msgspec.Struct, frozen=True):
    """Tensors in the order of files and headers, the files' own key/values, and what deserves a word."""

    tensors: tuple[Tensor, ...] = ()
    metadata: dict[str, Any] = {}
    notes: tuple[Message, ...] = ()
