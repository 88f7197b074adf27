"""Placement against what is computed: floors that exclude, needs that contradict them, nodes, lots and wishes."""

from __future__ import annotations

from decimal import Decimal

import pytest
from decide_strategies import LAW, worlds
from decide_strategies import judge as judge_world
from decide_world import (
    GOOD_RECORDS,
    at,
    change,
    codes,
    judge,
    make_card,
    make_document,
    make_offer,
    make_run,
    make_sizing,
)
from hypothesis import given
from hypothesis import strategies as st

from capienza.card.model import Host, Placement
from capienza.catalog.offer import Fee, OfferHost, Price
from capienza.decide.server import contradictions, most_nodes, server_needs
from capienza.errors import Template
from capienza.evidence.record import Claim, Scope
from capienza.ledger.entry import Entry
from capienza.ledger.phase import Phase
from capienza.predict.storage import Volumes
from capienza.units import GIB, Money, Range

GB = 10**9
PROOF = Template("test.proof", "proof")()


def entry(name, amount, device="disk") -> Entry:
    if amount is None:
        words = {"status": "unknown", "needs": ("x",), "expected_proof": PROOF}
    else:
        words = {"status": "estimated"}
    return Entry(name=name, phases=(Phase.LOAD,), device=device, amount=amount, **words)


DISK, RAM = Range.exact(100 * GB), Range.exact(40 * GIB)


def make_volumes(disk=DISK, ram=RAM, egress=None) -> Volumes:
    return Volumes(
        storage=(entry("model_files", disk),),
        ram=(entry("host_buffers", ram, "host"), entry("host_loading", None, "host")),
        egress=(entry("outputs", egress, "network"),),
    )


def placement(**fields):
    sizing = make_sizing(volumes=fields.pop("volumes", make_volumes()))
    return judge(sizing=sizing, **fields).criterion("placement")


def offer(ram=128 * GIB, disk=500 * GB, **fields):
    return make_offer(host=OfferHost(ram_bytes=ram, disk_bytes=disk), **fields)


# (state, code among the reasons, card, offer)
STATED = Host(ram_bytes=64 * GIB, storage_bytes=200 * GB, interconnect="none", managed_application="none")
TABLE = [
    ("admissible", "decide.storage-enough", make_card(), offer()),
    ("exclude", "decide.storage-below", make_card(host=change(STATED, storage_bytes=10 * GB)), offer(disk=99 * GB)),
    ("exclude", "decide.server-raised", make_card(host=change(STATED, storage_bytes=10 * GB)), offer(disk=99 * GB)),
    ("admissible", "decide.server-raised", make_card(host=change(STATED, storage_bytes=10 * GB)), offer(disk=100 * GB)),
    ("exclude", "decide.ram-below", make_card(host=change(STATED, ram_bytes=GIB)), offer(ram=40 * GIB - 1)),
    ("exclude", "decide.server-computed", make_card(host=change(STATED, ram_bytes=None)), offer(ram=40 * GIB - 1)),
    ("to_confirm", "decide.server-computed", make_card(host=change(STATED, ram_bytes=None)), offer(ram=10**15)),
    ("to_confirm", "decide.requirement-not-stated", make_card(host=change(STATED, ram_bytes=None)), offer(ram=None)),
    ("exclude", "decide.storage-below", make_card(host=None), offer(disk=100 * GB - 1)),
    ("to_confirm", "decide.requirement-not-stated", make_card(host=None), offer()),
    ("to_confirm", "decide.server-computed", make_card(host=None), offer(disk=None)),
    ("admissible", "decide.placement-not-applicable", make_card(host="none"), offer(disk=1, ram=1)),
    (
        "admissible",
        "decide.placement-not-applicable",
        make_card(host=change(STATED, storage_bytes="none")),
        offer(disk=1),
    ),
]


@pytest.mark.parametrize("state, code, card, offered", TABLE)
def test_golden(state, code, card, offered):
    verdict = placement(card=card, offer=offered)
    assert verdict.state == state, codes(verdict.reasons)
    assert code in codes(verdict.reasons)


def test_nothing_computed_leaves_the_card_alone():
    verdict = placement(card=make_card(host=None), offer=offer(disk=1), volumes=None)
    assert codes(verdict.settle) == ["decide.requirement-not-stated"]
    assert "decide.server-computed" not in codes(verdict.reasons)


def test_a_contract_that_states_more_outweighs_the_page():
    contract = make_document("disk_bytes", 200, Scope(offer="rtx4090-1x3d"), unit="GB", producer={"source": "contract"})
    verdict = placement(offer=offer(disk=GB), records=(*GOOD_RECORDS, contract))
    assert (verdict.state, "decide.overridden" in codes(verdict.reasons)) == ("admissible", True)


def reading(quantity, value, unit="B", basis=None, offer="rtx4090-1x3d", **fields):
    return make_run(Scope(offer=offer), (Claim(quantity=quantity, value=value, unit=unit, basis=basis),), **fields)


