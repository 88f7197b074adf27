"""Scope, rank and standing: which records speak, and which of them count."""

from __future__ import annotations

import datetime
from decimal import Decimal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capienza.evidence.claims import configuration_text, threshold_text, whole
from capienza.evidence.rank import MEASURED, MEASURED_HERE, OFFER_DOCUMENT, rank
from capienza.evidence.record import Claim, Record, Scope
from capienza.evidence.scope import BOUNDS, FIELDS, gaps, scope_text
from capienza.evidence.standing import standing
from capienza.evidence.store import seal

DATE = datetime.datetime(2026, 11, 30, 12, tzinfo=datetime.UTC)
DAY = datetime.timedelta(days=1)
NEED = Scope(
    model="org/model",
    revision="a" * 40,
    task="inference",
    weight_format="bf16",
    kv_format="fp8",
    engine="vllm",
    engine_version="0.11.2",
    gpu="rtx4090",
    gpus=1,
    driver="580",
    provider="example",
    offer="one",
    tokens=8192,
    concurrency=4,
    microbatch=2,
    configuration="defaults",
)


def make(scope=NEED, **fields) -> Record:
    return seal(Record(**({"kind": "measurement", "version": "1", "date": DATE, "scope": scope} | fields)))


def change(scope, **fields):
    return msgspec.structs.replace(scope, **fields)


class TestGaps:
    def test_an_equal_scope_covers(self):
        assert gaps(make(), NEED) == ()

    @pytest.mark.parametrize("field", FIELDS)
    def test_what_the_record_leaves_out_covers_nothing(self, field):
        (reason,) = gaps(make(change(NEED, **{field: None})), NEED)
        assert reason.code == "evidence.scope-unstated"
        assert reason.parameters["field"] == field
        assert reason.parameters["needed"] == getattr(NEED, field)

    @pytest.mark.parametrize("field", FIELDS)
    def test_what_is_not_needed_is_not_asked_for(self, field):
        assert gaps(make(change(NEED, **{field: None})), change(NEED, **{field: None})) == ()

    @pytest.mark.parametrize("field", [field for field in FIELDS if field not in BOUNDS])
    def test_another_value_differs(self, field):
        other = {"gpus": 3, "driver": "581"}.get(field, "another")
        (reason,) = gaps(make(change(NEED, **{field: other})), NEED)
        assert (reason.code, reason.parameters["stated"]) == ("evidence.scope-differs", other)

    @pytest.mark.parametrize("version", ["0.11.1", "0.11.20", "v0.11.2", "0.11"])
    def test_one_engine_version_off_does_not_count(self, version):
        assert gaps(make(change(NEED, engine_version=version)), NEED)

    def test_case_is_ignored_where_it_means_nothing(self):
        assert gaps(make(change(NEED, engine="vLLM", weight_format="BF16", gpu="RTX4090")), NEED) == ()
        assert gaps(make(change(NEED, model="Org/Model")), NEED)

    def test_more_gpus_are_another_configuration(self):
        assert gaps(make(change(NEED, gpus=2)), NEED)

    @settings(max_examples=300)
    @given(*(st.integers(1, 10_000) for _ in range(6)))
    def test_bounds_are_monotone(self, tokens, concurrency, microbatch, t, c, m):
        record = make(change(NEED, tokens=tokens, concurrency=concurrency, microbatch=microbatch))
        need = change(NEED, tokens=t, concurrency=c, microbatch=m)
        pairs = [(tokens, t), (concurrency, c), (microbatch, m)]
        assert (gaps(record, need) == ()) is all(stated >= needed for stated, needed in pairs)
        assert (gaps(record, need, speaks="failure") == ()) is all(stated <= needed for stated, needed in pairs)
        larger = change(need, tokens=t + 1)
        assert len(gaps(record, larger)) >= len(gaps(record, need))

    def test_any_counts_in_documents_only(self):
        scope = change(NEED, gpu="any")
        assert gaps(make(scope, kind="document"), NEED) == ()
        assert gaps(make(scope), NEED)

    def test_scope_in_words(self):
        assert scope_text(Scope(model="m", gpu="l4", tokens=10)) == "model=m, gpu=l4, tokens=10"


class TestTexts:
    def test_equal_settings_have_one_text(self):
        assert configuration_text({"b": 0.90, "a": True, "c": 1.0}) == "a=true; b=0.9; c=1"
        assert configuration_text({"c": 1, "a": True, "b": 0.9}) == "a=true; b=0.9; c=1"
        assert configuration_text({"n": 1e6, "z": 0.0}) == "n=1000000; z=0"
        assert configuration_text({}) == "defaults"

    def test_thresholds(self):
        assert threshold_text(Decimal("0.820"), Decimal("0.01")) == "max_regression=0.01; min=0.82"

    @pytest.mark.parametrize("value, number", [(3, 3), ("3", 3), ("3.0", None), ("-1", None), ("x", None), ("٣", None)])
    def test_whole_numbers(self, value, number):
        assert whole(make(claims=(Claim(quantity="n", value=value),)), "n") == number

    def test_a_quantity_stated_in_two_ways_is_not_known(self):
        claims = (Claim(quantity="n", value=1), Claim(quantity="n", value=2))
        assert whole(make(claims=claims), "n") is None


