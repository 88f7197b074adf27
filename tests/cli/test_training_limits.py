"""`limits` of a fine-tuning: the largest microbatch and length, by `size` itself, and what a card leaves open."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capienza.api import limits, size
from capienza.api.training_limits import TrainingSearch, divisors, loaded
from capienza.card.load import load_card
from capienza.decide.limits import Need, limit
from capienza.errors import phrase
from capienza.ledger.capacity import Capacity, fit_word
from capienza.ledger.ledger import Total
from capienza.predict.gpu import NO_GPU
from capienza.units import GIB, Range

CARD = """capienza: 1
name: tuning
model: {{path: {path}}}
task: fine-tuning
engine: {{name: trl, version: "1.16.0"}}
tokens: {{required: {tokens}}}
microbatch: {microbatch}
accumulation: {accumulation}
training: {{{training}}}
margin: {{amount: 1 GiB, reason: spread}}
"""
LORA = "method: lora, rank: 8, optimizer: adamw, gradient_checkpointing: full, eval: none"
FULL = "method: full, optimizer: adamw, gradient_checkpointing: full, eval: none"


@pytest.fixture
def card(examples, tmp_path):
    def write(training=LORA, microbatch=4, accumulation=6, tokens=1024, more=""):
        path = tmp_path / "card.yaml"
        model = examples / "configs" / "Qwen--Qwen2.5-0.5B"
        text = CARD.format(
            path=model, training=training, microbatch=microbatch, accumulation=accumulation, tokens=tokens
        )
        path.write_text(text + more)
        return path

    return write


def peak_of(card, tokens, microbatch, gpu):
    return size(loaded(load_card(card), tokens, microbatch), gpu=gpu).ledger.predicted_peak("gpu:0")


@pytest.mark.parametrize("training, gpu", [(LORA, "T4"), (FULL, "T4"), (LORA, "L4")])
def test_the_limit_fits_and_one_more_does_not_by_size(card, training, gpu):
    found = limits(card(training), gpu)
    usable = found.capacity.smallest_usable_bytes
    for one, load in (
        (found.microbatch, lambda value: (1024, value)),
        (found.length, lambda value: (value, 4)),
    ):
        assert one.expected > 0
        assert peak_of(found.card.file, *load(one.expected), gpu).need_bytes <= usable
        if one.binds != "model":
            assert peak_of(found.card.file, *load(one.expected + 1), gpu).need_bytes > usable
        if one.certain:
            assert fit_word(peak_of(found.card.file, *load(one.certain), gpu), found.capacity, GIB) == "fit"
            after = peak_of(found.card.file, *load(one.certain + 1), gpu)
            assert fit_word(after, found.capacity, GIB) != "fit" or one.certain == one.expected


def test_without_a_reading_of_the_context_a_limit_is_at_most(capienza, card):
    found = limits(card(), "MI300X")
    assert "context" in found.microbatch.missing
    assert found.microbatch.certain is None
    assert "at most" in capienza("limits", card(), "--gpu", "MI300X").out


def test_the_models_own_length_binds(card):
    found = limits(card(), "H200")
    assert (found.length.expected, found.length.binds) == (32768, "model")


def test_the_weights_bind_where_nothing_fits(card, examples, tmp_path):
    path = tmp_path / "large.yaml"
    model = examples / "configs" / "Qwen--Qwen3-8B"
    path.write_text(CARD.format(path=model, training=LORA, microbatch=1, accumulation=1, tokens=64))
    found = limits(path, "T4")
    assert (found.length.expected, found.microbatch.expected, found.same_batch) == (0, 0, None)
    assert found.microbatch.binds == "weights"


def test_the_optimizers_step_binds_a_short_full_training(card):
    need = TrainingSearch(load_card(card(FULL)), size(card(FULL)).model, 1, NO_GPU).need(8, 1)
    assert str(need.phase).startswith("optimizer_step")


def test_an_evaluation_may_bind(card):
    text = "method: lora, rank: 8, optimizer: adamw, gradient_checkpointing: full, loss: chunked, eval_microbatch: 64"
    need = TrainingSearch(load_card(card(text)), size(card(text)).model, 1, NO_GPU).need(1024, 1)
    assert str(need.phase) == "eval"


def test_the_batch_is_kept_by_accumulation(card):
    found = limits(card(), "T4")
    kept = found.same_batch
    assert kept.microbatch * kept.accumulation == kept.sequences == 24
    assert kept.microbatch <= (found.microbatch.certain or found.microbatch.expected)
    assert kept.is_certain == bool(found.microbatch.certain)


def test_where_what_grows_is_unknown_there_is_no_limit():
    basis = phrase("made up")
    capacity = Capacity(largest_bytes=GIB, largest_basis=basis, smallest_bytes=GIB, smallest_basis=basis)
    open_need = Need(peak=Total(Range.exact(1), ("activations",)), amounts={"weights": 1})
    found = limit("microbatch", 1, lambda _: open_need, capacity, 0)
    assert (found.expected, found.certain, found.binds) == (None, None, "unknown")


@given(tokens=st.integers(1, 3000), more=st.integers(1, 500), microbatch=st.integers(1, 20))
def test_the_need_grows_with_length_and_microbatch(search, tokens, more, microbatch):
    least = search.need(tokens, microbatch).peak.need_bytes
    assert search.need(tokens + more, microbatch).peak.need_bytes >= least
    assert search.need(tokens, microbatch + 1).peak.need_bytes >= least


@pytest.fixture(scope="module")
def search(tmp_path_factory):
    from pathlib import Path

    path = tmp_path_factory.mktemp("card") / "card.yaml"
    model = Path(__file__).parents[2] / "examples" / "configs" / "Qwen--Qwen2.5-0.5B"
    path.write_text(CARD.format(path=model, training=LORA, microbatch=1, accumulation=1, tokens=64))
    return TrainingSearch(load_card(path), size(path).model, 1, NO_GPU)


@given(number=st.integers(1, 5000), most=st.integers(1, 5000))
def test_divisors_are_those_of_a_trial_of_all(number, most):
    assert divisors(number, most) == [one for one in range(min(number, most), 0, -1) if number % one == 0]


@given(flat=st.integers(0, 2 * GIB), start=st.integers(0, GIB), per_one=st.integers(1, GIB), bend=st.integers(0, 1000))
def test_the_search_equals_a_walk_over_bent_needs(flat, start, per_one, bend):
    """max(a flat part, a line, a steeper line): what a training's phases look like."""

    def amount(value):
        return max(flat, start + value * per_one, start + value * per_one + (value - bend) * per_one)

    basis = phrase("made up")
    capacity = Capacity(largest_bytes=2 * GIB, largest_basis=basis, smallest_bytes=2 * GIB, smallest_basis=basis)
    asked = []

    def need(value):
        asked.append(value)
        return Need(peak=Total(Range.exact(amount(value))), amounts={"activations": amount(value)})

    found = limit("microbatch", 1, need, capacity, 0, bound=10**6).expected
    if found:
        assert amount(found) <= 2 * GIB
    assert found == 10**6 or amount(found + 1) > 2 * GIB
    assert len(set(asked)) < 80


