"""Digests of tokenizer and chat template: where they are found, and that what a card names comes first."""

import hashlib
import json
import struct
from pathlib import Path

import pytest

from capienza.api.model_texts import digests_of
from capienza.card.load import load_card
from capienza.card.quality_model import Quality
from capienza.errors import CapienzaError

CARD = "capienza: 1\nname: n\nmodel: {{path: {model}}}\ntask: inference\nquality: {{corpus: c.jsonl{more}}}\n"


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _digests(tmp_path: Path, model: str, more: str = "") -> tuple[str | None, str | None]:
    (tmp_path / "card.yaml").write_text(CARD.format(model=model, more=more))
    card = load_card(tmp_path / "card.yaml")
    assert isinstance(card.quality, Quality)
    return digests_of(card, card.quality)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "model").mkdir()
    return tmp_path / "model"


def test_of_a_folder(tmp_path: Path, model: Path) -> None:
    assert _digests(tmp_path, "model") == (None, None)
    (model / "tokenizer.json").write_text("tok")
    (model / "tokenizer_config.json").write_text(json.dumps({"chat_template": "old"}))
    assert _digests(tmp_path, "model") == (sha256("tok"), sha256("old"))
    (model / "chat_template.jinja").write_text("new")
    assert _digests(tmp_path, "model") == (sha256("tok"), sha256("new"))


@pytest.mark.parametrize("kept", ["[]", "{", '{"chat_template": [{"name": "default"}]}', "[" * 100_000])
def test_a_configuration_that_keeps_no_template(tmp_path: Path, model: Path, kept: str) -> None:
    (model / "tokenizer_config.json").write_text(kept)
    assert _digests(tmp_path, "model") == (None, None)


def test_what_the_card_names_comes_first(tmp_path: Path, model: Path) -> None:
    (model / "tokenizer.json").write_text("tok")
    (tmp_path / "mine.jinja").write_text("mine")
    assert _digests(tmp_path, "model", ", chat_template: mine.jinja") == (sha256("tok"), sha256("mine"))
    with pytest.raises(CapienzaError):
        _digests(tmp_path, "model", ", tokenizer: nowhere.json")


def test_of_a_gguf_file(tmp_path: Path) -> None:
    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value)) + value.encode()

    key = text("tokenizer.chat_template") + struct.pack("<i", 8) + text("chat")
    whole = b"GGUF" + struct.pack("<Iqq", 3, 0, 1) + key
    (tmp_path / "m.gguf").write_bytes(whole)
    assert _digests(tmp_path, "m.gguf") == (None, sha256("chat"))
    (tmp_path / "m.gguf").write_bytes(whole[:-2])
    assert _digests(tmp_path, "m.gguf") == (None, None)
    (tmp_path / "m.bin").write_bytes(whole)
    assert _digests(tmp_path, "m.bin") == (None, None)
