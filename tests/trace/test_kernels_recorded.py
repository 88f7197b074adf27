"""The table of kernel scratch against recordings of a real card's allocator.

They are of a language model in fp32, 24 layers, 1024 wide, 4 texts, vocabulary of 10000 (see the README beside them).
Its embedding is an index, so the gradient is an `index_put` that adds; its norms have a weight, summed over tokens.
"""

from __future__ import annotations

import gzip
import json

import pytest

from capienza.trace import kernels
from capienza.trace.kernels_blas import workspace_bytes
from capienza.trace.kernels_call import Card
from capienza.trace.kernels_sort import RADIX

torch = pytest.importorskip("torch")

LAYERS, WIDTH, TEXTS, WORDS = 24, 1024, 4, 10_000
NORMS = 2 * LAYERS + 1
CARDS = [Card((8, 0), (2, 13), 108), Card((9, 0), (2, 13), 132), Card((8, 9), (2, 13), 128)]


def recorded(shared, name):
    path = shared / "data" / "papers" / "snapshots" / f"{name}.json.gz"
    if not path.exists():
        pytest.skip(f"{name} is not among the shared recordings")
    return json.loads(gzip.decompress(path.read_bytes()))


def sizes(recording):
    """The sizes that were asked for, in order."""
    events = recording["traces"]
    events = events[0] if isinstance(events[0][0], list) else events
    return [event[2] for event in events if event[0] == "alloc"]


@pytest.mark.parametrize("card", CARDS)
@pytest.mark.parametrize("length", [128, 256, 512, 1024])
def test_sums_of_the_weights_of_norms(shared, length, card):
    asked = sizes(recorded(shared, f"Wedsonlin__results__medium_{length}_training_memory_snapshot"))
    gradient = torch.empty(TEXTS, length, WIDTH, dtype=torch.float32, device="meta")
    predicted = [row.bytes for row in kernels.scratch(torch.ops.aten.sum.dim_IntList, (gradient, [0, 1]), {}, card)]
    # After the result, the buffer and its counters: for every norm, once.
    wanted = [WIDTH * 4, *predicted]
    found = sum(asked[place : place + len(wanted)] == wanted for place in range(len(asked)))
    if predicted:
        assert len(predicted) == 2
        assert found == NORMS
    else:
        assert 32 not in asked


def test_the_gradient_of_an_index_is_sorted(shared):
    asked = sizes(recorded(shared, "Wedsonlin__results__medium_1024_training_memory_snapshot"))
    count = TEXTS * 1024
    target = torch.empty(WORDS, WIDTH, dtype=torch.float32, device="meta")
    index = torch.empty(TEXTS, 1024, dtype=torch.int64, device="meta")
    values = torch.empty(TEXTS, 1024, WIDTH, dtype=torch.float32, device="meta")
    found = kernels.scratch(torch.ops.aten.index_put.default, (target, [index], values, True), {}, CARDS[0])
    (radix,) = [row.bytes for row in found if row.name == RADIX]
    assert radix in asked
    place = asked.index(radix)
    # The target, the indices twice over, then sorted, their order, what they are ordered by, and the radix sort.
    assert asked[place - 6 : place] == [WORDS * WIDTH * 4, *[count * 8] * 5]
    # Of the first two one is given back before: four live together.
    assert sum(row.bytes for row in found) == 4 * count * 8 + radix


@pytest.mark.parametrize("length", [128, 256, 512])
def test_a_short_sort_takes_nothing(shared, length):
    asked = sizes(recorded(shared, f"Wedsonlin__results__medium_{length}_training_memory_snapshot"))
    assert 1 in asked
    target = torch.empty(WORDS, WIDTH, dtype=torch.float32, device="meta")
    index = torch.empty(TEXTS * length, dtype=torch.int64, device="meta")
    values = torch.empty(TEXTS * length, WIDTH, dtype=torch.float32, device="meta")
    found = kernels.scratch(torch.ops.aten.index_put.default, (target, [index], values, True), {}, CARDS[0])
    assert RADIX not in {row.name for row in found}


def test_two_threads_have_a_workspace_each(shared):
    recording = recorded(shared, "silmont2000__mem_snapshot")
    alive = [block[2] for segment in recording["segments"] for block in segment[4] if block[3] == "active_allocated"]
    plain = workspace_bytes(Card((8, 0)))
    assert alive.count(plain) == 2
    assert sizes(recording).count(plain) == 2
