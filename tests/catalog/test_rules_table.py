"""Combinations judged by hand from the data and from every trap of the notes on offers and devices, section 4.

Labels: the kind of a violation that is established; "?kind" one that is only a doubt; "open" where the requirement
itself is not known. An empty set: everything that was read is met.
"""

from __future__ import annotations

import pytest

from capienza.catalog.capability import traits_of
from capienza.catalog.devices import load_devices
from capienza.catalog.offer import GpuClaim
from capienza.catalog.outcome import host_outcomes, outcomes
from capienza.catalog.rule_texts import subject_text
from capienza.catalog.selection import ANY_WEIGHTS, Combination
from capienza.predict.combination import engine_release
from capienza.truth import Truth


def traits(key, **stated):
    return traits_of(GpuClaim(name_raw=key, candidates=(key,), **stated))[0]


def combination(engine, version, subjects, packages=()):
    return Combination(
        engine=engine,
        version=version,
        release=engine_release(version, engine),
        subjects=frozenset({"start", ANY_WEIGHTS, *subjects.split()}),
        packages=packages,
    )


def label(one):
    if one.rule is None:
        return "open"
    if one.met is Truth.UNKNOWN:
        return "open"
    return one.rule.violation if one.truth is Truth.FALSE or (one.is_note and one.is_read) else f"?{one.rule.violation}"


def labels(found):
    return {label(one) for one in found if one.met is not Truth.TRUE}


V33, S23, HF = ("vllm", "0.33.0"), ("sglang", "0.5.23"), ("transformers", "5.24.0")
W = "weights:"

