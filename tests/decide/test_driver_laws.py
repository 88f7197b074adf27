"""The laws of the decision with drivers in the scopes of records and in the offer: monotone, order-free, explained."""

from __future__ import annotations

from decide_world import SCOPE, change, judge, make_offer, make_oom, make_quality, make_run, make_waiver
from hypothesis import given, settings
from hypothesis import strategies as st

from capienza.catalog.offer import OfferHost
from capienza.evidence.drivers import within

DRIVERS = st.sampled_from([None, "550.54.15", "560", "590.10", "newest"])
RANGES = st.sampled_from([None, ">=550,<590", "550.54.15", ">=590", "<560"])
LAW = settings(max_examples=2000)


def run(driver):
    return make_run(change(SCOPE, driver=driver))


def failure(driver):
    return make_oom(change(SCOPE, driver=driver))


RECORDS = st.lists(st.builds(run, RANGES) | st.builds(failure, RANGES), max_size=4, unique_by=lambda record: record.id)


def decided(driver, records):
    offer = make_offer(host=OfferHost(disk_bytes=10**12, driver_version=driver))
    return judge(offer=offer, records=(*records, make_quality(), make_waiver("placement")))


@LAW
@given(DRIVERS, RECORDS, st.data())
def test_taking_a_success_away_never_helps(driver, records, data):
    before = decided(driver, records)
    successes = [record for record in records if any(claim.value == "completed" for claim in record.claims)]
    if not successes:
        return
    gone = data.draw(st.sampled_from(successes))
    after = decided(driver, [record for record in records if record is not gone])
    assert after.state != "admissible" or before.state == "admissible"


@LAW
@given(DRIVERS, RECORDS.flatmap(lambda some: st.tuples(st.just(some), st.permutations(some))))
def test_order_changes_nothing(driver, both):
    one, other = both
    assert decided(driver, one) == decided(driver, other)


@LAW
@given(DRIVERS, RECORDS)
def test_only_records_within_their_drivers_speak(driver, records):
    comparable = driver if driver and driver[0].isdigit() else None
    speaking = [
        record
        for record in records
        if comparable is None or record.scope.driver is None or within(comparable, record.scope.driver)
    ]
    all_of_them, those = decided(driver, records).criterion("memory"), decided(driver, speaking).criterion("memory")
    assert (all_of_them.state, all_of_them.evidence) == (those.state, those.evidence)
    for row in decided(driver, records).criteria:
        assert row.state == "admissible" or row.reasons
