"""The two capacities of an offered GPU (rule 3)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capienza.catalog.capacity import capacity_of
from capienza.catalog.devices import load_devices, mig_profiles
from capienza.catalog.offer import GpuClaim
from capienza.units import GIB, MIB

DEVICES = load_devices()
KEYS = st.sampled_from(sorted(DEVICES))


def capacities(**words: Any) -> tuple[int | None, int | None, int | None]:
    found = capacity_of(GpuClaim(name_raw="x", **words))
    return tuple(  # type: ignore[return-value]
        None if amount is None else amount // MIB
        for amount in (found.largest_bytes, found.smallest_bytes, found.cuda_total_bytes)
    )


def test_one_card_has_the_bounds_of_its_row() -> None:
    assert capacities(candidates=("rtx6000_ada",)) == (49140, 46068, 45550)


def test_exclude_takes_the_largest_candidate_and_fit_the_smallest() -> None:
    assert capacities(candidates=("rtx4090", "rtx4090_48mod")) == (49140, 23028, None)
    assert capacities(candidates=("h100_pcie", "h100_sxm", "h100_nvl")) == (95830, 81559, None)
    assert capacities(candidates=("h100_pcie", "h100_sxm")) == (81559, 81559, 81008)


def test_one_candidate_without_a_driver_figure_leaves_fit_unknown() -> None:
    assert capacities(candidates=("a100_pcie_40", "a100_sxm_80")) == (81920, None, None)


def test_the_sellers_number_and_ecc_claim_change_nothing() -> None:
    plain = capacities(candidates=("h100_sxm",))
    assert capacities(candidates=("h100_sxm",), memory_nominal="80 GB") == plain
    assert capacities(candidates=("a40",), ecc="off") == capacities(candidates=("a40",))
    seller = {"memory_reported_bytes": 90000 * MIB, "memory_source": "seller"}
    assert capacities(candidates=("h100_sxm",), **seller) == plain


def test_the_drivers_own_total_wins() -> None:
    driver = {"memory_reported_bytes": 49140 * MIB, "memory_source": "driver"}
    assert capacities(candidates=("a40",), **driver) == (49140, 49140, None)
    assert capacities(candidates=(), **driver) == (49140, 49140, None)
    with_ecc = {"memory_reported_bytes": 46068 * MIB, "memory_source": "driver"}
    assert capacities(candidates=("a40",), **with_ecc) == (46068, 46068, 45416)


def test_an_unknown_name_has_no_capacity() -> None:
    found = capacity_of(GpuClaim(name_raw="HX100"))
    assert (found.largest_bytes, found.smallest_bytes, found.cuda_total_bytes) == (None, None, None)
    assert found.largest_basis


def test_a_contradiction_never_supports_a_fit() -> None:
    assert capacities(candidates=("rtx4090", "rtx4090_48mod"), memory_nominal="80 GB") == (49140, None, None)


@pytest.mark.parametrize(
    "key, profile, largest_mib, smallest_mib",
    [
        ("a100_pcie_80", "1g.10gb", 9728, 9728),
        ("a100_sxm_80", "3g.40gb", 40198, 40186),  # 39.25 GiB to the nearest 0.01
        ("a100_sxm_80", "7g.80gb", 80902, 80890),  # 79 GiB, less than the whole card
        ("h100_pcie", "1g.20gb", 20096, 20085),  # 19.62 GiB, so 19.615 to 19.625
        ("h200_sxm", "1g.18gb", 16390, 16378),  # the name says 18
        ("a100_sxm_40", "1g.5gb", 4864, None),  # a mock's constant bounds from above only
        ("b200", "1g.23gb", 23 * 1024, None),  # nothing but the name
        ("h100_nvl", "1g.12gb", 12 * 1024, None),  # a profile that is not listed
    ],
)
def test_mig_instances(key: str, profile: str, largest_mib: int, smallest_mib: int | None) -> None:
    assert capacities(candidates=(key,), share="mig", mig_profile=profile) == (largest_mib, smallest_mib, None)


def test_a_share_of_unknown_size_is_bounded_by_the_card_and_fits_nothing() -> None:
    for share in ("vgpu", "timeslice", "mig"):
        assert capacities(candidates=("a40",), share=share) == (49140, None, None)


def test_no_instance_exceeds_its_card_or_its_name() -> None:
    for key, profile in mig_profiles():
        largest, smallest, _ = capacities(candidates=(key,), mig_profile=profile)
        assert largest is not None
        gigabytes = int(profile.split(".")[1].split("gb")[0])
        assert largest * MIB <= min(DEVICES[key].largest_bytes, gigabytes * GIB)
        assert smallest is None or smallest <= largest


@given(
    st.lists(st.sampled_from(sorted(DEVICES)), min_size=1, max_size=5, unique=True), st.sampled_from(sorted(DEVICES))
)
def test_more_candidates_never_make_a_verdict_more_definite(keys: list[str], another: str) -> None:
    few = capacity_of(GpuClaim(name_raw="x", candidates=tuple(keys)))
    more = capacity_of(GpuClaim(name_raw="x", candidates=(*keys, another)))
    assert few.largest_bytes is not None
    assert more.largest_bytes is not None
    assert more.largest_bytes >= few.largest_bytes
    if more.smallest_bytes is not None:
        assert few.smallest_bytes is not None
        assert more.smallest_bytes <= few.smallest_bytes
    if more.cuda_total_bytes is not None:
        assert few.cuda_total_bytes is not None
        assert more.cuda_total_bytes <= few.cuda_total_bytes


def test_a_cuda_total_that_was_collected_is_known_without_a_drivers_total() -> None:
    assert capacities(candidates=("a100_pcie_40",)) == (40960, None, 40513)
    assert capacities(candidates=("a100_pcie_40",), memory_nominal="80 GB") == (40960, None, None)
