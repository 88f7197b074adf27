"""The closed form beside a trace: which groups of entries are named, worked by hand and as properties."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from capienza.ledger.entry import Entry
from capienza.ledger.ledger import Ledger
from capienza.ledger.phase import Phase
from capienza.predict.training.beside import LOADED, MOST_APART, NOT_COVERED, OTHER_RELEASE, causes, compared
from capienza.predict.training.passes import Moment, Passes
from capienza.recipe.recipe import Checkpointing, Evaluation, Loss, Optimizer, Precision, Recipe
from capienza.units import Range

GPU, CARD = "gpu:0", "cuda:0"
CLOSED = {"weights": 1000, "adapters": 20, "activations": 300, "logits_and_loss": 500, "pass_temporaries": 200}
TRACED = {"weights": 1020, "activations": 300, "temporaries": 950, "rounding": 10, "cached": 120}


def ledger(amounts: dict[str, int | None], device: str, phase: Phase = Phase.BACKWARD) -> Ledger:
    entries = tuple(
        Entry(
            name=name,
            phases=(phase,),
            device=device,
            amount=None if amount is None else Range.exact(amount),
            status="unknown" if amount is None else "estimated",
            needs=("model layers",) if amount is None else (),
            expected_proof=LOADED() if amount is None else None,
        )
        for name, amount in amounts.items()
    )
    return Ledger(entries=entries, gpus=(device,))


def passes(where: str) -> Passes:
    moment = Moment(activations_bytes=1, logits_bytes=1, gradients_bytes=0, working_bytes=1, where=where)
    return Passes(forward=moment, backward=moment, evaluation=None, gradients_bytes=0)


def recipe(version: str | None, framework: str = "transformers") -> Recipe:
    return Recipe(
        framework=framework, framework_version=version, objective="sft", method="full", tokens=8, microbatch=1,
        accumulation=1, is_packed=True, has_padding_mask=False, attention="sdpa", kernels="transformers",
        is_compiled=False, precision=Precision(base="bf16", trained="bf16"),
        optimizer=Optimizer(family="adamw", run="fused"), checkpointing=Checkpointing(kind="none"),
        loss=Loss(kind="full"), evaluation=Evaluation(microbatch=0),
    )  # fmt: skip


def one(closed: dict[str, int | None], traced: dict[str, int], where: str = "loss", logits: int = 950):
    (found,) = compared(ledger(closed, GPU), ledger(dict(traced), CARD), passes(where), {"backward": logits}, GPU)
    return found


def test_temporaries_at_the_loss_are_logits() -> None:
    found = one(CLOSED, TRACED)
    assert (found.computed_allocated_bytes, found.traced_allocated_bytes) == (2020, 2280)
    assert (found.computed_reserved_bytes, found.traced_reserved_bytes) == (2020, 2400)
    assert found.allocated == 2020 / 2280 - 1
    assert found.is_apart
    assert [(entry.name, entry.computed_bytes, entry.traced_bytes) for entry in found.named] == [
        ("logits_and_loss", 700, 950)
    ]


def test_temporaries_in_a_layer_are_not() -> None:
    found = one(CLOSED, TRACED, where="3", logits=0)
    assert {entry.name: (entry.computed_bytes, entry.traced_bytes) for entry in found.entries} == {
        "activations": (500, 1250),
        "logits_and_loss": (500, 0),
        "other": (0, 10),
    }


def test_what_only_the_allocator_keeps_names_no_entry() -> None:
    found = one({"weights": 1000, "cached": 10}, {"weights": 1000, "cached": 500}, logits=0)
    assert found.is_apart
    assert found.allocated == 0
    assert found.named == ()


def test_an_unknown_entry_is_no_zero() -> None:
    found = one({"weights": 1000, "activations": None}, TRACED)
    assert (found.computed_allocated_bytes, found.allocated, found.entries) == (None, None, ())
    why = NOT_COVERED(why="such a layer")
    told = list(causes((found,), recipe(None), "5.24.0", (), (why,)))
    assert [message.code for message in told] == [NOT_COVERED.code]


def test_the_context_and_the_spread_of_cases_are_no_part_of_it() -> None:
    more = {"context": 900, "measured_spread": 0}
    assert one(CLOSED | more, TRACED).computed_reserved_bytes == one(CLOSED, TRACED).computed_reserved_bytes


def test_another_release_is_a_cause_and_the_same_one_is_not() -> None:
    found = one(CLOSED, TRACED)
    told = [message.code for message in causes((found,), recipe("4.45.2"), "5.24.0", (), ())]
    assert told == [OTHER_RELEASE.code]
    assert not list(causes((found,), recipe("5.24.0"), "5.24.0", (), ()))
    assert list(causes((found,), recipe("5.24.0", "trl"), "5.24.0", (), ()))


def test_where_nothing_is_apart_nothing_is_explained() -> None:
    same = {name: amount for name, amount in TRACED.items() if name != "cached"}
    found = one(same, same, logits=0)
    assert not found.is_apart
    assert not list(causes((found,), recipe("4.45.2"), "5.24.0", (LOADED(),), ()))


AMOUNTS = st.dictionaries(
    st.sampled_from(["weights", "gradients", "optimizer_states", "activations", "workspaces", "logits_and_loss"]),
    st.integers(0, 2**40),
    min_size=1,
)


@given(AMOUNTS, AMOUNTS)
def test_the_groups_make_the_difference(closed: dict[str, int], traced: dict[str, int]) -> None:
    found = one(dict(closed), traced, logits=0)
    total = sum(entry.computed_bytes - entry.traced_bytes for entry in found.entries)
    assert total == sum(closed.values()) - sum(traced.values())
    if found.allocated is not None and abs(found.allocated) > MOST_APART:
        # Something is named, and all that is named points the same way.
        assert found.named
        assert len({entry.computed_bytes > entry.traced_bytes for entry in found.named}) == 1
