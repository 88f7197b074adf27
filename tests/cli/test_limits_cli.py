"""`limits`: the largest load that a GPU takes, against brute force, and what a person gets wrong."""

from __future__ import annotations

import json

import pytest

from capienza.api import limits, size
from capienza.card.load import load_card
from capienza.card.model import TokenCount
from capienza.decide.limits import Need, limit
from capienza.errors import phrase
from capienza.ledger.capacity import Capacity
from capienza.ledger.ledger import Total
from capienza.units import GIB, Range

CARD = """capienza: 1
name: serving
model: {{path: {path}}}
task: inference
engine: {{name: vllm, version: "0.11.2", options: {{{options}}}}}
tokens: {{required: 16384}}
concurrency: 4
margin: {{amount: 1 GiB, reason: spread}}
"""


@pytest.fixture
def card(examples, tmp_path):
    def write(options="max_num_seqs: 64, max_num_batched_tokens: 2048", model="Qwen--Qwen3-8B", more=""):
        path = tmp_path / "card.yaml"
        path.write_text(CARD.format(path=examples / "configs" / model, options=options) + more)
        return path

    return write


def expected_peak(card, tokens, sequences, gpu):
    import msgspec

    read = load_card(card)
    changed = msgspec.structs.replace(
        read, tokens=msgspec.structs.replace(read.tokens, required=TokenCount(total=tokens)), concurrency=sequences
    )
    sizing = size(changed, gpu=gpu)
    return sizing.worst_peak().amount.expected, sizing.answer.served.tightest.is_covered


@pytest.mark.parametrize("gpu", ["RTX 5090", "L40S", "A100 80GB SXM"])
def test_one_more_does_not_fit_and_the_limit_does(card, gpu):
    found = limits(card(), gpu)
    usable = found.capacity.smallest_usable_bytes
    for dimension, value in (("tokens", found.length), ("concurrency", found.concurrency)):

        def load(count, dimension=dimension):
            return (count, 4) if dimension == "tokens" else (16384, count)

        peak, covered = expected_peak(found.card.file, *load(value.expected), gpu)
        assert peak <= usable
        assert covered is not False
        if value.binds in ("pool", "kv_cache"):
            peak, covered = expected_peak(found.card.file, *load(value.expected + 1), gpu)
            assert peak > usable or covered is False
        assert value.certain <= value.expected


def test_the_models_own_length_binds(card):
    found = limits(card(), "H200")
    assert (found.length.expected, found.length.binds) == (40960, "model")


def test_the_engines_own_length_binds(card):
    found = limits(card("max_model_len: 20000"), "H200")
    assert (found.length.expected, found.length.binds) == (20000, "engine")


def test_nothing_fits_where_the_weights_alone_do_not(card):
    found = limits(card(), "T4")
    assert (found.length.expected, found.concurrency.expected) == (0, 0)
    assert found.length.binds == "weights"


def test_without_an_engine_the_limit_is_not_certain(examples, tmp_path):
    path = tmp_path / "card.yaml"
    model = examples / "configs" / "Qwen--Qwen3-8B"
    path.write_text(
        f"capienza: 1\nname: x\nmodel: {{path: {model}}}\ntask: inference\ntokens: {{required: 9}}\nconcurrency: 1\n"
    )
    found = limits(path, "L40S")
    assert found.length.certain is None
    assert "activations" in found.length.missing


@pytest.mark.parametrize(
    "more, arguments, code, words",
    [
        ("", ["--gpu", "L4x2", "--gpus", "3"], 2, "give the number once"),
        ("", ["--gpu", "nonsense 9000"], 3, "nonsense 9000"),
        ("placement: {gpus: 2}\n", ["--gpu", "L4", "--gpus", "4"], 2, "the requirement stays fixed"),
        ("placement: {gpus: 3, tensor_parallel: 3}\n", ["--gpu", "L4"], 3, "placement.tensor_parallel"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_said(capienza, card, more, arguments, code, words):
    shown = capienza("limits", card(more=more), *arguments)
    assert shown.code == code
    assert words in shown.err


def test_a_card_that_leaves_the_load_open_is_refused(capienza, examples, tmp_path):
    path = tmp_path / "card.yaml"
    path.write_text(
        f"capienza: 1\nname: x\nmodel: {{path: {examples / 'configs' / 'Qwen--Qwen3-8B'}}}\ntask: inference\n"
    )
    shown = capienza("limits", path, "--gpu", "L4")
    assert shown.code == 3
    assert "tokens.required, concurrency" in shown.err


@pytest.mark.parametrize("form", ["human", "md", "json"])
@pytest.mark.parametrize("language", ["en", "it"])
def test_every_form_shows_both_limits(capienza, card, form, language):
    shown = capienza("limits", card(), "--gpu", "L40S", "--format", form, "--lang", language)
    assert (shown.code, shown.err) == (0, "")
    if form == "json":
        data = json.loads(shown.out)
        assert data["schema"] == "capienza.limits/1"
        assert data["length"]["binds"] in ("pool", "kv_cache", "model")


def total(amount):
    return Total(Range.exact(amount))


@pytest.mark.parametrize("per_token", [1, 7, 1000, GIB])
@pytest.mark.parametrize("bound", [None, 1, 2, 1000])
def test_the_search_equals_division(per_token, bound):
    basis = phrase("made up")
    capacity = Capacity(largest_bytes=GIB, largest_basis=basis, smallest_bytes=GIB, smallest_basis=basis)
    found = limit(
        "tokens",
        1,
        lambda value: Need(peak=total(value * per_token), amounts={"kv_cache": value * per_token}),
        capacity,
        0,
        bound,
    )
    assert found.expected == found.certain == min(GIB // per_token, bound or 2**31)
