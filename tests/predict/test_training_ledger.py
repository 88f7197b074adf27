"""A training's ledger: entries that add up, counters that are kept apart, and what the card does not prove."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from training_cards import FULL, TINY_LLAMA, replaced, with_adapters

from capienza.api.sizing import named_traits
from capienza.card.model import Card, Engine, ModelRef, Placement, TokenCount, Tokens, Training, Weights
from capienza.errors import InputError
from capienza.ledger.capacity import Capacity, fit_word
from capienza.ledger.counters import HOST, counters_of
from capienza.ledger.ledger import Ledger, Total
from capienza.ledger.phase import Phase
from capienza.predict.gpu import GpuFacts
from capienza.predict.model import load_model
from capienza.predict.sizing import ask_training, build_ledger
from capienza.predict.training.answer import answer_of
from capienza.predict.training.context import context_on
from capienza.predict.training.ledger import context_entry
from capienza.predict.weights import FROM_FIELD, SUM_OF_FORMATS
from capienza.recipe.recipe import Evaluation, Preference
from capienza.units import GIB, MIB, Range

MODEL = load_model(ModelRef(path=str(Path(__file__).parents[2] / "examples" / "configs" / "Qwen--Qwen2.5-0.5B")))


def ledger_of(recipe, gpu=None):
    answer = answer_of(TINY_LLAMA, recipe)
    if gpu is not None:
        answer = answer.on(gpu)
    from capienza.ledger.entry import Entry

    asked = Entry(
        name="weights", phases=(Phase.LOAD,), device="gpu:0", amount=Range.exact(0), status="estimated",
        formula=SUM_OF_FORMATS(sum="", total=0), source=FROM_FIELD(field="x"),
    )  # fmt: skip
    return answer, Ledger(entries=(answer.weights(asked), *answer.entries("gpu:0")))


def a_card(training=None, options=None, **fields):
    words = {"method": "lora", "rank": 8, "optimizer": "adamw"} | (training or {})
    base = {
        "name": "x",
        "model": ModelRef(path="-"),
        "task": "fine-tuning",
        "tokens": Tokens(required=TokenCount(total=256)),
        "microbatch": 1,
        "training": Training(**words, options=options or {}),
    }
    return Card(**(base | fields))


RECIPES = st.builds(
    lambda method, tokens, microbatch, accumulation, run: replaced(
        with_adapters(replaced(precision_quantised="nf4_double" if method == "qlora" else None))
        if method != "full"
        else FULL,
        tokens=tokens,
        microbatch=microbatch,
        accumulation=accumulation,
        optimizer_run=run,
    ),
    st.sampled_from(["full", "lora", "qlora"]),
    st.integers(16, 256),
    st.integers(1, 3),
    st.integers(1, 2),
    st.sampled_from(["foreach", "fused", "loop"]),
)


@given(RECIPES)
@settings(max_examples=25)
def test_entries_add_up_and_counters_stand_in_order(recipe):
    answer, ledger = ledger_of(recipe)
    assert all((entry.amount is None) == (entry.status == "unknown") for entry in ledger.entries)
    assert all(entry.formula and entry.source for entry in ledger.entries if entry.amount is not None)
    by_phase = {one.phase: one for one in counters_of(ledger, "gpu:0")}
    assert by_phase[Phase.CHECKPOINT].allocated.amount.expected == answer.resident.after_bytes
    for one in by_phase.values():
        assert one.smallest == one.allocated
        assert one.allocated.amount.expected <= one.reserved.amount.expected <= one.on_device.amount.expected
        assert one.allocated.amount.ceiling <= one.reserved.amount.ceiling
    # all gradients are there when the step begins
    step = by_phase[Phase.OPTIMIZER_STEP_FIRST].allocated.amount.expected
    taken = answer.resident.gradients_bytes + answer.resident.transient.expected
    assert step == answer.resident.after_bytes + taken


@given(RECIPES)
@settings(max_examples=10)
def test_longer_rows_never_need_less(recipe):
    _, short = ledger_of(recipe)
    _, long = ledger_of(replaced(recipe, tokens=2 * recipe.tokens))
    for phase in short.phases:
        less, more = (
            {one.phase: one for one in counters_of(ledger, "gpu:0")}[phase].allocated.amount.expected
            for ledger in (short, long)
        )
        assert less <= more


def test_a_context_is_known_where_it_was_read():
    assert context_on(["a100_sxm_80", "a100_pcie_80"]).readings == (501 * MIB, 922 * MIB)
    assert context_on(["l4"]).readings == (226 * MIB,)
    assert context_on(["l40"]) is context_on(["a100_sxm_80", "l4"]) is context_on([]) is None
    assert context_on(["a100_sxm_80"]).ceiling_bytes == 922 * MIB
    assert context_on(["l4"]).ceiling_bytes == (226 + 922 - 501) * MIB
    _, without = ledger_of(FULL)
    _, on_card = ledger_of(FULL, GpuFacts(name="l4"))
    assert "context" in without.predicted_peak("gpu:0").missing
    assert on_card.predicted_peak("gpu:0").is_complete


@pytest.mark.parametrize(
    ("names", "expected_mib", "ceiling_mib"),
    [
        (["RTX 4090"], 426, 847),  # of 8.9: L4 226, RTX 6000 Ada 426
        (["A10G"], 256, 677),  # of 8.6: RTX 3090
        (["RTX 5090"], 922, 953),  # none of 12.0: all of them
        (["A100 80GB"], 922, 922),
    ],
)
def test_a_card_without_a_reading_takes_those_of_cards_like_it(names, expected_mib, ceiling_mib):
    traits = [one for name in names for one in named_traits(name)]
    found = context_on([one.name for one in traits], traits)
    entry = context_entry("gpu:0", found, (Phase.LOAD,))
    assert entry.amount == Range(0, expected_mib * MIB, ceiling_mib * MIB)
    assert (entry.formula.code == "training.formula-context-elsewhere") == bool(found.others)


def test_nothing_stands_in_for_the_context_of_another_maker():
    traits = named_traits("MI300X")
    assert context_on([one.name for one in traits], traits) is None


@pytest.mark.parametrize("rank", [8, 64, 256])
def test_what_is_loaded_does_not_depend_on_what_is_trained(rank):
    def load(rank):
        _, ledger = ledger_of(with_adapters(rank=rank, targets=("q_proj", "v_proj", "down_proj")))
        return ledger.peak(Phase.LOAD, "gpu:0").amount.expected

    assert load(rank) == load(4)


def test_what_an_allocator_gives_back_is_no_overflow():
    capacity = Capacity(
        largest_bytes=GIB, largest_basis=FROM_FIELD(field="x"), smallest_bytes=GIB, smallest_basis=FROM_FIELD(field="x")
    )
    amount = Range(0, GIB + MIB, GIB + MIB)
    assert fit_word(Total(amount), capacity, 0) == "overflow"
    assert fit_word(Total(amount, cached_bytes=MIB), capacity, 0) == "borderline"


def test_without_a_measured_case_the_ceiling_is_twice_what_is_not_exact(monkeypatch):
    from capienza.predict.calibration import Calibration
    from capienza.predict.training import ceilings

    monkeypatch.setattr(ceilings, "shipped", Calibration)
    _, ledger = ledger_of(with_adapters())
    spread = {entry.phases[0]: entry for entry in ledger.entries if entry.name == "measured_spread"}
    open_bytes = sum(
        entry.amount.expected
        for entry in ledger.entries
        if Phase.BACKWARD in entry.phases and entry.amount and not entry.amount.is_exact
        and entry.name not in ("weights", "cached", "measured_spread")
    )  # fmt: skip
    assert spread[Phase.BACKWARD].amount == Range(0, 0, open_bytes)
    assert spread[Phase.BACKWARD].formula.code == "training.formula-no-cases"


def test_paged_states_are_listed_on_the_host():
    paged = replaced(
        optimizer_family="adamw", optimizer_state_bits=32, optimizer_library="bitsandbytes", optimizer_is_paged=True,
        optimizer_run="loop",
    )  # fmt: skip
    _, ledger = ledger_of(paged)
    (managed,) = (entry for entry in ledger.entries if entry.name == "managed_states")
    assert managed.device == HOST
    assert managed.amount.expected > 0
    assert managed not in ledger.on("gpu:0")


def test_evaluation_and_export_are_phases_where_the_recipe_has_them():
    _, ledger = ledger_of(replaced(evaluation=Evaluation(microbatch=4), export="merge"))
    assert {Phase.EVAL, Phase.EXPORT} <= set(ledger.phases)
    _, without = ledger_of(FULL)
    assert {Phase.EVAL, Phase.EXPORT}.isdisjoint(without.phases)
    _, merged = ledger_of(replaced(with_adapters(), export="merge"))
    (export,) = (entry for entry in merged.entries if entry.name == "export")
    assert export.amount.expected == 2 * 4 * 256 * 256


def test_a_reference_model_and_a_rollout_engine_stand_beside():
    told = Preference(reference="model", rollout="vllm_colocate", rollout_share=0.25)
    answer, ledger = ledger_of(replaced(objective="grpo", preference=told), GpuFacts(total_bytes=8 * GIB, name="l4"))
    found = {entry.name: entry for entry in ledger.entries}
    assert found["reference_model"].amount.expected == answer.resident.base.total_bytes
    assert found["rollout_engine"].amount.expected == 2 * GIB
    _, unknown = ledger_of(replaced(objective="grpo", preference=told))
    assert {entry.name: entry for entry in unknown.entries}["rollout_engine"].amount is None
    assert Phase.LOAD in found["reference_model"].phases


def test_an_engine_that_sleeps_leaves_its_share_and_keeps_its_libraries():
    told = Preference(rollout="vllm_colocate", rollout_share=0.25, sleeps=True)
    recipe = replaced(objective="grpo", preference=told)
    _, ledger = ledger_of(recipe, GpuFacts(total_bytes=8 * GIB, name="l4"))
    found = {entry.name: entry for entry in ledger.entries}
    assert found["rollout_engine"].phases == (Phase.PREFILL, Phase.DECODE)
    # AgileRL's profile of an L4: 687 MiB beside the context
    assert found["rollout_residue"].amount.expected == 687 * MIB
    assert Phase.DECODE not in found["rollout_residue"].phases
    _, elsewhere = ledger_of(recipe, GpuFacts(total_bytes=8 * GIB, name="l40"))
    assert {entry.name: entry for entry in elsewhere.entries}["rollout_residue"].amount is None


def test_pairs_are_two_sequences_each():
    told = Preference(reference="model")
    pairs = replaced(objective="dpo", preference=told, microbatch=3)
    assert pairs.sequences == 6
    assert pairs.rows_tokens == 6 * pairs.tokens
    answer, _ = ledger_of(pairs)
    alone, _ = ledger_of(replaced(microbatch=6))
    assert answer.resident.batch_bytes == alone.resident.batch_bytes
    assert answer.passes.forward.total_bytes > alone.passes.forward.total_bytes
    # the reference is read after the model, and reserved as the model is
    assert answer.reserved[Phase.LOAD] >= 2 * alone.resident.base.total_bytes


def test_completions_by_transformers_keep_keys_and_values_of_one_update():
    told = Preference(rollout="transformers", prompt_tokens=100, completion_tokens=28)
    _, ledger = ledger_of(replaced(objective="grpo", accumulation=2, preference=told))
    caches = {entry.phases: entry for entry in ledger.entries if entry.name == "kv_cache"}
    # 2 x 2 rows of 128 tokens, at first of the prompt's 100; 3 layers of 2 heads x 64 x keys and values in bf16
    assert caches[(Phase.DECODE,)].amount.expected == 4 * 128 * 3 * 2 * 64 * 2 * 2
    assert caches[(Phase.PREFILL,)].amount.expected == 4 * 100 * 3 * 2 * 64 * 2 * 2
    found = {(entry.name, entry.phases): entry for entry in ledger.entries}
    # logits of 4 rows in bf16, and twice in fp32; keys and values of one layer repeated for 4 heads
    assert found["sampling", (Phase.DECODE,)].amount.expected == 4 * 1000 * (2 + 4 + 4)
    assert found["pass_temporaries", (Phase.DECODE,)].amount.expected == 4 * 128 * 2 * 4 * 64 * 2
    # the weights are there while completions are written, and so are the states of the second update
    for name in ("weights", "optimizer_states", "workspaces", "cached"):
        assert any(entry.name == name and Phase.DECODE in entry.phases for entry in ledger.entries), name
    _, unknown = ledger_of(replaced(objective="grpo", preference=Preference(rollout="transformers")))
    assert {entry.name: entry for entry in unknown.entries}["kv_cache"].amount is None


# what the card states, entries whose floor it proves
PROOFS = [
    ({}, {}, set()),
    ({}, {"targets": "q_proj v_proj"}, {"adapters", "gradients", "optimizer_states"}),
    ({"method": "full", "rank": None}, {}, {"gradients", "optimizer_states"}),
]


@pytest.mark.parametrize("training, options, proved", PROOFS)
def test_habits_prove_nothing(training, options, proved):
    card = a_card(training, options)
    entries = build_ledger(card, MODEL).entries
    of_the_step = [entry for entry in entries if Phase.OPTIMIZER_STEP_FIRST in entry.phases]
    held = [entry for entry in of_the_step if entry.name in ("adapters", "gradients", "optimizer_states")]
    assert {entry.name for entry in held if entry.amount.floor} >= proved
    assert not any(entry.amount.floor for entry in held if entry.name not in proved)
    (step,) = (entry for entry in entries if entry.name == "optimizer_transient")
    assert step.amount.floor == 0


def test_an_evaluation_that_the_card_does_not_state_is_a_note():
    answer = ask_training(a_card(), MODEL, 1)
    assert answer.recipe.evaluation.microbatch == 0
    assert "training.no-evaluation-stated" in {note.code for note in answer.notes}
    stated = ask_training(a_card(options={"eval_microbatch": 2}), MODEL, 1)
    assert stated.recipe.evaluation.microbatch == 2


@pytest.mark.parametrize(
    "training, options, code",
    [
        ({}, {"targets": "query value"}, "training.no-target"),
        ({"rank": 500}, {"targets": "k_proj"}, "training.rank-above"),
    ],
)
def test_names_and_ranks_that_the_model_does_not_have_are_errors(training, options, code):
    with pytest.raises(InputError) as raised:
        ask_training(a_card(training, options), MODEL, 1)
    assert raised.value.message.code == code
    if code == "training.no-target":
        assert "q_proj" in str(raised.value)


def test_a_target_that_matches_nothing_beside_others_is_told():
    answer = ask_training(a_card(options={"targets": "q_proj c_attn"}), MODEL, 1)
    assert "training.not-a-target" in {note.code for note in answer.notes}


def test_what_is_not_covered_stays_unknown():
    several = a_card(placement=Placement(gpus=2, tensor_parallel=2))
    divided = ask_training(several, MODEL, 2)
    assert divided.is_shared
    assert divided.rank is None
    assert "training.divided-layers" in {note.code for note in divided.notes}
    ledger = build_ledger(several, MODEL, 2)
    assert "activations" in ledger.predicted_peak("gpu:0").missing
    proofs = [str(one.expected_proof) for one in ledger.entries if one.amount is None]
    assert all("world_size=2" in proof for proof in proofs)
    # Two GPUs, and nothing that says how they share.
    assert ask_training(a_card(placement=Placement(gpus=2)), MODEL, 2) is None
    no_microbatch = msgspec.structs.replace(a_card(), microbatch=None)
    assert ask_training(no_microbatch, MODEL, 1) is None
    serving = Card(name="x", model=ModelRef(path="-"), task="inference", engine=Engine(name="vllm"))
    assert ask_training(serving, MODEL, 1) is None


def test_weights_are_those_of_the_format_that_is_trained():
    card = a_card({"method": "full", "rank": None}, weights=Weights(format="fp32"))
    weights = {entry.name: entry for entry in build_ledger(card, MODEL).entries}["weights"]
    assert weights.amount == Range.exact(4 * MODEL.architecture.num_parameters)


def test_measured_cases_of_the_method_set_the_ceilings(monkeypatch):
    from capienza.predict.calibration import Calibration, Kind, Ratio
    from capienza.predict.training import ceilings

    def kind(counter, value):
        ratios = tuple(Ratio(f"m{n}", value) for n in range(40))
        return Kind(engine="transformers", quantity=f"training.{counter}.lora", ratios=ratios)

    known = Calibration(kinds=(kind("allocated_peak", 1.1), kind("reserved_peak", 1.3), kind("device_peak", 5.0)))
    monkeypatch.setattr(ceilings, "shipped", lambda: known)
    answer, ledger = ledger_of(with_adapters(), GpuFacts(name="l4"))
    weights, beyond = answer.resident.base.weights_bytes, []
    for one in counters_of(ledger, "gpu:0"):
        allocated, reserved, on_device = one.allocated.amount, one.reserved.amount, one.on_device.amount
        assert allocated.ceiling == pytest.approx(weights + 1.1 * (allocated.expected - weights), abs=2)
        cached = reserved.expected - allocated.expected
        assert reserved.ceiling == pytest.approx(max(1.3 * reserved.expected, allocated.ceiling + cached), abs=2)
        context = answer.context.ceiling_bytes
        beyond.append(on_device.ceiling - 5 * on_device.expected)
        assert on_device.ceiling == pytest.approx(max(5 * on_device.expected, reserved.ceiling + context), abs=2)
    assert min(beyond) == pytest.approx(0, abs=2)
    told = {entry.name: entry.formula.code for entry in ledger.entries if entry.name.endswith(("cached", "_spread"))}
    assert told == {
        "cached": "training.formula-ceiling",
        "measured_spread": "training.formula-spread",
        "device_spread": "training.formula-device-spread",
    }
    # A reading of the context is none of what the cases spread over.
    (entry,) = (one for one in ledger.entries if one.name == "context")
    assert entry.amount == Range(0, 226 * MIB, (226 + 421) * MIB)


def test_no_entry_says_more_of_the_card_than_it_has():
    """What is cached, and what the driver may read beyond all entries, end at the card's end."""
    recipe = replaced(FULL, tokens=256, microbatch=4)
    _, whole = ledger_of(recipe, GpuFacts(name="l4"))
    total = max(_needed(whole, phase) for phase in whole.phases)
    assert total < whole.predicted_peak("gpu:0").amount.ceiling
    _, small = ledger_of(recipe, GpuFacts(name="l4", total_bytes=total))
    before = {one.phase: one for one in counters_of(whole, "gpu:0")}
    for one in counters_of(small, "gpu:0"):
        assert one.allocated == before[one.phase].allocated
        assert one.on_device.amount.expected <= total
        kept = one.reserved.amount.expected - one.allocated.amount.expected
        assert one.on_device.amount.ceiling <= max(total, _needed(small, one.phase) + kept)
    # A ceiling that was cut at the card's end shows no room.
    words = FROM_FIELD(field="x")
    capacity = Capacity(largest_bytes=total, largest_basis=words, smallest_bytes=total, smallest_basis=words)
    assert fit_word(small.predicted_peak("gpu:0"), capacity, 0) == "borderline"


def _needed(ledger, phase):
    """The ceiling of what must be there, without what is given back or only read."""
    entries = (one for one in ledger.on("gpu:0") if phase in one.phases and one.name not in ("cached", "device_spread"))
    return sum(one.amount.ceiling for one in entries)
