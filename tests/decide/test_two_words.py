"""A record that says two things, or says one badly: it never admits, and no waiver covers the failure in it."""

import pytest
from decide_world import (
    CORPUS,
    GIB,
    REPORTED,
    change,
    codes,
    judge,
    make_quality,
    make_run,
    make_waiver,
    peaks,
    run_claims,
)

from capienza.errors import InputError
from capienza.evidence.record import Claim, Record
from capienza.evidence.standing import standing
from capienza.evidence.store import seal
from capienza.evidence.waivers import failures_met

GOOD_RUN, GOOD_RESULT = make_run(), make_quality()
THRESHOLDS = "min=0.82"
TWO_FORMATS = (Claim(quantity="compatibility", value="violated"), Claim(quantity="compatibility", value="satisfied"))


def run(*more, **fields):
    return make_run(claims=(*run_claims(**fields), *more), version="2")


def result(*claims, **fields):
    made = make_quality(**fields)
    return seal(change(made, claims=claims, version="2", id="", sha256=""))


def word(value, basis=THRESHOLDS):
    return Claim(quantity="exact_match", value=value, basis=basis)


SAYS_TWO = [
    ("workload", run(Claim(quantity="truncated_inputs", value=12))),
    ("workload", run(Claim(quantity="dropped_samples", value=1))),
    ("workload", make_run(claims=(Claim(quantity="outcome", value="failed"),))),
    ("compatibility", run(*TWO_FORMATS)),
    ("quality", result(word("violated"), word("satisfied"))),
    ("quality", result(word("violated"), word("satisfied", "min=0.5"))),
    ("quality", result(word("violated"), subject=tuple(change(one, sha256=None) for one in CORPUS))),
]


@pytest.mark.parametrize("criterion, record", SAYS_TWO)
def test_a_failure_in_it_is_not_forgotten_beside_a_good_record(criterion, record):
    assert judge(records=(GOOD_RUN, GOOD_RESULT, record)).criterion(criterion).state == "to_confirm"


@pytest.mark.parametrize("criterion, record", SAYS_TWO)
def test_no_waiver_covers_the_failure_in_it(criterion, record):
    rest = (GOOD_RUN,) if criterion == "quality" else (GOOD_RESULT,)
    waiver = make_waiver(criterion)
    verdict = judge(records=(*rest, record, waiver)).criterion(criterion)
    assert verdict.state != "admissible"
    assert verdict.waiver is None
    assert failures_met(waiver, [record])  # what `evidence list` says of it


def test_no_waiver_covers_a_reading_that_no_such_card_has_whatever_its_counter():
    huge = run(Claim(quantity="peak_bytes", value=2 * REPORTED, unit="B", phase="decode", counter="reserved"))
    assert judge(records=(huge, GOOD_RESULT, make_waiver("memory"))).criterion("memory").state == "to_confirm"


def test_the_larger_context_and_the_smaller_pool_count():
    contexts = [Claim(quantity="context_bytes", value=size, unit="B") for size in (0, 20 * GIB)]
    allocated = [change(claim, counter="reserved") for claim in peaks(GIB * 17) if claim.quantity == "peak_bytes"]
    assert judge(records=(run(*contexts, *allocated), GOOD_RESULT)).criterion("memory").state == "to_confirm"
    pools = [Claim(quantity="pool_tokens", value=tokens) for tokens in (1, 10**9)]
    assert judge(records=(run(*pools), GOOD_RESULT)).criterion("workload").state == "to_confirm"


def test_a_plan_that_states_two_numbers_announces_the_larger_one():
    claims = tuple(Claim(quantity="planned_runs", value=number) for number in (1, 3))
    plan = seal(Record(kind="plan", version="1", date=change(GOOD_RUN).date, claims=claims))
    planned = seal(change(GOOD_RUN, inputs=(plan.id,), id="", sha256=""))
    assert planned.id in standing([plan, planned], planned.date).weak


@pytest.mark.parametrize(
    "claim",
    [
        *(Claim(quantity=quantity, value=value) for quantity in ("truncated_inputs", "dropped_samples", "pool_tokens")
          for value in ("12 of 90", "1.5", "-1", "\u0661\u0662", "")),
        Claim(quantity="compatibility", value="Violated"),
        Claim(quantity="exact_match", value="VIOLATED "),
        Claim(quantity="exact_match", value="Satisfied"),
    ],
)  # fmt: skip
def test_a_count_or_word_that_would_not_be_heard_is_refused(claim):
    with pytest.raises(InputError) as caught:
        make_run(claims=(claim,))
    assert caught.value.message.code == "evidence.claim-not-understood"


def test_two_words_on_the_same_combination_are_told():
    verdict = judge(records=(run(*TWO_FORMATS), GOOD_RESULT)).criterion("compatibility")
    assert "decide.compatibility-two-words" in codes(verdict.reasons)
