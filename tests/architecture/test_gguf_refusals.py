"""GGUF files that must be refused, by name, key or tensor, and never with a traceback."""

from __future__ import annotations

import pytest
from gguf_cases import GROUPED, SSM, described, small_metadata, smallest_table
from hypothesis import given
from hypothesis import strategies as st

from capienza.architecture.gguf import describe_gguf
from capienza.architecture.gguf_rules.table import INDEXED, NOT_GENERATING, PARTS, RULES
from capienza.artifacts.gguf_values import LongValue
from capienza.errors import InputError
from capienza.formats.tensor import Tensor

W = 8


def test_every_name_is_in_one_list():
    lists = [set(RULES), INDEXED, NOT_GENERATING, PARTS]
    assert sum(map(len, lists)) == len(set.union(*map(set, lists)))


@pytest.mark.parametrize(
    "name, code, says",
    [
        ("llama5", "gguf-unknown", "llama4"),
        ("zzz", "gguf-unknown", "near it: -"),
        ("glm-dsa", "gguf-indexer", "too low"),
        ("deepseek4", "gguf-indexer", "too low"),
        ("bert", "gguf-not-causal", "'bert'"),
        ("clip", "gguf-part", "'clip'"),
        ("x" * 10_000, "gguf-unknown", "xxx"),
    ],
)
def test_unknown_architectures_are_refused_by_name(name, code, says):
    with pytest.raises(InputError) as caught:
        describe_gguf({"general.architecture": name}, [], "model.gguf")
    assert caught.value.message.code == f"architecture.{code}"
    assert says in str(caught.value)
    assert caught.value.place.key == "general.architecture"
    assert len(str(caught.value)) < 1000


def test_an_adapter_is_no_model():
    with pytest.raises(InputError, match="adapter"):
        describe_gguf({"general.architecture": "llama", "general.type": "adapter"}, [], "lora.gguf")


LISTED = {"attention__sliding_window": W}


@pytest.mark.parametrize(
    "name, keys, code, key",
    [
        ("llama", {"block_count": None}, "missing-key", "block_count"),
        ("llama", {"block_count": 0}, "out-of-bounds", "block_count"),
        ("llama", {"block_count": 513}, "out-of-bounds", "block_count"),
        ("llama", {"block_count": 2**64 - 1}, "out-of-bounds", "block_count"),
        ("llama", {"block_count": 4.0}, "not-an-integer", "block_count"),
        ("llama", {"block_count": True}, "not-an-integer", "block_count"),
        ("llama", {"block_count": "4"}, "not-an-integer", "block_count"),
        ("llama", {"embedding_length": None}, "missing-key", "embedding_length"),
        ("llama", {"attention__head_count": None}, "missing-key", "attention.head_count"),
        ("llama", {"attention__head_count": [4, 4]}, "broken-rule", "attention.head_count"),
        ("llama", {"attention__head_count": [4, 4, 4, -1]}, "out-of-bounds", "attention.head_count[3]"),
        ("llama", {"attention__head_count": LongValue("i32", 5000)}, "not-an-integer", "attention.head_count"),
        ("llama", {"attention__head_count_kv": 2**31 - 1}, "out-of-bounds", "attention.head_count_kv"),
        ("llama", {"attention__head_count_kv": ["2"] * 4}, "not-an-integer", "attention.head_count_kv[0]"),
        ("llama", {"attention__key_length": -1}, "out-of-bounds", "attention.key_length"),
        ("llama", {"context_length": "long"}, "not-an-integer", "context_length"),
        ("llama", {"nextn_predict_layers": 4}, "out-of-bounds", "nextn_predict_layers"),
        ("llama", {"attention__head_count": 65}, "broken-rule", "attention.head_count"),
        ("llama", {"vocab_size": 11}, "broken-rule", "vocab_size"),
        ("gpt-oss", {}, "missing-key", "attention.sliding_window"),
        ("gpt-oss", {"attention__sliding_window": 0}, "out-of-bounds", "attention.sliding_window"),
        ("mimo2", LISTED, "missing-key", "attention.sliding_window_pattern"),
        ("mimo2", LISTED | {"attention__sliding_window_pattern": 4}, "not-a-list", "sliding_window_pattern"),
        ("mimo2", LISTED | {"attention__sliding_window_pattern": [1, 0]}, "broken-rule", "sliding_window_pattern"),
        ("mimo2", LISTED | {"attention__sliding_window_pattern": ["1"] * 4}, "not-a-flag", "sliding_window_pattern[0]"),
        ("gemma4", LISTED | {"attention__sliding_window_pattern": [1] * 4, "attention__shared_kv_layers": 3},
         "broken-rule", "sliding_window_pattern"),
        ("gemma4", LISTED | {"attention__sliding_window_pattern": [1] * 4, "attention__shared_kv_layers": 5},
         "out-of-bounds", "shared_kv_layers"),
        ("deepseek2", {"attention__key_length_mla": 192}, "broken-rule", "attention.key_length_mla"),
        ("mamba", {}, "missing-key", "ssm.inner_size"),
        ("mamba2", SSM | {"ssm__conv_kernel": 0}, "out-of-bounds", "ssm.conv_kernel"),
        ("lfm2", {"attention__head_count_kv": [0, 2, 2, 0]}, "missing-key", "shortconv.l_cache"),
        ("rwkv6", {}, "missing-key", "wkv.head_size"),
        ("nemotron_h", GROUPED | {"attention__head_count_kv": [0] * 4}, "missing-key", "feed_forward_length"),
        ("qwen3next", GROUPED | {"attention__recurrent_layers": [1]}, "broken-rule", "recurrent_layers"),
        ("qwen3next", GROUPED | {"full_attention_interval": 0}, "out-of-bounds", "full_attention_interval"),
    ],
)  # fmt: skip
def test_bad_metadata_is_refused_with_its_key(name, keys, code, key):
    stated = small_metadata(name, **keys)
    sound = small_metadata(name, vocab_size=10)
    with pytest.raises(InputError) as caught:
        describe_gguf(stated, smallest_table(sound), "model.gguf")
    assert caught.value.message.code == f"architecture.{code}"
    assert caught.value.place.file == "model.gguf"
    assert key in caught.value.place.key