class TestRank:
    def test_ladder(self):
        document = {"kind": "document"}
        ladder = [
            rank(make(kind="prediction")),
            rank(make(kind="prediction", producer={"fidelity": "analytic"})),
            rank(make(kind="prediction", producer={"fidelity": "trace"})),
            rank(make(**document)),
            rank(make(**document, producer={"source": "public_page"})),
            rank(make(**document, producer={"source": "provider_api"})),
            rank(make(**document, producer={"source": "invoice"})),
            rank(make(**document, producer={"source": "contract"})),
            rank(make(), "another"),
            rank(make(), "one"),
        ]
        assert ladder == sorted(ladder)
        assert len(set(ladder)) == len(ladder) - 1
        assert ladder[6] == ladder[7]  # an invoice binds like a contract
        assert (ladder[4], ladder[-2], ladder[-1]) == (OFFER_DOCUMENT, MEASURED, MEASURED_HERE)

    def test_a_source_nobody_knows_ranks_lowest(self):
        assert rank(make(kind="document", producer={"source": "rumour"})) == rank(make(kind="document"))


def counting(*records, now=DATE + DAY):
    return {record.id for record in standing(records, now).counting}


def why(record, *records, now=DATE + DAY):
    return [reason.code for one, reason in standing((record, *records), now).set_aside if one.id == record.id]


class TestStanding:
    def test_expiry_is_exclusive(self):
        record = make(expires=DATE + DAY)
        assert counting(record, now=DATE + DAY - datetime.timedelta(seconds=1)) == {record.id}
        assert why(record, now=DATE + DAY) == ["evidence.expired"]

    def test_a_record_from_the_future(self):
        assert why(make(), now=DATE - DAY) == ["evidence.from-the-future"]

    def test_withdrawn_with_author_and_reason(self):
        record = make()
        by = make(kind="invalidates", inputs=(record.id,), producer={"author": "A"}, notes=("unstable card",))
        assert why(record, by) == ["evidence.withdrawn"]
        assert counting(record, by) == {by.id}

    @pytest.mark.parametrize("fields", [{"producer": {"author": "A"}}, {"notes": ("because",)}, {"notes": (" ",)}])
    def test_an_unsigned_withdrawal_does_not_count_and_says_so(self, fields):
        record = make()
        by = make(kind="invalidates", inputs=(record.id,), **fields)
        assert counting(record, by) == {record.id}
        assert why(by, record) == ["evidence.withdrawal-unsigned"]

    def test_a_withdrawal_may_be_withdrawn(self):
        signed = {"producer": {"author": "A"}, "notes": ("wrong",)}
        record = make()
        first = make(kind="invalidates", inputs=(record.id,), **signed)
        second = make(kind="invalidates", inputs=(first.id,), **signed)
        third = make(kind="supersedes", inputs=(second.id,), **signed)
        assert record.id in counting(record, first, second)
        assert record.id not in counting(record, first, second, third)

    def test_a_ring_made_by_hand_withdraws_nothing(self):
        signed = {"producer": {"author": "A"}, "notes": ("wrong",)}
        target = make()
        a = msgspec.structs.replace(make(kind="invalidates", **signed), id="a" * 64, inputs=("b" * 64, target.id))
        b = msgspec.structs.replace(make(kind="invalidates", **signed), id="b" * 64, inputs=("a" * 64,))
        assert target.id in counting(target, a, b)

    def test_an_incomplete_plan_supports_nothing(self):
        plan = make(kind="plan", claims=(Claim(quantity="planned_runs", value=2),))
        first, second = (make(inputs=(plan.id,), version=version) for version in "12")
        whole_set = standing((plan, first, second), DATE + DAY)
        assert whole_set.weak == {}
        part = standing((plan, first), DATE + DAY)
        assert [reason.code for reason in part.weak[first.id]] == ["evidence.plan-incomplete"]
        assert first in part.counting

    def test_without_its_plan_a_run_supports_nothing(self):
        plan = make(kind="plan")
        run = make(inputs=(plan.id, "sha256:" + "f" * 64))
        assert [reason.code for reason in standing((run,), DATE + DAY).weak[run.id]] == ["evidence.reference-missing"]

    def test_records_without_id_are_refused(self):
        with pytest.raises(ValueError, match="seal it"):
            standing((Record(kind="plan", version="1", date=DATE),), DATE)

    @settings(max_examples=300)
    @given(st.permutations(range(5)))
    def test_order_and_repetition_change_nothing(self, order):
        signed = {"producer": {"author": "A"}, "notes": ("wrong",)}
        record = make()
        plan = make(kind="plan", claims=(Claim(quantity="planned_runs", value=2),))
        run = make(inputs=(plan.id,))
        by = make(kind="invalidates", inputs=(record.id,), **signed)
        some = [record, plan, run, by, make(version="old", expires=DATE)]
        assert standing([some[n] for n in order] + some[:2], DATE + DAY) == standing(some, DATE + DAY)
