"""What a person reads of a training in Italian has no English sentence left in it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import ROOT, Outcome

MODEL = ROOT / "examples" / "configs" / "Qwen--Qwen2.5-0.5B"
CARDS = {
    "full": {"training": "{method: full, eval_microbatch: 4}"},
    "lora": {"training": "{method: lora, rank: 16, targets: all-linear}"},
    "qlora": {"training": "{method: qlora, rank: 16}", "format": "nf4"},
    "dpo": {"training": "{objective: dpo, method: lora, rank: 8}", "engine": '{name: trl, version: "0.24.0"}'},
    "grpo": {
        "training": "{objective: grpo, method: lora, rank: 8, group: 4, rollout: transformers}",
        "engine": '{name: trl, version: "1.16.0"}',
        "microbatch": "4",
    },
    "fsdp2": {"training": "{method: full, bf16: true, sharding: fsdp2}", "gpus": "4"},
}
ENGLISH = re.compile(r"\b(?:the|is|are|of|and|which|with|from|where|without|that|has|have|takes?|nothing|they)\b", re.I)
CODE = re.compile(r"`[^`]*`|[\w.\-]*[./_][\w./\-]*|\w+: \w+")
"""Names of files, settings and functions, and keys with their values."""


def _card(folder: Path, name: str) -> Path:
    given = CARDS[name]
    engine = f"engine: {given['engine']}\n" if "engine" in given else ""
    path = folder / f"{name}.yaml"
    path.write_text(
        f"capienza: 1\nname: {name}\nmodel: {{path: {MODEL}}}\ntask: fine-tuning\n"
        f"weights: {{format: {given.get('format', 'bf16')}}}\n{engine}tokens: {{required: 1024}}\n"
        f"microbatch: {given.get('microbatch', '1')}\ntraining: {given['training']}\n"
        f"placement: {{gpus: {given.get('gpus', '1')}}}\n"
    )
    return path


def _english(text: str) -> list[str]:
    return [line for line in text.splitlines() if ENGLISH.search(CODE.sub("", line))]


@pytest.mark.parametrize("name", CARDS)
def test_no_english_sentence_is_left(name: str, tmp_path: Path, capienza: Callable[..., Outcome]) -> None:
    card = _card(tmp_path, name)
    gpu = f"RTX 4090x{CARDS[name].get('gpus', '1')}"
    for command in (
        ("size", card, "--gpu", gpu),
        ("size", card, "--gpu", gpu, "--format", "md"),
        ("limits", card, "--gpu", gpu),
        ("alternatives", card, "--gpu", gpu),
        ("card", "check", card),
    ):
        found = capienza(*command, "--lang", "it")
        assert not _english(found.out + found.err), command


@pytest.mark.parametrize("name", ["qlora", "fsdp2"])
def test_no_entry_is_explained_in_english(name: str, tmp_path: Path, capienza: Callable[..., Outcome]) -> None:
    card = _card(tmp_path, name)
    entries = json.loads(capienza("size", card, "--json").out)["entries"]
    for entry in dict.fromkeys(one["name"] for one in entries):
        found = capienza("size", card, "--explain", entry, "--lang", "it")
        assert found.code == 0
        assert not _english(found.out), entry


def test_a_sentence_that_was_forgotten_would_be_found() -> None:
    assert _english("loss.shifts  false  the labels are shifted")
    assert not _english("loss.kind  full  valore predefinito di trl: transformers.loss.loss_utils.ForCausalLMLoss")