TABLE = [
    # The capability of the wheel is the floor, whatever the method says: V100 is 7.0, PyPI's torch starts at 7.5.
    (*V33, W + "gptq", "v100_16", {"no_kernel", "slower"}),
    (*V33, W + "awq", "v100_16", {"no_kernel", "refused"}),
    (*V33, W + "plain", "v100_32", {"no_kernel"}),
    (*V33, W + "plain", "gtx1080ti", {"no_kernel"}),
    (*V33, W + "gptq", "t4", set()),
    (*V33, W + "awq", "t4", set()),
    # Code for 8.6 runs on 8.9, 10.0 on 10.3, 12.0 on 12.1; nothing runs across majors.
    (*V33, W + "plain", "l4", set()),
    (*V33, W + "plain", "gb300", {"?no_kernel"}),  # its processor: aarch64 wheels were not read
    (*V33, W + "plain", "gb10", {"?no_kernel"}),
    (*V33, W + "plain", "gh200_96", {"?no_kernel"}),
    # FP8 below 8.9 is slower in vLLM, in the same memory.
    (*V33, W + "fp8", "h100_sxm", set()),
    (*V33, W + "fp8", "l40s", set()),
    (*V33, W + "fp8", "a100_sxm_80", {"slower"}),
    (*V33, W + "fp8", "rtx3090", {"slower"}),
    (*V33, W + "fp8", "t4", {"slower"}),
    (*V33, W + "fp8", "v100_16", {"no_kernel", "refused"}),
    (*V33, W + "ct-w8a8-fp8", "a10", {"slower"}),
    (*V33, W + "ct-w8a8-fp8", "rtx5090", set()),
    (*V33, W + "ct-w8a16-fp8", "t4", set()),
    # The same method has another floor in another engine.
    (*V33, W + "ct-wna16", "t4", set()),
    (*S23, W + "ct-wna16", "t4", {"refused"}),
    (*S23, W + "ct-wna16", "a10", set()),
    (*V33, W + "ct-w8a8-int8", "t4", set()),
    (*S23, W + "ct-w8a8-int8", "t4", {"refused"}),
    (*V33, W + "ct-nvfp4", "t4", {"slower"}),
    (*V33, W + "ct-nvfp4", "b200", set()),
    (*V33, W + "ct-nvfp4", "rtx5090", set()),
    (*V33, W + "ct-nvfp4", "h100_sxm", {"slower"}),
    (*S23, W + "ct-nvfp4", "h100_sxm", {"refused", "?slower"} - {"?slower"}),
    (*S23, W + "ct-nvfp4", "b200", set()),
    (*S23, W + "ct-nvfp4a16", "h100_sxm", set()),
    (*S23, W + "fp8", "t4", {"refused"}),
    (*S23, W + "fp8", "a100_sxm_80", {"slower"}),
    (*S23, W + "fp8", "l4", set()),
    (*S23, W + "modelopt-fp8", "a100_sxm_80", {"refused"}),
    (*V33, W + "modelopt-fp8", "a100_sxm_80", set()),
    (*S23, W + "plain", "v100_16", {"refused", "no_kernel"}),
    # A capability is no ordered line: MXFP8 is in 10.0 and 10.3, not in 12.x.
    (*S23, W + "mxfp8", "b200", set()),
    (*S23, W + "mxfp8", "rtx5090", {"?no_kernel"}),
    (*S23, W + "mxfp8", "h100_sxm", {"refused", "?no_kernel"}),
    (*V33, W + "ct-mxfp8", "rtx5090", {"slower"}),
    (*V33, W + "ct-mxfp8", "b200", set()),
    ("transformer-engine", "2.8", W + "mxfp8", "rtx5090", {"no_kernel"}),
    ("transformer-engine", "2.8", W + "mxfp8", "b300", set()),
    # FA3 is for 9.x alone, FlashMLA for 9.x and 10.x, CUTLASS MLA for 10.x; FlashInfer from 8.0 to 12.1.
    (*V33, "attention:fa3", "h100_sxm", set()),
    (*V33, "attention:fa3", "b200", {"slower"}),
    (*V33, "attention:fa3", "l4", {"slower"}),
    (*HF, "attention:flash_attention_3", "h100_sxm", {"open"}),
    (*HF, "attention:flash_attention_3", "b200", {"open", "?no_kernel"}),
    (*HF, "attention:flash_attention_2", "t4", {"open", "?refused"}),
    (*V33, "attention:flashmla", "b200", set()),
    (*V33, "attention:flashmla", "rtx5090", {"slower"}),
    (*V33, "attention:cutlass_mla", "h100_sxm", {"slower"}),
    (*V33, "attention:flashinfer", "t4", {"slower"}),
    # bf16 below 8.0: vLLM refuses what it is told, changes what it is not; SGLang changes both.
    (*V33, "dtype:bf16 dtype:bf16-stated", "t4", {"refused"}),
    (*V33, "dtype:bf16 dtype:bf16-auto", "t4", {"slower"}),
    (*S23, "dtype:bf16 dtype:bf16-stated", "t4", {"slower"}),
    (*V33, "dtype:bf16 dtype:bf16-stated", "a30", set()),
    # The cache has rules of its own, by backend.
    (*V33, "kv:fp8", "t4", {"refused"}),
    (*V33, "kv:fp8", "a100_sxm_80", {"slower"}),  # FlashInfer alone takes it there
    (*V33, "kv:fp8", "l4", set()),
    (*V33, "kv:fp8@triton_attn", "a100_sxm_80", {"refused"}),
    (*V33, "kv:fp8@flashinfer", "a100_sxm_80", set()),
    (*V33, "kv:fp8@flash_attn", "l4", {"slower"}),
    (*V33, "kv:fp8@flash_attn", "h200_sxm", set()),
    (*V33, "kv:bf16", "t4", {"refused"}),
    (*V33, "kv:bf16", "rtx3090", set()),
    # transformers holds FP8 in bf16 below 8.9, and MXFP4 where triton is too old; that hangs on its version.
    (*HF, W + "fp8", "a100_sxm_80", {"silently_larger"}),
    (*HF, W + "fp8", "l4", set()),
    (*HF, W + "mxfp4", "v100_16", {"silently_larger", "open", "?no_kernel"}),
    (*HF, W + "mxfp4", "rtx4090", {"open"}),
    (*HF, W + "fbgemm-fp8", "l4", {"refused"}),
    (*HF, W + "fp8", "v100_16", {"silently_larger", "?no_kernel"}),
    ("transformers", "4.57.1", W + "fp8", "a100_sxm_80", {"?silently_larger"}),
    ("unsloth", "2026.10.9", W + "fp8", "rtx3090", {"silently_larger"}),
    # What moved to a plugin hangs on the plugin; before the move it was in the core.
    (*V33, W + "bnb-4bit", "l4", {"open"}),
    (*V33, W + "gguf", "l4", {"open"}),
    ("vllm", "0.15.1", W + "bnb-4bit", "l4", set()),
    ("vllm", "0.15.1", W + "gguf", "l4", set()),
    ("vllm", "0.26.0", W + "gguf", "l4", {"open"}),
    ("vllm", "0.26.0", W + "bnb-4bit", "l4", set()),
    # Documented hardware: of one release alone, and nothing of Blackwell.
    ("vllm", "0.11.2", W + "awq", "v100_16", {"refused", "?no_kernel"}),
    ("vllm", "0.11.2", W + "awq", "t4", set()),
    ("vllm", "0.11.2", W + "awq", "b200", {"open"}),
    ("vllm", "0.11.2", W + "fp8", "a100_sxm_80", {"slower"}),
    ("vllm", "0.11.2", W + "fp8", "t4", {"refused"}),
    ("vllm", "0.32.0", W + "fp8", "t4", {"slower"}),
    ("vllm", "0.12.0", W + "fp8", "t4", {"?refused"}),
    ("vllm", "0.11.2", W + "gptq", "v100_16", {"?no_kernel"}),
    ("vllm", "0.11.2", W + "ct-w8a8-int8", "v100_16", {"refused", "?no_kernel"}),
    ("vllm", "0.11.2", W + "awq", "mi300x", {"refused"}),
    ("vllm", "0.11.2", W + "gguf", "mi300x", set()),
    # ROCm goes by the gfx name, and by a list of methods.
    (*V33, W + "gptq", "mi300x", set()),
    (*V33, W + "bnb-4bit", "mi300x", {"refused", "open"}),
    ("vllm", "0.14.0", W + "plain", "mi100", {"refused"}),
    ("vllm", "0.14.0", W + "plain", "mi355x", set()),
    ("sglang", "0.5.23", W + "petit-nvfp4", "mi355x", {"refused"}),
    ("sglang", "0.5.23", W + "petit-nvfp4", "mi300x", set()),
    ("tgi", "3.3.5", W + "plain", "mi210", set()),
    ("tgi", "3.3.5", W + "plain", "mi355x", {"refused"}),
    # No rule of the engine, no capability: said, never guessed.
    ("tgi", "3.3.5", W + "plain", "l4", {"open"}),
    (*V33, W + "plain", "gaudi3", {"open"}),
    ("unheard-of", "1.0", W + "plain", "l4", {"open"}),
    # No release, or one that was not read: a doubt at most.
    ("vllm", None, W + "awq", "v100_16", {"?no_kernel", "?refused"}),
    ("vllm", "0.40.0", W + "awq", "v100_16", {"?no_kernel", "?refused"}),
    ("sglang", "0.5.22", W + "ct-wna16", "t4", {"?refused"}),
]  # fmt: skip