# what is read on the machine; state, code among the reasons, RAM on the sheet
READ = [
    (reading("ram_bytes", 16 * GIB), "exclude", "decide.ram-below", 128 * GIB),
    (reading("ram_bytes", 16 * GIB), "exclude", "decide.overridden", 128 * GIB),
    (reading("ram_bytes", 64 * GIB), "admissible", "decide.property-read-there", None),
    (reading("ram_bytes", 64 * GIB), "admissible", "decide.overridden", 16 * GIB),
    (reading("ram_bytes", 16 * GIB, basis="free"), "to_confirm", "decide.property-free-only", 128 * GIB),
    (reading("ram_bytes", 64 * GIB, basis="free"), "admissible", "decide.property-read-there", None),
    (reading("ram_bytes", 16 * GIB, offer="another"), "admissible", "decide.ram-enough", 128 * GIB),
    (reading("ram_bytes", 16 * GIB, offer=None), "admissible", "decide.ram-enough", 128 * GIB),
    (reading("ram_bytes", 16 * GIB, method="attest"), "admissible", "decide.ram-enough", 128 * GIB),
]


@pytest.mark.parametrize("record, state, code, ram", READ)
def test_what_is_read_on_the_machine_of_the_offer_outweighs_its_sheet(record, state, code, ram):
    verdict = placement(offer=offer(ram=ram), volumes=None, records=(*GOOD_RECORDS, record))
    assert (verdict.state, code in codes(verdict.reasons)) == (state, True), codes(verdict.reasons)
    assert (record.id in {ref.id for ref in verdict.evidence}) is (code != "decide.ram-enough")


def test_a_start_is_promised_and_not_read():
    record = reading("starts_at", "2026-12-30T00:00:00Z", None)
    assert judge(records=(*GOOD_RECORDS, record)).criterion("budget").state == "admissible"


class TestNodes:
    SPREAD = Placement(gpus=4, tensor_parallel=2, pipeline_parallel=2)
    # placement, lots, cards, GPUs per node, nodes, the most nodes of one copy
    TABLE = [
        (Placement(gpus=1), 1, 8, None, None, 1),
        (Placement(gpus=4, tensor_parallel=4), 1, 8, None, None, 1),
        (SPREAD, 1, 8, None, None, 2),
        (SPREAD, 1, 8, 8, 1, 1),
        (SPREAD, 1, 8, 4, 2, 2),
        (SPREAD, 1, 8, None, 1, 1),
        (Placement(gpus=8, pipeline_parallel=8), 1, 8, 2, None, 4),
        (None, 8, 1, None, None, 8),
        (None, 1, 8, 8, None, 1),
        (None, 1, 1, None, None, 1),
    ]

    @pytest.mark.parametrize("stated, lots, cards, per_node, nodes, most", TABLE)
    def test_how_many_nodes_a_copy_may_lie_on(self, stated, lots, cards, per_node, nodes, most):
        made = make_offer(lots=lots, cards=cards, gpus_per_node=per_node, nodes=nodes)
        assert most_nodes(make_card(placement=stated), made) == most

    def test_one_node_of_several_holds_a_share(self):
        card = make_card(placement=self.SPREAD, host=change(STATED, interconnect="nvlink"))
        for disk, state in ((50 * GB - 1, "exclude"), (50 * GB, "exclude"), (200 * GB, "to_confirm")):
            made = offer(disk=disk, cards=8, gpus_per_node=4, nodes=2, gpu_link="nvlink")
            assert placement(card=card, offer=made).state == state
        spread = change(card, host=change(card.host, storage_bytes=None))
        made = offer(disk=50 * GB - 1, cards=8, gpus_per_node=4, nodes=2, gpu_link="nvlink")
        verdict = placement(card=spread, offer=made)
        assert verdict.state == "exclude"
        assert {"decide.storage-below", "decide.server-shared-out"} <= set(codes(verdict.reasons))
        made = change(made, host=change(made.host, disk_bytes=50 * GB))
        assert placement(card=spread, offer=made).state == "to_confirm"

    def test_lots_are_not_one_node(self):
        card = make_card(placement=Placement(gpus=8, tensor_parallel=8), host="none")
        for lots, cards in ((8, 1), (1, 8)):
            verdict = placement(card=card, offer=make_offer(lots=lots, cards=cards, gpus_per_node=None))
            assert verdict.state == "to_confirm"
            assert "decide.placement-node-undocumented" in codes(verdict.reasons)
            assert ("decide.placement-lots" in codes(verdict.reasons)) is (lots > 1)
            assert "decide.settle-node" in codes(verdict.settle)

    def test_the_number_of_nodes_says_how_many_gpus_are_in_one(self):
        card = make_card(placement=Placement(gpus=8, tensor_parallel=8), host="none")
        one = placement(card=card, offer=make_offer(cards=8, gpus_per_node=None, nodes=1))
        assert (one.state, "decide.settle-node" in codes(one.settle)) == ("to_confirm", False)
        eight = placement(card=card, offer=make_offer(cards=8, gpus_per_node=None, nodes=8))
        assert eight.state == "exclude"


