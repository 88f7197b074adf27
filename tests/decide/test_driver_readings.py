"""What records say that the driver reports: the capacity that peaks are compared with, here and elsewhere."""

from __future__ import annotations

import pytest
from decide_strategies import LAW, worlds
from decide_strategies import judge as judge_world
from decide_world import (
    NOW,
    SCOPE,
    change,
    codes,
    make_card,
    make_document,
    make_offer,
    make_quality,
    make_run,
    make_sizing,
    peaks,
    run_claims,
)
from hypothesis import given

from capienza.catalog.capacity import capacity_of
from capienza.catalog.offer import GpuClaim
from capienza.decide.case import Evidence
from capienza.decide.driver_readings import read_sizing
from capienza.decide.engine import decide
from capienza.decide.verdict import cite
from capienza.evidence.record import Claim, Scope
from capienza.evidence.standing import standing
from capienza.ledger.capacity import capacity_from
from capienza.units import GIB, MIB

HERE = "rtx4090-1x3d"
A100 = GpuClaim(name_raw="A100 PCIe 40GB", candidates=("a100_pcie_40",))
"""A GPU whose total nobody collected."""


def total(mib, quantity="gpu_reported_bytes", offer=HERE, gpu="a100_pcie_40", **fields):
    scope = Scope(offer=offer, gpu=gpu)
    return make_run(scope, (Claim(quantity=quantity, value=mib * MIB, unit="B"),), **fields)


def sheet(mib, source="contract"):
    return make_document("gpu_reported_bytes", mib * MIB, Scope(offer=HERE), "B", producer={"source": source})


def run(peak, counter="device"):
    claims = run_claims(measured=peaks(peak, counter))
    return make_run(change(SCOPE, gpu="a100_pcie_40"), claims)


def memory(*records, peak=36 * GIB, counter="device", gpu=A100):
    """The verdict on memory, with the capacities of the catalogue."""
    given = [run(peak, counter), make_quality(scope=change(SCOPE, gpu="a100_pcie_40")), *records]
    return next(decide(make_card(), [make_offer(gpu=gpu)], sizing_of, given, NOW)).criterion("memory")


def sizing_of(claim, _):
    return make_sizing(capacity=capacity_from(capacity_of(claim), 0))


OTHER_GPU, OTHER_OFFER = total(40960, gpu="l40s"), total(40960, offer="another", gpu=None)
# records, state, code among the reasons
TABLE = [
    ((), "to_confirm", "decide.memory-capacity-unknown"),
    ((total(40960),), "admissible", "decide.capacity-read-here"),
    ((total(40960, gpu=None),), "admissible", "decide.capacity-read-here"),
    ((sheet(40960),), "admissible", "decide.capacity-read-here"),
    ((total(40960, offer=None),), "admissible", "decide.capacity-read-elsewhere"),
    ((total(40960, offer="another"),), "admissible", "decide.capacity-read-elsewhere"),
    ((OTHER_GPU,), "to_confirm", "decide.memory-capacity-unknown"),
    ((OTHER_OFFER,), "to_confirm", "decide.memory-capacity-unknown"),
    ((total(40960, method="attest"),), "to_confirm", "decide.memory-capacity-unknown"),
    ((total(24564),), "to_confirm", "decide.capacity-unbelieved"),
    ((total(40960), total(38000)), "to_confirm", "decide.memory-margin-short"),
    ((total(40960), sheet(38000)), "admissible", "decide.capacity-read-here"),
    ((sheet(40960), total(38000)), "to_confirm", "decide.memory-margin-short"),
    ((total(40960, offer=None), total(38000)), "to_confirm", "decide.memory-margin-short"),
    ((total(40960), total(38000, offer=None)), "admissible", "decide.capacity-read-here"),
    ((total(40960, inputs=("d" * 64,)),), "to_confirm", "evidence.reference-missing"),
]


@pytest.mark.parametrize("records, state, code", TABLE)
def test_golden(records, state, code):
    verdict = memory(*records)
    assert (verdict.state, code in codes(verdict.reasons)) == (state, True), codes(verdict.reasons)


def test_what_would_settle_an_unknown_capacity_names_the_claim():
    assert memory().settle[0].code == "decide.settle-capacity"
    assert "gpu_reported_bytes" in str(memory().settle[0])


@pytest.mark.parametrize("offer, code", [(HERE, "decide.capacity-of-offer"), (None, "decide.capacity-of-gpu")])
def test_the_basis_of_the_capacity_names_the_record(offer, code):
    record = total(40960, offer=offer)
    sizing = read_sizing(make_offer(gpu=A100), 1, Evidence(standing([record], NOW)), sizing_of)
    assert sizing.capacity is not None
    assert sizing.capacity.smallest_basis.code == code
    assert sizing.readings == (cite(record),)


def test_the_reading_is_cited():
    assert total(40960).id in {ref.id for ref in memory(total(40960)).evidence}


def test_a_reading_elsewhere_excludes_nothing():
    """The floor of 15 GiB is above what one GPU of the name reported; another may report more."""
    small = change(A100, name_raw="Tesla T4", candidates=("t4",))
    largest = capacity_of(small).largest_bytes
    assert largest is not None
    assert largest > 15 * GIB > 14900 * MIB
    elsewhere = memory(total(14900, offer=None, gpu="t4"), gpu=small)
    assert elsewhere.state == "to_confirm"
    assert memory(total(14900, gpu="t4"), gpu=small).state == "exclude"


@pytest.mark.parametrize(
    "records, state",
    [
        ((total(40960),), "to_confirm"),
        ((total(40960), total(40326, "cuda_total_bytes")), "admissible"),
        ((total(40960), total(40326, "cuda_total_bytes", offer=None)), "admissible"),
        ((total(40960), total(40961, "cuda_total_bytes")), "to_confirm"),
        ((total(40960), total(38000, "cuda_total_bytes")), "to_confirm"),
    ],
)
def test_an_allocators_counter_is_compared_with_the_stated_cuda_total(records, state):
    verdict = memory(*records, counter="reserved")
    assert verdict.state == state, codes(verdict.reasons)


def test_what_the_offer_itself_reports_stands_beside_a_page_of_its_rank():
    own = change(A100, memory_reported_bytes=40960 * MIB, memory_source="driver")
    assert memory(gpu=own).state == "admissible"
    assert memory(sheet(38000, "public_page"), gpu=own).state == "to_confirm"
    assert memory(sheet(38000, "catalogue"), gpu=own).state == "admissible"


@LAW
@given(worlds)
def test_a_reading_of_another_machine_changes_nothing(world):
    """One whose scope names another offer and no GPU, or another GPU."""
    scene, records = world
    before = judge_world(scene, records)
    after = judge_world(scene, [*records, *(total(16 * 1024, offer="another", gpu=gpu) for gpu in (None, "l4"))])
    assert [row.state for row in before.criteria] == [row.state for row in after.criteria]
