"""Early decoders and encoders used as decoders: what is refused, and what a note must say."""

from __future__ import annotations

from random import Random

import pytest
from small_configs import early_decoders, encoders, seeing_decoders, seq2seq

from capienza.architecture.registry import describe
from capienza.errors import InputError

GENERATORS = {
    **encoders.GENERATORS,
    **seq2seq.GENERATORS,
    **early_decoders.GENERATORS,
    **seeing_decoders.GENERATORS,
}


def small_config(model_type, **change):
    return {"model_type": model_type, **GENERATORS[model_type](Random(model_type)), **change}


# model type, what is changed, key that the error names, part of its code
REFUSED = [
    ("bert", {"is_decoder": False, "add_cross_attention": True}, "add_cross_attention", "broken-rule"),
    ("electra", {"num_attention_heads": 5}, "num_attention_heads", "broken-rule"),
    ("xmod", {"languages": ["en.XX"]}, "languages[0]", "broken-rule"),
    ("gpt_neo", {"attention_types": [[["global"], 99]]}, "attention_types", "broken-rule"),
    ("gpt_neo", {"attention_types": [[["sparse"], 1]]}, "attention_types", "not-understood"),
    ("gpt_neo", {"attention_types": ["global"]}, "attention_types", "wrong-type"),
    ("reformer", {"is_decoder": False}, "is_decoder", "broken-rule"),
    ("reformer", {"attn_layers": ["full"]}, "attn_layers[0]", "not-understood"),
    ("rwkv", {"attention_hidden_size": 4}, "attention_hidden_size", "broken-rule"),
    ("xlm", {"asm": True}, "asm", "not-understood"),
    ("xlm", {"is_encoder": False}, "is_encoder", "not-understood"),
    ("xlnet", {"reuse_len": 4}, "reuse_len", "not-understood"),
    ("moshi", {"ffn_dim": 7}, "ffn_dim", "broken-rule"),
    ("modernbert-decoder", {"local_attention": 2}, "local_attention", "broken-rule"),
    ("got_ocr2", {"text_config": {"model_type": "llama"}}, "text_config.model_type", "not-understood"),
]


@pytest.mark.parametrize("model_type, change, key, code", REFUSED)
def test_what_no_model_can_be_is_refused_by_its_key(model_type, change, key, code):
    with pytest.raises(InputError) as caught:
        describe(small_config(model_type, **change))
    assert caught.value.place.key == key
    assert caught.value.message.code == f"architecture.{code}"


NOTED = [
    ("bert", {"is_decoder": None, "add_cross_attention": None}, "not-a-decoder"),
    ("bert", {"position_embedding_type": "relative_key"}, "ignored-relative-positions"),
    ("bert", {"is_decoder": True, "add_cross_attention": True}, "cross-attention-cache"),
    ("whisper", {}, "decoder-only"),
    ("openai-gpt", {}, "no-cache"),
    ("xlnet", {"use_mems_eval": False}, "no-cache"),
    ("gpt_neo", {"num_layers": 1, "attention_types": [[["local"], 1]]}, "local-layers-in-full"),
    ("reformer", {"attn_layers": ["lsh"]}, "hash-buckets"),
    ("git", {}, "prefix-places"),
]


@pytest.mark.parametrize("model_type, change, code", NOTED)
def test_what_the_figures_leave_out_is_noted(model_type, change, code):
    notes = describe(small_config(model_type, **change)).notes
    assert f"architecture.{code}" in {note.code for note in notes}


def test_a_note_gives_the_cross_attention_of_one_encoder_token():
    """K and V of 1280 elements in 32 layers, two bytes each."""
    config = {"d_model": 1280, "decoder_layers": 32, "decoder_attention_heads": 20, "decoder_ffn_dim": 5120}
    notes = describe({"model_type": "whisper", "vocab_size": 51866, **config}).notes
    assert any("163840 B for each encoder token" in str(note) for note in notes)


@pytest.mark.parametrize("name", ["ReformerModelWithLMHead", "BertGenerationDecoder", "BertLMHeadModel"])
def test_the_names_of_language_model_heads_are_known(name):
    notes = describe(small_config("bert", architectures=[name])).notes
    assert "architecture.other-head" not in {note.code for note in notes}
