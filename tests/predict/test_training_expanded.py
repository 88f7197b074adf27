"""The events of all layers from those of distinct ones: beside the plain walk of every layer, and by hand."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from training_cards import FULL, TINY, replaced, with_adapters

from capienza.allocator.events import ALLOC, FREE, MARK, Event
from capienza.architecture.registry import describe
from capienza.predict.training.blocks.build import Builder
from capienza.predict.training.expanded import NotAlikeError, expanded
from capienza.predict.training.passes import (
    ENTRY,
    distinct,
    evaluation_events,
    events,
    passes,
    training_events,
    walked_events,
)
from capienza.predict.training.tape import ALLOCATED, FREED, SEGMENT
from capienza.recipe.recipe import Checkpointing, Evaluation, Loss

MIXED = {"head_dim": 64, "sliding_window": 64, "sliding_window_pattern": 3}
TYPES: dict[str, dict[str, Any]] = {
    "llama": {}, "gemma3_text": MIXED, "gemma2": MIXED, "olmo2": {}, "cohere": {}, "phi3": {}, "stablelm": {},
    "granite": {}, "starcoder2": {}, "glm": {"head_dim": 64},
    "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2},
}  # fmt: skip
AMP = {"precision_base": "bf16", "precision_autocast": "bf16"}
LORA = with_adapters(targets=("q_proj", "v_proj", "qkv_proj"))
METHODS = {
    "full": FULL,
    "wide": replaced(precision_base="fp32", precision_trained="fp32", precision_autocast="bf16"),
    "lora": replaced(LORA, **AMP),
    "qlora": replaced(LORA, method="qlora", precision_quantised="nf4_double", precision_widens_rest=True, **AMP),
}  # fmt: skip
RECOMPUTED = [
    Checkpointing(kind="none"), Checkpointing(kind="full"), Checkpointing(kind="full", is_reentrant=True),
]  # fmt: skip


def canonical(made: Iterable[Event]) -> list[object]:
    """Blocks by the order of their allocation; what is given back with nothing between, in any order."""
    numbers: dict[int, int] = {}
    found: list[object] = []
    for is_free, group in itertools.groupby(made, key=lambda event: event[0] == FREE):
        if is_free:
            found.append(sorted(numbers[block] for _, block, _, _ in group))
            continue
        for code, block, size, _ in group:
            if code == ALLOC:
                numbers[block] = len(numbers)
            found.append((code, block if code == MARK else numbers[block], size))
    return found


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(sorted(TYPES)),
    st.sampled_from(sorted(METHODS)),
    st.sampled_from(RECOMPUTED),
    st.sampled_from(["sdpa", "eager"]),
    st.sampled_from([Loss(kind="full"), Loss(kind="fused_linear"), Loss(kind="full", keeps_outputs=True)]),
    st.integers(1, 8),
    st.integers(1, 2),
)
def test_equal_layers_repeat_what_a_walk_of_every_layer_does(
    kind: str, method: str, recomputed: Checkpointing, attention: str, loss: Loss, layers: int, accumulation: int
) -> None:
    config = TINY | {"model_type": kind, "num_hidden_layers": layers} | TYPES[kind]
    architecture = describe(config)
    asked = replaced(
        METHODS[method], checkpointing=recomputed, attention=attention, loss=loss, accumulation=accumulation
    )
    made, phases = events(architecture, asked, config)
    plain, names = walked_events(Builder(architecture, asked, config), config)
    assert (canonical(made), phases) == (canonical(plain), names)


@pytest.mark.parametrize("kind", sorted(TYPES))
@pytest.mark.parametrize("method", sorted(METHODS))
def test_no_family_falls_back_to_the_plain_walk(kind: str, method: str) -> None:
    config = TINY | {"model_type": kind, "num_hidden_layers": 7} | TYPES[kind]
    architecture = describe(config)
    builder = Builder(architecture, METHODS[method], config)
    places, like = distinct(architecture.layers, builder.layers)
    assert len(places) < len(like)
    expanded(training_events(builder.decoder(places), METHODS[method], 1), like, ENTRY)


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(sorted(TYPES)), st.integers(1, 9), st.integers(1, 3))
def test_an_evaluation_is_as_high_as_that_of_every_layer(kind: str, layers: int, microbatch: int) -> None:
    """The level of a forward pass without gradients: one layer of each kind beside all of them."""
    config = TINY | {"model_type": kind, "num_hidden_layers": layers} | TYPES[kind]
    architecture = describe(config)
    asked = replaced(evaluation=Evaluation(microbatch=microbatch))
    found = passes(architecture, asked, config).evaluation
    assert found is not None
    alone = msgspec.structs.replace(asked, microbatch=microbatch)
    level = most = 0
    sizes: dict[int, int] = {}
    for code, block, size, _ in evaluation_events(Builder(architecture, alone, config).decoder(range(layers)), alone):
        if code == ALLOCATED:
            sizes[block] = size
            level += size
            most = max(most, level)
        elif code == FREED:
            level -= sizes[block]
    assert found.total_bytes == most


def tape(*parts: tuple[tuple[str, object], list[tuple[int, int, int]]]) -> list[tuple[int, Any, int, int]]:
    made: list[tuple[int, Any, int, int]] = []
    for name, lines in parts:
        made.append((SEGMENT, name, 0, 0))
        made += [(code, block, size, 0) for code, block, size in lines]
    return made


def walk(handed: list[tuple[int, int, int]]) -> list[tuple[int, Any, int, int]]:
    """An embedding, two layers of which the first hands over what is `handed`, a loss, and back."""
    return tape(
        (ENTRY, [(ALLOCATED, 0, 512)]),
        (("forward", 0), [(ALLOCATED, 1, 1024), (ALLOCATED, 2, 1536), (FREED, 0, 0)]),
        (("forward", 1), [(ALLOCATED, 3, 1024), (FREED, 1, 0), *handed]),
        (("backward", "loss"), [(ALLOCATED, 4, 512), (FREED, 3, 0)]),
        (("backward", 1), [(ALLOCATED, 5, 512), (FREED, 4, 0)]),
        (("backward", 0), [(FREED, 2, 0), (FREED, 5, 0)]),
    )


def test_by_hand_each_layer_gives_back_the_rows_of_the_one_before() -> None:
    made, phases = expanded(walk([]), [0, 1, 1], ENTRY)
    assert phases == ["forward", "backward"]
    assert made == [
        (MARK, 0, 0, 0), (ALLOC, 0, 512, 0),
        (ALLOC, 1, 1024, 0), (ALLOC, 2, 1536, 0), (FREE, 0, 0, 0),
        (ALLOC, 3, 1024, 0), (FREE, 1, 0, 0),
        (ALLOC, 4, 1024, 0), (FREE, 3, 0, 0),
        (MARK, 1, 0, 0), (ALLOC, 5, 512, 0), (FREE, 4, 0, 0),
        (ALLOC, 6, 512, 0), (FREE, 5, 0, 0),
        (ALLOC, 7, 512, 0), (FREE, 6, 0, 0),
        (FREE, 2, 0, 0), (FREE, 7, 0, 0),
    ]  # fmt: skip


def test_a_layer_that_hands_over_two_blocks_is_not_repeated() -> None:
    with pytest.raises(NotAlikeError):
        expanded(walk([(FREED, 2, 0)]), [0, 1, 1], ENTRY)


@pytest.mark.parametrize(
    "names",
    [
        [("reference", "entry"), ENTRY],
        [ENTRY, ("reference", 0)],
        [ENTRY, ("reference", "left")],
        [ENTRY, ("forward", 0), ("forward", "between"), ("forward", 0)],
    ],
)
def test_other_parts_than_one_pass_there_and_back_are_not_repeated(names: list[tuple[str, object]]) -> None:
    with pytest.raises(NotAlikeError):
        expanded(tape(*((name, []) for name in names)), [0], ENTRY)