class TestWishes:
    def test_stock_is_shown_and_proves_nothing(self):
        verdict = placement(offer=offer(stock="available", stock_checked_at=at(1)))
        assert verdict.state == "admissible"
        assert codes(verdict.reasons)[-1] == "decide.stock"
        undated = placement(offer=offer(disk=None, stock="available"))
        assert (undated.state, codes(undated.reasons)[-1]) == ("to_confirm", "decide.stock-undated")

    def test_stock_does_not_stand_in_for_a_start(self):
        price = Price(kind="total", money=Money(Decimal(1), "USD"), term_hours=Decimal(72), tax_included=True)
        decision = judge(offer=offer(price=price, stock="available", stock_checked_at=at(1)))
        assert decision.criterion("budget").state == "to_confirm"
        assert "decide.start-undocumented" in codes(decision.criterion("budget").reasons)

    @LAW
    @given(worlds, st.sampled_from(["available", "limited", "none"]))
    def test_no_stock_notice_changes_a_verdict(self, world, stock):
        scene, records = world
        with_it = judge_world(scene._replace(offer=change(scene.offer, stock=stock)), records)
        without = judge_world(scene, records)
        assert [row.state for row in with_it.criteria] == [row.state for row in without.criteria]


class TestContradictions:
    def test_a_need_below_the_floor_is_told_at_its_line(self, tmp_path):
        file = tmp_path / "card.yaml"
        file.write_text("capienza: 1\nhost:\n  ram: 8 GiB\n  storage: 10 GB\n")
        card = make_card(host=Host(ram_bytes=8 * GIB, storage_bytes=10 * GB), file=str(file))
        found = contradictions(card, make_volumes())
        assert [str(one.parameters["place"]).removeprefix(str(tmp_path)) for one in found] == [
            "/card.yaml:3:8: host.ram",
            "/card.yaml:4:12: host.storage",
        ]
        assert found[1].parameters["floor_bytes"] == 100 * GB

    def test_equal_none_and_unstated_contradict_nothing(self):
        for host in (Host(ram_bytes=40 * GIB, storage_bytes=100 * GB), Host(ram_bytes="none"), None, "none", Host()):
            assert contradictions(make_card(host=host), make_volumes()) == ()

    def test_a_copy_over_several_nodes_needs_its_share_on_each(self):
        card = make_card(host=Host(storage_bytes=50 * GB), placement=Placement(gpus=2, pipeline_parallel=2))
        assert contradictions(card, make_volumes()) == ()
        assert contradictions(change(card, placement=Placement(gpus=1)), make_volumes())

    def test_a_download_is_not_shared_out(self):
        card = make_card(host=Host(egress_bytes=50 * GB), placement=Placement(gpus=2, pipeline_parallel=2))
        (found,) = contradictions(card, make_volumes(egress=Range.exact(60 * GB)))
        assert found.parameters["floor_bytes"] == 60 * GB


class TestBill:
    def fee(self, volumes, host=None):
        card = make_card(host=host)
        fee = Fee(kind="storage", money=Money(Decimal(1), "USD"), unit="per_gb_month", month_hours=Decimal(720))
        return judge(card=card, offer=offer(fees=(fee,)), sizing=make_sizing(volumes=volumes)).cost

    def test_an_exact_volume_is_billed(self):
        # 100 GB for 72 of 720 hours at 1 USD: 10 USD beside the package.
        assert self.fee(make_volumes()).planned == Money(Decimal("57.14"), "USD")

    def test_one_that_is_not_exact_leaves_the_bill_open(self):
        for volumes in (make_volumes(disk=Range(1, 2, 3)), make_volumes(disk=None), None):
            assert self.fee(volumes).planned is None

    def test_of_the_stated_and_the_computed_the_larger_is_billed(self):
        assert self.fee(make_volumes(), Host(storage_bytes=10 * GB)).planned == Money(Decimal("57.14"), "USD")
        assert self.fee(make_volumes(), Host(storage_bytes=200 * GB)).planned == Money(Decimal("67.14"), "USD")


ORDER = {"exclude": 0, "to_confirm": 1, "admissible": 2, "not_applicable": 3}


@LAW
@given(worlds, st.integers(0, 200), st.integers(0, 100), st.integers(0, 100))
def test_a_larger_floor_never_helps_and_a_larger_server_never_hurts(world, disk, more, ram):
    scene, records = world

    def state(disk, ram, bigger=0):
        volumes = make_volumes(Range.exact(disk * GB), Range.exact(ram * GIB))
        sizing = change(scene.sizing, volumes=volumes)
        host = scene.offer.host
        host = change(host, disk_bytes=None if host.disk_bytes is None else host.disk_bytes + bigger * GB)
        made = change(scene.offer, host=host)
        return ORDER[judge_world(scene._replace(sizing=sizing, offer=made), records).criterion("placement").state]

    assert state(disk + more, ram) <= state(disk, ram)
    assert state(disk, ram + more) <= state(disk, ram)
    assert state(disk, ram, more) >= state(disk, ram)


def test_needs_that_nobody_computed_have_no_floor():
    needs = server_needs(make_card(), None)
    assert {need.floor_bytes for need in needs.values()} == {0}
    assert needs["host.ram"].stated == 64 * GIB
