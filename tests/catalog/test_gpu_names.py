"""What a name may mean."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capienza.catalog import names
from capienza.catalog.devices import load_devices, mig_profiles, table
from capienza.catalog.names import lookup, resolve, stated_gb
from capienza.errors import InputError

DEVICES = load_devices()
BOTH_4090 = ("rtx4090", "rtx4090_48mod")


@pytest.mark.parametrize(
    "name, memory, form, candidates",
    [
        ("RTX 4090", None, None, BOTH_4090),
        ("rtx4090", None, None, BOTH_4090),
        ("RTX_4090", None, None, BOTH_4090),
        ("4090", None, None, BOTH_4090),
        ("NVIDIA GeForce RTX 4090", None, None, BOTH_4090),
        ("GeForce RTX 4090 24GB", None, None, ("rtx4090",)),
        ("RTX 4090", "24 GB", None, ("rtx4090",)),
        ("RTX 4090", "24564 MiB", None, ("rtx4090",)),
        ("RTX 4090", "48GB", None, ("rtx4090_48mod",)),
        ("H100", None, None, ("h100_pcie", "h100_sxm", "h100_nvl")),
        ("H100", "80 GB", None, ("h100_pcie", "h100_sxm")),
        ("H100", "80 GB", "sxm", ("h100_sxm",)),
        ("H100", None, "pcie", ("h100_pcie", "h100_nvl")),
        ("H100 SXM", None, None, ("h100_sxm",)),
        ("H100 80GB", None, None, ("h100_pcie", "h100_sxm")),
        ("NVIDIA H100 80GB HBM3", None, None, ("h100_sxm",)),
        ("NVIDIA H100 Tensor Core GPU", "94 GB", None, ("h100_nvl",)),
        ("A100", None, None, ("a100_pcie_40", "a100_sxm_40", "a100_pcie_80", "a100_sxm_80")),
        ("A100 80GB", None, None, ("a100_pcie_80", "a100_sxm_80")),
        ("A100", "80 GB", None, ("a100_pcie_80", "a100_sxm_80")),
        ("A100-SXM4-40GB", None, None, ("a100_sxm_40",)),
        ("A100 80GB PCIe", None, None, ("a100_pcie_80",)),
        ("L40S", "48 GB", None, ("l40s",)),
        ("L4", "22888 MiB", None, ("l4",)),
        ("RTX 6000 Ada", "48 GB", None, ("rtx6000_ada",)),
        ("RTX 6000", None, None, ("rtx6000_ada", "quadro_rtx6000")),
        ("RTX 3060", None, None, ("rtx3060", "rtx3060_8")),
        ("RTX 3060", "12 GB", None, ("rtx3060",)),
        ("RTX 4070", None, None, ("rtx4070",)),
        ("RTX PRO 6000", None, None, ("rtxpro6000ws", "rtxpro6000s", "rtxpro6000mq")),
        ("B300", "270 GB", None, ("b300",)),
        ("B200", "192 GB", None, ("b200",)),
        ("GH200 480GB", None, None, ("gh200_96",)),  # the driver's name: 480 GB is the CPU's memory
        ("A16", "64 GB", None, ("a16",)),
        ("MI250", "128 GB", None, ("mi250",)),
        ("AMD Instinct MI300X", "192 GB", None, ("mi300x",)),
        ("A100 3g.20gb", None, None, ("a100_pcie_40", "a100_sxm_40")),
        ("A100 80GB 3g.40gb", None, None, ("a100_pcie_80", "a100_sxm_80")),
        ("H100 80GB 3g.40gb", None, None, ("h100_pcie", "h100_sxm")),
        ("H100 3g.40gb", None, None, ("h100_pcie", "h100_sxm")),
        ("H100 3g.40gb", "40 GB", None, ("h100_pcie", "h100_sxm")),
        ("H100 1g.12gb", None, None, ("h100_nvl",)),
        ("H100 1g.20gb", "94 GB", None, ("h100_pcie", "h100_sxm")),
        ("H200 1g.18gb", "141 GB", None, ("h200_sxm", "h200_nvl")),
        ("A100 MIG 3g.40gb", None, None, ("a100_pcie_80", "a100_sxm_80")),
    ],
)
def test_every_candidate_is_kept_until_the_words_settle_it(
    name: str, memory: str | None, form: str | None, candidates: tuple[str, ...]
) -> None:
    found = resolve(name, memory, form)
    assert found.candidates == candidates
    assert not found.contradiction
    codes = [message.code for message in found.findings]
    assert ("catalog.ambiguous-gpu" in codes) == (len(candidates) > 1)


@pytest.mark.parametrize(
    "name, memory, form, code",
    [
        ("RTX 4090", "80 GB", None, "catalog.memory-contradicts-gpu"),
        ("RTX 4090 80GB", None, None, "catalog.memory-contradicts-gpu"),
        ("MI325X", "288 GB", None, "catalog.memory-contradicts-gpu"),
        ("A100 SXM 80GB", "40 GB", None, "catalog.memory-contradicts-gpu"),
        ("H200", None, "oam", "catalog.form-contradicts-gpu"),
        ("L4 1g.10gb", None, None, "catalog.mig-contradicts-gpu"),
        ("H100 1g.5gb", None, None, "catalog.mig-contradicts-gpu"),  # no eighth of 80 or 94 GB
        ("H100 1g.12gb", None, None, None),  # the NVL card's profiles are not listed: it stays possible
    ],
)
def test_a_contradiction_is_said_and_keeps_the_candidates(
    name: str, memory: str | None, form: str | None, code: str | None
) -> None:
    found = resolve(name, memory, form)
    assert found.candidates
    assert found.contradiction == (code is not None)
    assert code is None or code in [message.code for message in found.findings]


@pytest.mark.parametrize("name", ["RTX 4099", "RTX 4090 Laptop", "RTX 4090D", "", "=cmd()", "A" * 5000, "H\u2460"])
def test_an_unknown_name_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="no GPU named"):
        resolve(name)


def test_a_near_name_is_offered() -> None:
    with pytest.raises(InputError) as caught:
        resolve("RTX 409O")
    assert "RTX 4090" in caught.value.as_dict()[0]["hint"]


def test_a_memory_text_that_is_no_size_settles_nothing() -> None:
    found = resolve("A100", "a lot")
    assert len(found.candidates) == 4
    assert "catalog.memory-not-read" in [message.code for message in found.findings]


@pytest.mark.parametrize(
    "text, gigabytes",
    [("24 GB", "24"), ("24gb", "24"), ("24 GiB", "24"), ("24576 MiB", "24"), ("80GB HBM3", "80"), ("0.5 TB", "500")],
)
def test_a_stated_memory_is_read(text: str, gigabytes: str) -> None:
    found = stated_gb(text)
    assert found is not None
    assert f"{found.normalize():f}" == gigabytes


@pytest.mark.parametrize("text", ["", "24", "lots", "-24 GB", "24 GB or 48 GB", "1e9 GB", "24 GB " * 100])
def test_an_unclear_memory_is_not_read(text: str) -> None:
    assert stated_gb(text) is None


def test_every_device_is_found_by_its_key_and_by_its_name() -> None:
    for key, device in DEVICES.items():
        assert key in resolve(key).candidates
        assert key in resolve(device.name).candidates, device.name


def test_every_alias_finds_its_devices() -> None:
    for row in table("gpu_aliases.csv"):
        wanted = (row["gpu_key"] or row["candidates"]).split("|")
        assert set(wanted) <= set(lookup(row["alias"]).candidates), row["alias"]


@given(st.sampled_from(sorted(DEVICES)), st.sampled_from([str.upper, str.lower, str.title]), st.sampled_from(" _-"))
def test_case_and_punctuation_do_not_matter(key: str, case: object, mark: str) -> None:
    name = DEVICES[key].name.partition("(")[0].strip()
    spelled = case(name.replace(" ", mark))  # type: ignore[operator]
    assert key in resolve(spelled).candidates


@given(st.text(max_size=60), st.none() | st.text(max_size=20))
def test_any_text_is_a_name_or_is_refused(name: str, memory: str | None) -> None:
    try:
        found = resolve(name, memory)
    except InputError:
        return
    assert set(found.candidates) <= set(DEVICES)


@given(st.sampled_from(sorted(DEVICES)), st.sampled_from(["24 GB", "48 GB", "80 GB", "12 GB", "1 GB", "?"]))
def test_a_stated_memory_only_narrows(key: str, memory: str) -> None:
    name = DEVICES[key].name.partition(" (")[0]
    assert set(lookup(name, memory).candidates) <= set(lookup(name).candidates)


def test_every_profile_of_the_table_is_a_part_of_its_gpu():
    """What is asked of profiles that nobody listed holds for all that somebody did."""
    assert mig_profiles()
    assert [pair for pair in mig_profiles() if not names._has_slice(load_devices()[pair[0]], pair[1])] == []
