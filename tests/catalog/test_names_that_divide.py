"""A seller's name that says MIG, or a size that no such card has: never taken for the whole GPU that it also names."""

import pytest

from capienza.catalog.asked import claim_of
from capienza.catalog.capacity import capacity_of, contradicts
from capienza.catalog.claims import Claims
from capienza.catalog.forms import FullGpu
from capienza.catalog.names import memory_in, names_mig
from capienza.catalog.notes import Findings


def read(name, **fields):
    return Claims(Findings()).of(FullGpu(name_raw=name, **fields))


MIG = ["RTX 6000 Ada (MIG)", "H100 MIG", "MIG A100", "NVIDIA A100-SXM4-80GB MIG", "a100_mig"]


@pytest.mark.parametrize("name", MIG)
def test_a_name_that_says_mig_is_a_part_of_a_gpu(name):
    claim = read(name).claim
    assert (claim.share, claim.mig_profile) == ("mig", None)
    assert claim_of(name).share == "mig"
    assert capacity_of(claim).smallest_bytes is None


@pytest.mark.parametrize("share", ["whole", "vgpu", "timeslice"])
def test_and_contradicts_any_other_share(share):
    assert [one.code for _, one in read("H100 MIG", share=share).notes.problems] == ["catalog.profile-without-mig"]


def test_no_other_word_says_mig():
    assert not any(map(names_mig, ["H100 SXM", "migA100", "A100 amigo"]))


@pytest.mark.parametrize("fields", [{}, {"memory_nominal": "48 GB"}])
@pytest.mark.parametrize("name", ["RTX 6000 Ada 24GB", "rtx 6000 ada 24 GiB", "RTX 6000 Ada-96GB"])
def test_a_size_in_the_name_that_no_such_card_has_leaves_its_capacity_open(name, fields):
    claim = read(name, **fields).claim
    assert contradicts(claim)
    assert capacity_of(claim).smallest_bytes is None


@pytest.mark.parametrize("name, size", [("GH200 480GB", None), ("A100-SXM4-80GB", None), ("H100 80GB", "80 GB")])
def test_a_size_that_belongs_to_the_name_contradicts_nothing(name, size):
    assert memory_in(name) in (None, size)
    assert not contradicts(read(name).claim)
