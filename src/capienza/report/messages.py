"""A message as a sentence for people, and in a JSON document."""

from __future__ import annotations

from typing import Any

from capienza.errors import Message, fill
from capienza.i18n.translator import Say


def message_data(message: Message) -> dict[str, Any]:
    """The one JSON shape of a message."""
    return {
        "code": message.code,
        "message": str(message),
        "hint": fill(message.hint, message.parameters),
        "parameters": message.parameters,
    }


def sentence(message: Message, say: Say) -> str:
    """A message with what to do about it."""
    hint = say.hint(message)
    return f"{say.message(message)}: {hint}" if hint else say.message(message)
