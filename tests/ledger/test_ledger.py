import pytest
from hypothesis import given
from hypothesis import strategies as st

from capienza.errors import Template
from capienza.ledger.arithmetic import plain_row
from capienza.ledger.capacity import Capacity, exceeds, fit_word
from capienza.ledger.entry import Entry
from capienza.ledger.ledger import Ledger, Total
from capienza.ledger.phase import INFERENCE_PHASES, Phase
from capienza.ledger.reading import Reading, conservative_sum
from capienza.truth import Truth
from capienza.units import GIB, Range

PROOF = Template("test.proof", "a reading")()
TABLE = Template("test.table", "the table")()


def known(name, amount, phases=INFERENCE_PHASES, device="gpu:0"):
    return Entry(name=name, phases=phases, device=device, amount=amount, status="estimated")


def unknown(name, phases=INFERENCE_PHASES, device="gpu:0"):
    return Entry(
        name=name, phases=phases, device=device, amount=None, status="unknown", needs=("x",), expected_proof=PROOF
    )


def ledger(*entries, gpus=("gpu:0",)):
    return Ledger(entries=tuple(entries), gpus=gpus)


WEIGHTS = known("weights", Range.exact(10))
CACHE = known("kv_cache", Range(2, 3, 5), (Phase.PREFILL, Phase.DECODE))
LOADING = known("loading", Range(0, 4, 9), (Phase.LOAD,))


def test_a_peak_adds_only_what_lives_together():
    book = ledger(WEIGHTS, CACHE, LOADING)
    assert book.peak(Phase.LOAD, "gpu:0").amount == Range(10, 14, 19)
    assert book.peak(Phase.DECODE, "gpu:0").amount == Range(12, 13, 15)
    assert book.predicted_peak("gpu:0").amount == Range(12, 14, 19)
    assert book.phases == (Phase.LOAD, Phase.PREFILL, Phase.DECODE)


def test_unknown_is_never_zero():
    total = ledger(WEIGHTS, unknown("activations", (Phase.PREFILL,))).predicted_peak("gpu:0")
    assert total == Total(Range.exact(10), ("activations",))
    assert not total.is_complete


def test_an_unknown_entry_states_its_needs_and_the_proof():
    with pytest.raises(ValueError, match="needs"):
        Entry(name="x", phases=(), device="gpu:0", amount=None, status="unknown")
    with pytest.raises(ValueError, match="status"):
        Entry(name="x", phases=(), device="gpu:0", amount=Range.exact(0), status="unknown", needs=("y",))
    with pytest.raises(ValueError, match="status"):
        Entry(name="x", phases=(), device="gpu:0", amount=None, status="estimated")


def test_two_cards_are_not_one_memory_space():
    other = known("weights", Range.exact(7), device="gpu:1")
    book = ledger(WEIGHTS, other, gpus=("gpu:0", "gpu:1"))
    assert book.predicted_peak("gpu:0").amount.floor == 10
    assert book.predicted_peak("gpu:1").amount.floor == 7


def test_envelopes_are_declared_sums_and_not_peaks():
    book = ledger(WEIGHTS, CACHE, LOADING)
    assert book.weights_only().amount == Range.exact(10)
    assert book.indicative_envelope(6).amount == Range.exact(16)
    assert book.conservative_envelope().amount == Range.exact(10 + 5 + 9)
    assert book.predicted_peak("gpu:0").amount.ceiling < 24


amounts = st.tuples(*[st.integers(0, 100)] * 3).map(lambda figures: Range(*sorted(figures)))
entries = st.lists(
    st.builds(
        known,
        st.sampled_from(["weights", "kv_cache", "activations"]),
        amounts,
        st.lists(st.sampled_from(list(Phase)), min_size=1, max_size=3, unique=True).map(tuple),
    )
    | st.builds(unknown, st.just("engine_runtime"), st.just((Phase.DECODE,))),
    max_size=6,
)