@pytest.mark.parametrize("engine, version, subjects, gpu, expected", TABLE)
def test_the_worked_table(engine, version, subjects, gpu, expected):
    assert labels(outcomes(combination(engine, version, subjects), traits(gpu))) == expected


def test_the_table_is_large_enough_and_of_every_kind():
    assert len(TABLE) >= 100
    seen = set().union(*(row[-1] for row in TABLE))
    assert {"refused", "no_kernel", "slower", "silently_larger", "?refused", "?no_kernel", "open"} <= seen


SERVERS = [
    (*V33, "rtx4090", ("driver", "580.95.05"), set()),
    (*V33, "rtx4090", ("driver", "580"), {"slower"}),  # older than the toolkit's own, of the same major
    (*V33, "rtx4090", ("driver", "575.51.03"), {"refused"}),
    (*V33, "rtx4090", ("driver", "1000.1"), set()),  # as numbers, not as text
    (*V33, "h100_sxm", ("driver", "575.51.03"), {"?refused"}),  # a forward-compatibility package may lift it
    (*V33, "rtx4090", ("cuda_max", "12.8"), {"refused"}),
    (*V33, "rtx4090", ("cuda_max", "13.0"), set()),
    (*S23, "rtx4090", ("driver", "570.26"), {"refused"}),
    ("vllm", "0.11.2", "rtx4090", ("driver", "570.26"), {"?refused"}),
    (*HF, "rtx4090", ("driver", "470.42"), set()),  # which CUDA it brings is its user's choice
    (*V33, "l4", ("cpu_arch", "aarch64"), {"?no_kernel"}),
    (*V33, "l4", ("cpu_arch", "x86_64"), set()),
    ("vllm", "0.14.1", "mi300x", ("rocm", "6.2.4"), {"refused"}),
    ("vllm", "0.14.1", "mi300x", ("rocm", "6.3"), set()),
    ("vllm", "0.14.1", "mi355x", ("rocm", "6.4.1"), {"refused"}),
    ("vllm", "0.14.1", "mi355x", ("rocm", "7.0.2"), set()),
    (*V33, "rtx4090", ("driver", "latest"), {"open"}),
]


