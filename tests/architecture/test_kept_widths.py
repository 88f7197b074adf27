"""What a layer keeps for each token beside plain K and V: index keys, several passes, compressed groups."""

from __future__ import annotations

import msgspec
import pytest

from capienza.architecture.model import Architecture, Attention, Compression, Layer
from capienza.architecture.ngram_tables import is_prime
from capienza.architecture.reading import Config
from capienza.errors import InputError
from capienza.predict.cache import cache_need

PLAIN = Attention(kind="full", num_attention_heads=4, num_key_value_heads=2, key_head_dim=8, value_head_dim=6)


def need(attention, tokens):
    model = Architecture(
        model_type="test",
        hidden_size=8,
        vocab_size=9,
        max_position_embeddings=None,
        tied_head=False,
        layers=(Layer(index=0, attention=attention),),
    )
    return cache_need(model, tokens, "bf16", "bf16")


def replaced(**values):
    return msgspec.structs.replace(PLAIN, **values)


@pytest.mark.parametrize(
    "attention, kept, whole",
    [
        (PLAIN, 28, 0),
        (replaced(index_width=5), 33, 5),
        (replaced(passes=3), 84, 0),
        (replaced(passes=3, index_width=5), 99, 15),
        (replaced(kind="latent", latent_width=10, index_width=5), 15, 15),
        (replaced(kind="cross"), 0, 0),
        (replaced(shares_cache_of=0, index_width=5), 0, 0),
    ],
)
def test_elements_of_one_token(attention, kept, whole):
    assert (attention.cache_width, attention.whole_width) == (kept, whole)
    assert need(attention, 10).windowed_bytes == 10 * kept * 2
    assert need(attention, 10).latent_bytes == 10 * whole * 2


@pytest.mark.parametrize("tokens, bytes_", [(3, 3 * 6 * 2), (4, 8 * 2 + 7 * 2 + 5 * 4), (9, 2 * 8 * 2 + 34 + 6 * 2)])
def test_compressed_groups_keep_an_entry_and_what_waits_for_the_next(tokens, bytes_):
    group = Compression(rate=4, width=8, pending=6, carried=7, carried_fp32=5)
    plain, both = need(replaced(window=2), tokens), need(replaced(window=2, compressions=(group,)), tokens)
    assert both.windowed_bytes - plain.windowed_bytes == bytes_
    assert both.latent_bytes == bytes_


def test_one_of_several_older_names_is_read_and_two_that_differ_are_refused():
    config = Config({"b": 3}).with_aliases(a=("b", "c"))
    assert config.integer("a") == 3
    assert config.has("a")
    with pytest.raises(InputError, match="a == c"):
        Config({"b": 3, "c": 4}).with_aliases(a=("b", "c")).integer("a")


def test_primes_equal_those_of_trial_division():
    numbers = [*range(2, 2000), 25326001, 3_215_031_749, 20_000_003]
    for number in numbers:
        plain = all(number % divisor for divisor in range(2, int(number**0.5) + 1))
        assert is_prime(number) == plain, number
