"""What ends a conclusion is read from what it rests on; the digests pin what was decided on."""

from __future__ import annotations

import datetime

import pytest
from decide_world import (
    GOOD_RECORDS,
    NOW,
    QUALITY_PLAN,
    SCOPE,
    at,
    change,
    make_card,
    make_offer,
    make_quality,
    make_run,
    make_waiver,
)
from hypothesis import given
from hypothesis import strategies as st
from page_world import decided_on, dossier_on, offers_named

from capienza.canon import canonical
from capienza.card.model import Host
from capienza.catalog.offer import Document, OfferHost
from capienza.decide.dossier import KEPT_SELECTED
from capienza.decide.gather import Gathering
from capienza.decide.record import decision_record, offers_digest
from capienza.units import GIB

DAY = datetime.timedelta(days=1)


def said(dossier) -> list[str]:
    return [str(one.message) for one in dossier.invalidators]


def test_a_conclusion_lists_what_its_records_speak_of():
    run = make_run(change(SCOPE, driver="580.95.05", tokens=9000), expires=at(30))
    lines = said(dossier_on(records=(run, make_quality(), QUALITY_PLAN)))
    assert f"from 2026-12-30 00:00+00:00 on: {run.id[:12]} has expired" in lines
    for line in (
        "another version of the engine than 0.11.2",
        "another driver than 580.95.05",
        "another GPU than rtx4090",
        "more than 9000 tokens in one sequence",
        "more than 8192 tokens in one sequence",
        "more than 4 sequences at a time",
        # 24564 MiB reported, less a margin of 2 GiB
        "rtx4090-1x3d: a peak above 21.99 GiB on a GPU, in whatever phase",
        "rtx4090-1x3d: a bill above 300.00 USD; as planned it is 47.14 USD",
        # 30 h from the 7th at 0:00
        "rtx4090-1x3d: an end after 2026-12-12 00:00+00:00; as planned it is 2026-12-08 06:00+00:00",
        f"another card: the digest of this one is {'c' * 12}",
    ):
        assert line in lines
    assert lines[0].startswith("from ")


@pytest.mark.parametrize("field", ["driver", "kv_format"])
def test_what_no_record_states_is_not_invented(field):
    words = {"driver": "another driver", "kv_format": "a cache in another format"}
    assert getattr(SCOPE, field) is None
    assert not [line for line in said(dossier_on()) if words[field] in line]


def test_the_driver_of_the_machine_and_other_programs_count_where_they_are_stated():
    host = OfferHost(ram_bytes=128 * GIB, disk_bytes=500 * 10**9, driver_version="570.1")
    assert "rtx4090-1x3d: another driver on the machine than 570.1" in said(dossier_on(offers=[make_offer(host=host)]))
    used = change(make_card().host, others_use_bytes=GIB)
    assert isinstance(used, Host)
    assert "more than 1.00 GiB of a GPU used by other programs" in said(dossier_on(card=make_card(host=used)))
    none = change(used, others_use_bytes=0)
    assert "memory of a GPU used by other programs; the card says none" in said(dossier_on(card=make_card(host=none)))


def test_nothing_selected_rests_on_its_inputs_alone():
    dossier = dossier_on(records=())
    assert dossier.expiry is None
    assert [one.message.code for one in dossier.invalidators] == [
        "decide.invalid-card",
        "decide.invalid-records",
        "decide.invalid-policy",
    ]


@given(
    st.lists(st.integers(1, 400), min_size=3, max_size=3),
    st.none() | st.integers(1, 400),
)
def test_the_whole_ends_with_the_first_of_its_evidence(days, until):
    run, quality = make_run(expires=NOW + days[0] * DAY), make_quality(expires=NOW + days[1] * DAY)
    waiver = make_waiver("placement", expires=NOW + days[2] * DAY)
    document = Document(id="s", retrieved=at(1), valid_until=None if until is None else NOW + until * DAY)
    offer = make_offer(document=document, host=OfferHost())
    dossier = dossier_on(offers=[offer], records=(run, quality, QUALITY_PLAN, waiver))
    # The time of use ends on the 10th in this world, and with it the offer.
    ends = [*(NOW + day * DAY for day in days), at(10), *([] if until is None else [NOW + until * DAY])]
    assert dossier.summary.counts["admissible"] == 1
    assert dossier.expiry is not None
    assert dossier.expiry.moment == min(ends)
    assert (
        dossier.expiry.moment
        == decision_record(
            dossier.decided.card,
            dossier.summary.by_offer.values(),
            dossier.identity.offers,
            dossier.records.values(),
            NOW,
        ).expires
    )


def test_the_end_of_an_offer_that_is_not_shown_in_full_counts():
    names = [f"o{number:02}" for number in range(KEPT_SELECTED + 5)]
    offers = offers_named(*names)
    last = change(offers[-1], document=change(offers[-1].document, valid_until=at(2)))
    dossier = dossier_on(offers=[*offers[:-1], last])
    assert last.id not in [detail.offer.id for detail in dossier.in_full]
    assert dossier.expiry is not None
    assert dossier.expiry.moment == at(2)


def test_offers_come_back_as_they_passed_and_are_pinned_in_any_order():
    offers = offers_named("a", "b", "c")
    with Gathering() as gathering, Gathering() as other:
        list(gathering.watch(decided_on(offers=offers).judged))
        list(other.watch(decided_on(offers=offers[::-1]).judged))
        for offer in offers:
            assert canonical(gathering.offer(offer.id)) == canonical(offer)
        assert gathering.digest() == other.digest() == offers_digest(offers)


def test_other_inputs_have_other_digests():
    base = dossier_on().identity
    assert dossier_on(offers=offers_named("x")).identity.offers != base.offers
    assert dossier_on(records=GOOD_RECORDS[:1]).identity.records != base.records
    assert dossier_on(card=make_card(sha256="d" * 64)).identity.card != base.card
    assert dossier_on().identity == base
