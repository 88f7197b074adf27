"""Rows of varying length: which lengths come, what one walk says of another, and what the allocator then keeps."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_training_passes import lora, model, recipe

from capienza.allocator.events import ALLOC, FREE, MARK
from capienza.predict.training.lengths import MICROBATCHES, batch_lengths, knots, stretched
from capienza.predict.training.passes import events
from capienza.predict.training.reserved import reserved_bytes
from capienza.predict.training.resident import resident_of
from capienza.predict.training.varied import updates
from capienza.recipe.recipe import Checkpointing, Lengths, Recipe

GRANULE = 512


def varied(tokens: int, **changes: Any) -> Recipe:
    return msgspec.structs.replace(lora(tokens=tokens), lengths=Lengths(mean_tokens=1000), **changes)


@pytest.mark.parametrize(
    ("drops", "first"),
    [
        # -1000 ln(1 - u), u = 1/2, 1/4, 3/4, 1/8, 5/8: what is longer than 1000 is cut to it.
        (False, [693, 288, 1000, 134, 981]),
        # The same with u times 1 - 1/e, the part of rows that are not longer.
        (True, [380, 172, 643, 82, 503]),
    ],
)
def test_lengths_are_the_even_ones_of_an_exponential_distribution(drops: bool, first: list[int]) -> None:
    asked = varied(1000, microbatch=1)
    asked = msgspec.structs.replace(asked, lengths=Lengths(mean_tokens=1000, drops_longer=drops))
    found = batch_lengths(asked)
    assert found[:5] == first
    assert len(found) == MICROBATCHES


def test_rows_that_are_alike_have_one_length() -> None:
    assert batch_lengths(lora(tokens=777)) == [777]


@given(tokens=st.integers(1, 10**5), mean=st.integers(1, 10**5), rows=st.integers(1, 64), drops=st.booleans())
def test_no_row_is_longer_than_allowed_and_more_rows_are_padded_to_more(
    tokens: int, mean: int, rows: int, drops: bool
) -> None:
    asked = msgspec.structs.replace(lora(tokens=tokens), lengths=Lengths(mean_tokens=mean, drops_longer=drops))
    one = batch_lengths(asked)
    several = batch_lengths(msgspec.structs.replace(asked, microbatch=rows))
    assert all(1 <= length <= tokens for length in several)
    assert all(padded >= alone for padded, alone in zip(several, one, strict=True))


@settings(max_examples=25, deadline=None)
@given(tiles=st.integers(1, 16), attention=st.sampled_from(["sdpa", "eager"]))
def test_a_walk_of_one_length_is_that_of_another_to_a_block(tiles: int, attention: Any) -> None:
    tokens = 128 * tiles  # flash attention's scratch is padded to so many rows
    asked, architecture = lora(attention=attention, checkpointing=Checkpointing(kind="full")), model()
    at = knots(2048)
    walks = [events(architecture, msgspec.structs.replace(asked, tokens=one))[0] for one in at]
    found = stretched(walks, at)
    assert found is not None
    own, _ = events(architecture, msgspec.structs.replace(asked, tokens=tokens))
    for (code, block, size, _), (own_code, own_block, own_size, _) in zip(found.of(tokens), own, strict=True):
        assert (code, block) == (own_code, own_block)
        if code == ALLOC:
            assert abs(size - own_size) <= GRANULE


def test_walks_of_other_operations_are_not_stretched() -> None:
    full, adapted = events(model(), recipe())[0], events(model(), lora())[0]
    assert stretched([full, full, adapted], knots(256)) is None


@pytest.mark.parametrize("accumulation", [1, 3, 64])
def test_every_microbatch_comes_once_and_leaves_the_gradients(accumulation: int) -> None:
    asked = varied(2048, accumulation=accumulation, checkpointing=Checkpointing(kind="full"))
    walks, names = updates(model(), asked, None)
    assert len(walks) >= 2
    starts = [event for walk in walks for event in walk if event[0] == MARK and names[event[1]] == "forward"]
    assert len(starts) == MICROBATCHES
    gradients = {one.elements * 4 for one in resident_of(model(), asked).trained}
    for walk in walks:
        alive = {}
        for code, block, size, _ in walk:
            if code == ALLOC:
                alive[block] = size
            elif code == FREE:
                del alive[block]
        assert alive
        assert set(alive.values()) <= {-(-size // GRANULE) * GRANULE for size in gradients}


def test_rows_of_all_lengths_make_the_allocator_keep_more_than_the_longest_alone() -> None:
    """Each new longest logits find the segments of those before too small: 2 + 4 + 4 bytes a logit, several times."""
    architecture = model(vocab_size=64000)
    asked = lora(tokens=2048, checkpointing=Checkpointing(kind="full"))
    resident = resident_of(architecture, asked)
    alike = max(reserved_bytes(architecture, asked, resident).values())
    mixed = msgspec.structs.replace(asked, lengths=Lengths(mean_tokens=1000, drops_longer=True))
    kept = max(reserved_bytes(architecture, mixed, resident).values())
    assert kept - alike > 10 * 64000 * 2048
