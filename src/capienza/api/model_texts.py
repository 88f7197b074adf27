"""Digests of a model's tokenizer and chat template: of the files that a card names, else of those of the model."""

from __future__ import annotations

import json
from pathlib import Path

from capienza.artifacts.gguf import read_gguf
from capienza.artifacts.gguf_tokenizer import tokenizer_digests
from capienza.artifacts.source import LocalFile
from capienza.canon import digest_bytes
from capienza.card.model import Card
from capienza.card.quality_model import Quality
from capienza.errors import CapienzaError
from capienza.quality.corpus import digest

_MOST_TEMPLATE_BYTES = 16 * 2**20


def digests_of(card: Card, quality: Quality) -> tuple[str | None, str | None]:
    """Of tokenizer and chat template; None where neither the card nor the model's file or folder gives one.

    Raises `UnreachableError` for a file that the card names and that cannot be read.
    """
    tokenizer, chat = _of_model(Path(card.model.path)) if card.model.path else (None, None)
    return (
        digest(quality.tokenizer) if quality.tokenizer else tokenizer,
        digest(quality.chat_template) if quality.chat_template else chat,
    )


def _of_model(path: Path) -> tuple[str | None, str | None]:
    if path.is_file():
        return _of_gguf(path) if path.suffix.casefold() == ".gguf" else (None, None)
    tokenizer, chat = path / "tokenizer.json", path / "chat_template.jinja"
    return (
        digest(str(tokenizer)) if tokenizer.is_file() else None,
        digest(str(chat)) if chat.is_file() else _kept_template(path),
    )


def _of_gguf(path: Path) -> tuple[str | None, str | None]:
    """Nothing for a damaged file: that it cannot be read is said by whoever sizes the model."""
    try:
        with LocalFile(path) as source:
            read_gguf(source)
            return tokenizer_digests(source)
    except CapienzaError:
        return None, None


def _kept_template(folder: Path) -> str | None:
    """The digest of the chat template that older releases keep in tokenizer_config.json."""
    path = folder / "tokenizer_config.json"
    try:
        data = path.read_bytes() if path.stat().st_size <= _MOST_TEMPLATE_BYTES else b"{}"
        kept = json.loads(data).get("chat_template")
    except (OSError, ValueError, AttributeError, RecursionError):
        return None
    return digest_bytes(kept.encode()) if isinstance(kept, str) else None
