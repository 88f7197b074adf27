"""`alternatives` of a fine-tuning: every change that acts on a phase, what it costs, and what is refused."""

from __future__ import annotations

import pytest

from capienza.api import alternatives, size
from capienza.card.load import load_card

CARD = """capienza: 1
name: tuning
model: {{path: {path}}}
task: fine-tuning
engine: {{name: transformers, version: "5.24.0"}}
tokens: {{required: 512}}
microbatch: {microbatch}
accumulation: {accumulation}
training: {{{training}}}
margin: {{amount: 1 GiB, reason: spread}}
placement: {{gpus: 1}}
"""
FULL = "method: full, optim: adamw_torch, optimizer_run: foreach, bf16: true, gradient_checkpointing: false"
LORA = "method: lora, r: 8, target_modules: all-linear, optimizer: adamw, bf16: true, eval_microbatch: 8"


@pytest.fixture
def card(examples, tmp_path):
    def write(training=FULL, microbatch=4, accumulation=1, more=""):
        path = tmp_path / "card.yaml"
        model = examples / "configs" / "Qwen--Qwen2.5-0.5B"
        text = CARD.format(path=model, training=training, microbatch=microbatch, accumulation=accumulation)
        path.write_text(text + more)
        return path

    return write


def by_id(answer):
    return {one.change.id: one for one in answer.found.alternatives}


def difference(one, phase):
    return next(effect.difference_bytes for effect in one.effects if str(effect.phase) == phase)


def test_another_method_trains_less_and_its_quality_is_shown_anew(card):
    answer = alternatives(card(), "T4")
    (lora,) = [one for one in answer.found.alternatives if one.change.kind == "method" and "qlora" not in one.change.id]
    assert difference(lora, "optimizer_step_steady") < 0
    assert [part.fields for part in lora.invalidates if part.subject == "quality"] == [("configuration", "method")]
    changed = lora.change.card
    assert (changed.training.method, changed.training.rank, changed.training.options["targets"]) == (
        "lora",
        16,
        "all-linear",
    )
    assert (changed.microbatch, changed.accumulation, changed.tokens) == (4, 1, load_card(card()).tokens)


def test_a_frameworks_own_name_of_the_optimizer_goes(card):
    found = by_id(alternatives(card(), "T4"))
    one = found["training.optimizer_run: ; training.optim: ; training.optimizer: adamw_8bit"]
    assert "optim" not in one.change.card.training.options
    assert one.change.card.training.optimizer == "adamw_8bit"
    assert difference(one, "optimizer_step_steady") < 0


@pytest.mark.parametrize(
    "phase, best",
    [
        ("optimizer_step", {"optimizer", "method", "weight_format"}),
        ("backward", {"microbatch", "checkpointing", "method", "loss", "optimizer", "weight_format"}),
        ("load", {"weight_format", "method"}),
    ],
)
def test_the_first_act_on_the_phase_that_failed(card, phase, best):
    answer = alternatives(card(), "T4", failed=phase)
    first = answer.found.alternatives[0]
    if phase == "load":
        assert first.relation in ("lowers", "gives_room", "unknown")
        return
    assert first.relation == "lowers"
    lowering = {one.change.kind for one in answer.found.alternatives if one.relation == "lowers"}
    assert lowering & best


def test_an_evaluation_that_binds_is_made_smaller(card):
    answer = alternatives(card(LORA + ", eval_keeps_logits: true, eval_rows: 200"), "T4", failed="eval")
    found = by_id(answer)
    first = answer.found.alternatives[0]
    assert first.change.kind == "evaluation"
    assert first.relation == "lowers"
    assert difference(found["training.eval_accumulation_steps: 1"], "eval") < 0
    assert difference(found["training.eval_keeps_logits: false"], "eval") < 0
    smaller = by_id(alternatives(card(LORA), "T4", failed="eval"))["training.eval_microbatch: 4"]
    assert smaller.relation == "lowers"
    assert difference(smaller, "backward") == 0


def test_kept_logits_of_nobody_knows_how_many_rows_are_unknown(card):
    sizing = size(card(LORA + ", eval_keeps_logits: true"))
    (entry,) = [one for one in sizing.ledger.entries if one.name == "kept_logits"]
    assert (entry.amount, entry.needs) == (None, ("training.eval_rows",))


def test_kept_logits_by_hand(card):
    """24 rows of 512 tokens, 151936 words, fp32: 16 wait while 8 are joined to them, and all of them again."""
    sizing = size(card(LORA + ", eval_keeps_logits: true, eval_rows: 24"))
    (entry,) = [one for one in sizing.ledger.entries if one.name == "kept_logits"]
    row = 512 * 151_936 * 4
    assert entry.amount.expected == (16 + 24) * row - sizing.training.passes.evaluation.total_bytes


def test_a_merge_moves_to_main_memory(card):
    found = by_id(alternatives(card(LORA + ", export: merge"), "T4", failed="export"))
    one = found["training.export_device: cpu"]
    assert one.relation == "lowers"
    assert difference(one, "backward") == 0


def test_adapters_in_the_format_of_the_base(card):
    found = by_id(alternatives(card(LORA), "T4"))
    one = found["training.adapter_dtype: bf16"]
    assert difference(one, "optimizer_step_steady") < 0


def test_what_cannot_stand_is_refused_with_its_reason(card):
    found = by_id(alternatives(card(accumulation=2), "T4"))
    one = found["training.optimizer_in_backward: true"]
    assert one.after is None
    assert "accumulation is 2" in str(one.refused[0])


def test_what_the_framework_does_by_itself_is_said(card, capienza):
    text = CARD.replace("name: transformers", "name: trl").replace("5.24.0", "1.16.0")
    path = card()
    path.write_text(
        text.format(
            path=load_card(path).model.path,
            training="method: lora, rank: 8, optimizer: adamw",
            microbatch=2,
            accumulation=1,
        )
    )
    shown = capienza("alternatives", path, "--gpu", "T4")
    assert "training.gradient_checkpointing is full" in shown.out


def test_growing_segments_have_a_known_effect(card):
    one = by_id(alternatives(card(LORA), "T4"))["allocator: expandable_segments:True"]
    assert all(not effect.lacking for effect in one.effects)


@pytest.mark.parametrize("language", ["en", "it"])
@pytest.mark.parametrize("failed", ["backward", "eval", "checkpoint", "export", "optimizer_step", "load"])
def test_every_phase_may_fail(capienza, card, language, failed):
    arguments = ("--gpu", "T4", "--failed", failed, "--lang", language)
    shown = capienza("alternatives", card(LORA, microbatch=1), *arguments)
    assert (shown.code, shown.err) == (0, "")