@given(entries, st.randoms())
def test_totals_do_not_depend_on_the_order_of_entries(lines, random):
    shuffled = list(lines)
    random.shuffle(shuffled)
    one, two = ledger(*lines).predicted_peak("gpu:0"), ledger(*shuffled).predicted_peak("gpu:0")
    assert one.amount == two.amount
    assert set(one.missing) == set(two.missing)


@given(entries, amounts)
def test_one_more_entry_never_lowers_a_peak(lines, amount):
    before = ledger(*lines).predicted_peak("gpu:0").amount
    after = ledger(*lines, known("more", amount)).predicted_peak("gpu:0").amount
    assert after.floor >= before.floor
    assert after.ceiling >= before.ceiling


@given(entries)
def test_the_conservative_envelope_is_never_below_the_peak(lines):
    book = ledger(*lines)
    assert book.conservative_envelope().amount.ceiling >= book.predicted_peak("gpu:0").amount.ceiling


def capacity(smallest=100, largest=110, others=0):
    return Capacity(
        largest_bytes=largest,
        largest_basis=TABLE,
        smallest_bytes=smallest,
        smallest_basis=TABLE,
        others_use_bytes=others,
    )


@pytest.mark.parametrize(
    "total, margin, others, word",
    [
        (Total(Range(50, 60, 90)), 10, 0, "fit"),
        (Total(Range(50, 60, 91)), 10, 0, "borderline"),
        (Total(Range(50, 60, 90), ("activations",)), 10, 0, "borderline"),
        (Total(Range(50, 110, 120)), 0, 0, "borderline"),
        (Total(Range(50, 111, 120)), 0, 0, "overflow"),
        (Total(Range(50, 60, 90)), 10, 1, "borderline"),
        (Total(Range(50, 60, 90)), 10, 51, "overflow"),
    ],
)
def test_fit_words(total, margin, others, word):
    assert fit_word(total, capacity(others=others), margin) == word


def test_no_reported_capacity_is_never_a_fit():
    assert fit_word(Total(Range.exact(1)), capacity(smallest=None), 0) == "borderline"


def test_no_capacity_known_never_excludes():
    nothing = capacity(smallest=None, largest=None)
    assert fit_word(Total(Range.exact(10**15)), nothing, 0) == "borderline"
    assert exceeds(Total(Range.exact(10**15)), nothing) is Truth.UNKNOWN


@pytest.mark.parametrize("floor, proof", [(111, Truth.TRUE), (110, Truth.UNKNOWN), (0, Truth.UNKNOWN)])
def test_only_the_floor_excludes_and_arithmetic_never_admits(floor, proof):
    assert exceeds(Total(Range(floor, 200, 300)), capacity()) is proof


@pytest.mark.parametrize(
    "bits, weights, envelope",
    [
        (32, 28_000_000_000, 28_000_000_000 + 6 * GIB),
        (16, 14_000_000_000, 14_000_000_000 + 6 * GIB),
        (8, 7_000_000_000, 7_000_000_000 + 6 * GIB),
        (4, 3_500_000_000, 3_500_000_000 + 6 * GIB),
    ],
)
def test_the_plain_calculator_hides_no_multiplier(bits, weights, envelope):
    row = plain_row(7_000_000_000, bits, 6 * GIB)
    assert (row.weights_only_bytes, row.indicative_envelope_bytes) == (weights, envelope)


def test_a_part_of_a_byte_is_a_byte():
    assert plain_row(3, 4).weights_only_bytes == 2


def reading(counter="allocated", amount=5, device="gpu:0", phase=Phase.LOAD):
    return Reading(counter=counter, amount_bytes=amount, phase=phase, device=device)


def test_readings_do_not_add_up():
    with pytest.raises(TypeError, match="do not add up"):
        reading() + reading(counter="reserved")
    with pytest.raises(TypeError, match="do not add up"):
        sum([reading(), reading(phase=Phase.DECODE)])
    with pytest.raises(TypeError, match="one counter"):
        conservative_sum([reading(), reading(counter="device")])
    assert conservative_sum([reading(), reading(phase=Phase.DECODE)]) == 10