@pytest.mark.parametrize(
    "drop, extra, code, says",
    [
        ("token_embd", [], "gguf-incomplete", "token_embd.weight"),
        ("blk.2.", [], "gguf-incomplete", "blk.2"),
        ("token_embd", [Tensor("token_embd.weight", (100, 32), "fp16", 0)], "broken-rule", "embedding_length == 32"),
        ("token_embd", [Tensor("token_embd.weight", (100,), "fp16", 0)], "gguf-incomplete", "token_embd.weight"),
        ("none", [Tensor("blk.1.attn_k.weight", (32, 64), "fp16", 0)], "broken-rule", "== 32 "),
        ("none", [Tensor("blk.1.attn_k.weight", (), "fp16", 0)], "gguf-dimensions", "0 dimensions"),
        ("none", [Tensor("blk.1.ffn_down.weight", (1, 2, 3), "fp16", 0)], "gguf-dimensions", "3 dimensions"),
        ("none", [Tensor("blk.1.ffn_down.7.weight", (1,), "fp16", 0)], "gguf-dimensions", "1 dimensions"),
        ("none", [Tensor("blk.1.ffn_down_exps.weight", (), "fp16", 0)], "gguf-dimensions", "0 dimensions"),
        ("none", [Tensor("blk.1.ffn_down_exps.weight", (8, 64, 9), "fp16", 0)], "broken-rule", "<= 8"),
        ("none", [Tensor("blk.1.attn_v.weight", (65, 64), "fp16", 0)], "broken-rule", "== 65 "),
    ],
)
def test_a_table_that_does_not_match_is_refused(drop, extra, code, says):
    stated = small_metadata("llama")
    tensors = [tensor for tensor in smallest_table(stated) if not tensor.name.startswith(drop)]
    with pytest.raises(InputError, match=says) as caught:
        describe_gguf(stated, [*tensors, *extra], "model.gguf")
    assert caught.value.message.code == f"architecture.{code}"


def test_a_latent_cache_needs_the_split_projections():
    keys = {"attention__key_length_mla": 192, "attention__value_length_mla": 128}
    whole = (Tensor("blk.0.attn_kv_b.weight", (64, 64), "fp16", 0),)
    with pytest.raises(InputError, match="attn_k_b"):
        described("deepseek2", whole, **keys)


@pytest.mark.parametrize("tokens", [LongValue("string", 99), ["a", "b"]])
def test_the_tokenizer_must_agree_with_the_embedding(tokens):
    stated = small_metadata("llama") | {"tokenizer.ggml.tokens": tokens}
    with pytest.raises(InputError, match="100"):
        describe_gguf(stated, smallest_table(stated), "model.gguf")


VALUES = st.one_of(
    st.integers(-(2**64), 2**64),
    st.integers(0, 600),
    st.booleans(),
    st.floats(allow_nan=True),
    st.text(max_size=5),
    st.lists(st.integers(-1, 9) | st.booleans() | st.none(), max_size=5),
    st.builds(LongValue, st.just("i32"), st.integers(0, 2**40)),
)

NAMES = st.sampled_from(
    [
        f"blk.{block}.{name}.weight"
        for block in ("0", "3", "007", "999999", "9999999")
        for name in ("attn_k", "attn_v", "attn_kv_b", "ffn_down", "ffn_down.0", "ffn_down_exps", "channel_mix_value")
    ]
)
SHAPES = st.lists(st.integers(0, 70), max_size=4).map(tuple)


@given(name=st.sampled_from(sorted(RULES)), data=st.data())
def test_any_value_of_any_key_is_described_or_refused(name, data):
    stated = small_metadata(name, **GROUPED, **LISTED, wkv__head_size=16, kda__head_dim=8, shortconv__l_cache=3)
    stated |= {f"{name}.attention.sliding_window_pattern": [1, 0, 1, 0], f"{name}.feed_forward_length": [0, 0, 9, 9]}
    tensors = smallest_table(stated)
    for key in data.draw(st.lists(st.sampled_from(sorted(stated)), max_size=2)):
        stated[key] = data.draw(VALUES)
    tensors += [Tensor(name, shape, "fp16", 0) for name, shape in data.draw(st.dictionaries(NAMES, SHAPES)).items()]
    try:
        architecture = describe_gguf(stated, tensors, "model.gguf")
    except InputError as error:
        assert error.place.key, "an error without a key"  # noqa: PT017
    else:
        assert 0 < len(architecture.layers) <= 512
        assert all(layer.attention is None or layer.attention.cache_width >= 0 for layer in architecture.layers)