@pytest.mark.parametrize("field", ["tokens: {required: 1024}\n", "microbatch: 4\n"])
def test_a_card_that_leaves_the_load_open_is_refused(capienza, card, field):
    path = card()
    path.write_text(path.read_text().replace(field, ""))
    shown = capienza("limits", path, "--gpu", "L4")
    assert shown.code == 3
    assert field.partition(":")[0] in shown.err


@pytest.mark.parametrize("form", ["human", "md", "json"])
@pytest.mark.parametrize("language", ["en", "it"])
def test_every_form_shows_both_limits(capienza, card, form, language):
    shown = capienza("limits", card(), "--gpu", "T4", "--format", form, "--lang", language)
    assert (shown.code, shown.err) == (0, "")
    if form == "json":
        data = json.loads(shown.out)
        assert data["concurrency"] is None
        assert data["microbatch"]["phase"] in ("forward", "backward", "optimizer_step_steady")


GRPO = "method: lora, objective: grpo, rank: 8, optimizer: adamw, gradient_checkpointing: full, eval: none"


@pytest.mark.parametrize("accumulation, step", [(1, 8), (2, 4), (6, 4), (8, 1)])
def test_of_grpo_only_microbatches_that_make_whole_groups_are_tried(card, accumulation, step):
    # Groups of 8 completions: TRL's num_generations where a card states none.
    found = limits(card(GRPO + ", prompt_tokens: 256", microbatch=8, accumulation=accumulation, tokens=1024), "H200")
    assert found.microbatch.binds != "options"
    assert found.microbatch.expected > 0
    assert found.microbatch.expected * accumulation % 8 == 0
    assert found.microbatch.expected % step == 0
