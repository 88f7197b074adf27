"""Alternatives of a llama.cpp card: the file's own formats, layers and cache on the host, its spellings of options."""

from __future__ import annotations

import pytest
from test_llama_card import CARD, model  # noqa: F401 - a fixture

from capienza.api import alternatives
from capienza.card.load import load_card


@pytest.fixture
def card(model, tmp_path):  # noqa: F811 - the fixture that is imported
    def write(options="", concurrency=2, more=""):
        path = tmp_path / "card.yaml"
        text = CARD.format(
            path=model, version=', version: "b6500"', options=options, concurrency=concurrency, more=more
        )
        path.write_text(text)
        return path

    return write


def by_id(answer):
    return {one.change.id: one for one in answer.found.alternatives}


def test_cache_and_layers_move_or_shrink(card):
    found = by_id(alternatives(card("n_gpu_layers: 3"), "RTX 4090", failed="decode"))
    smaller = found["engine.options.cache_type_k: q8_0; engine.options.cache_type_v: q8_0"]
    # 3 layers, 2 heads of 64, K and V, 2 x 1024 cells: 2 B an element in f16, 34 B for 32 of them in q8_0.
    elements = 3 * 2 * 64 * 2 * 2048
    (decode,) = [effect for effect in smaller.effects if effect.phase == "decode"]
    assert decode.difference_bytes is not None
    assert -elements * 2 < decode.difference_bytes <= -elements * 30 // 32 + 2 * 1024 * 1024
    assert smaller.relation == "lowers"
    on_host = found["engine.options.n_gpu_layers: 1"]
    assert on_host.change.kind == "offload"
    assert on_host.relation == "lowers"
    assert found["engine.options.no_kv_offload: true"].relation == "lowers"


def test_the_cards_spelling_is_kept(card):
    found = by_id(alternatives(card("--ctx-size: 8192, ngl: 3, -np: 4, -ub: 256"), "RTX 4090"))
    assert "engine.options.--ctx-size: 2048" in found
    assert "engine.options.ngl: 2" in found
    assert "engine.options.-ub: 128" in found


def test_a_cache_under_its_short_names_is_changed_where_it_stands(card):
    found = by_id(alternatives(card("ngl: 3, ctk: q8_0, ctv: q8_0"), "RTX 4090"))
    assert "engine.options.ctk: q4_0; engine.options.ctv: q4_0" in found
    assert not [one for one in found.values() if one.refused]


def test_what_llama_cpp_has_not_is_said(card):
    answer = alternatives(card(), "RTX 4090")
    kinds = {one.kind: one.reason.code for one in answer.found.not_offered}
    assert kinds["weight_format"] == "alternatives.format-of-the-file"
    assert kinds["allocator"] == "alternatives.own-allocator"


def test_the_load_stays_whole(card):
    path = card("ctx_size: 4096, parallel: 4")
    required = load_card(str(path)).tokens.required.total
    for one in alternatives(path, "RTX 4090").found.alternatives:
        for setting in one.change.settings:
            if setting.path.endswith("ctx_size"):
                assert setting.after >= required * 2
            if setting.path.endswith("parallel"):
                assert setting.after >= 2
