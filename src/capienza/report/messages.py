"""A message in a JSON document: code and parameters to compute with, English text to read."""

from __future__ import annotations

from typing import Any

from capienza.errors import Message, fill


def message_data(message: Message) -> dict[str, Any]:
    """The one JSON shape of a message."""
    return {
        "code": message.code,
        "message": str(message),
        "hint": fill(message.hint, message.parameters),
        "parameters": message.parameters,
    }