@pytest.mark.parametrize("engine, version, gpu, fact, expected", SERVERS)
def test_what_a_server_must_have(engine, version, gpu, fact, expected):
    assert labels(host_outcomes(combination(engine, version, "", (fact,)), traits(gpu))) == expected


def test_packages_that_were_read_settle_what_hangs_on_them():
    old = combination(*HF, W + "mxfp4", (("triton", "3.3.1"), ("kernels", "0.11")))
    new = combination(*HF, W + "mxfp4", (("triton", "3.10.0"), ("kernels", "0.11")))
    assert labels(outcomes(old, traits("l4"))) == {"silently_larger"}
    assert labels(outcomes(new, traits("l4"))) == set()


def test_a_build_for_old_cards_is_another_wheel():
    """V100 with torch 2.11 built for CUDA 12.6: the wheel of CUDA 12.8 has nothing for it."""
    for build, expected in (("cu126", set()), ("cu128", {"?no_kernel"}), ("cu130", {"?no_kernel"})):
        asked = combination(*HF, W + "plain", (("torch", f"2.11.0+{build}"),))
        found = labels(outcomes(asked, traits("v100_16"))) - {"open"}
        assert found == {one.lstrip("?") for one in expected}, build


def test_a_stated_capability_counts_where_the_name_does_not_tell_it():
    unknown = traits_of(GpuClaim(name_raw="X9", compute_capability="7.0"))[0]
    assert "no_kernel" in labels(outcomes(combination(*V33, W + "plain"), unknown))
    nothing = traits_of(GpuClaim(name_raw="X9"))[0]
    assert labels(outcomes(combination(*V33, W + "plain"), nothing)) == {"open"}


@pytest.mark.parametrize("stated", [{"compute_capability": "7.0"}, {"gfx_arch": "gfx942"}])
def test_a_capability_that_contradicts_the_name_is_taken_for_neither(stated):
    gpu = traits("mi355x" if "gfx_arch" in stated else "l4", **stated)
    assert gpu.contradicts
    assert labels(outcomes(combination(*V33, W + "plain"), gpu)) == {"open"}


def test_every_nvidia_device_has_a_capability_to_judge():
    assert all(device.compute_capability for device in load_devices().values() if device.vendor == "NVIDIA")


@pytest.mark.parametrize("subject", ["dtype:bf16", "dtype:bf16-auto", "dtype:bf16-stated"])
def test_who_asked_for_a_number_format_is_no_part_of_its_name(subject):
    assert str(subject_text(subject)) == "the number format bf16"
