"""The tensors behind an entry of a pass add up to it, by two ways to walk the model."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.conftest import ROOT

from capienza.api.sizing import held_rows, size
from capienza.ledger.phase import Phase
from capienza.predict.training.held import KINDS

MODEL = ROOT / "examples" / "configs" / "Qwen--Qwen2.5-0.5B"


def _sizing(folder: Path, training: str, weights: str = "bf16", more: str = ""):  # type: ignore[no-untyped-def]
    path = folder / "card.yaml"
    path.write_text(
        f"capienza: 1\nname: held\nmodel: {{path: {MODEL}}}\ntask: fine-tuning\nweights: {{format: {weights}}}\n"
        f"tokens: {{required: 1024}}\nmicrobatch: 2\n{more}training: {{{training}}}\nplacement: {{gpus: 1}}\n"
    )
    return size(path)


@pytest.mark.parametrize(
    ("training", "weights", "more"),
    [
        ("method: full, eval_microbatch: 4", "bf16", ""),
        ("method: full, bf16: true, gradient_checkpointing: full", "fp32", "accumulation: 4\n"),
        ("method: lora, rank: 16, targets: all-linear, dropout: 0.1", "bf16", ""),
        ("method: qlora, rank: 16, gradient_checkpointing: full", "nf4", "accumulation: 4\n"),
        ("method: full, loss: chunked", "bf16", ""),
        ("objective: dpo, method: lora, rank: 8", "bf16", 'engine: {name: trl, version: "0.24.0"}\n'),
        ("objective: dpo, method: full, reference: model", "bf16", 'engine: {name: trl, version: "0.22.2"}\n'),
        ("objective: orpo, method: lora, rank: 8", "bf16", 'engine: {name: trl, version: "0.22.2"}\n'),
        ("objective: dpo, method: lora, rank: 8", "bf16", 'engine: {name: trl, version: "0.14.0"}\n'),
        ("method: full, kernels: liger, loss: fused_linear", "bf16", ""),
    ],
)
def test_rows_add_up_to_the_entry(training: str, weights: str, more: str, tmp_path: Path) -> None:
    sizing = _sizing(tmp_path, training, weights, more)
    for name in KINDS:
        entries = tuple(
            one for one in sizing.entries(name) if set(one.phases) & {Phase.FORWARD, Phase.BACKWARD, Phase.EVAL}
        )
        rows = held_rows(sizing, entries)
        for entry in entries:
            for phase in entry.phases:
                assert sum(row.total_bytes for row in rows[phase]) == entry.amount.expected, (name, phase)


def test_a_row_can_be_computed_by_hand(tmp_path: Path) -> None:
    sizing = _sizing(tmp_path, "method: full")
    rows = held_rows(sizing, sizing.entries("activations"))[Phase.FORWARD]
    product = next(row for row in rows if row.operation == "mlp.multiply")
    # What goes into down_proj: 2 x 1024 tokens, 4864 wide, in bf16, once in each of 24 layers.
    assert (product.shape, product.item_bytes, product.num_each, product.layers) == ((2048, 4864), 2, 1, 24)
    assert product.total_bytes == 2048 * 4864 * 2 * 24


def test_an_entry_of_no_pass_and_a_shared_training_have_no_rows(tmp_path: Path) -> None:
    sizing = _sizing(tmp_path, "method: full")
    assert held_rows(sizing, sizing.entries("optimizer_states")) == {}
    shared = msgspec.structs.replace(sizing, training=None)
    assert held_rows(shared, sizing.entries("activations")) == {}
