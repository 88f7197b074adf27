"""The tensors each method keeps, against the shapes its library declares."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capienza.errors import InputError
from capienza.formats.scheme import WEIGHT_FORMATS, bits_per_weight, scheme_from_config, scheme_named, stored

CT = {"quant_method": "compressed-tensors", "ignore": []}


def held(
    scheme: Any, shape: tuple[int, ...], name: str = "m.weight", role: str = "mlp", **more: bool
) -> dict[str, Any]:
    """Suffix -> (shape, dtype) of what is stored."""
    tensors = stored(name, shape, role, scheme, "bf16", **more)
    return {t.name.removeprefix("m.").removeprefix("experts."): (t.shape, t.dtype) for t in tensors}


def config(**keys: Any) -> Any:
    return scheme_from_config(keys, "config.json")


def group(stored_as: str, weights: dict[str, Any], activations: dict[str, Any] | None = None) -> Any:
    one = {"targets": ["Linear"], "weights": weights, "input_activations": activations, "format": stored_as}
    return config(**CT, config_groups={"group_0": one})


def weights(**keys: Any) -> dict[str, Any]:
    return {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "channel", "dynamic": False, **keys}


STATIC8 = {"num_bits": 8, "type": "float", "strategy": "tensor", "dynamic": False, "symmetric": True}
LOCAL4 = {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16, "dynamic": "local"}
NV = {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}


def test_gptq_as_auto_gptq_declares_it() -> None:
    assert held(scheme_named("gptq-int4-g128"), (64, 256)) == {
        "qweight": ((32, 64), "int32"),
        "qzeros": ((2, 8), "int32"),
        "scales": ((2, 64), "fp16"),
        "g_idx": ((256,), "int32"),
    }
    three = held(scheme_named("gptq-int3"), (64, 256))
    assert (three["qweight"], three["qzeros"], three["scales"]) == (
        ((24, 64), "int32"),
        ((1, 6), "int32"),
        ((1, 64), "fp16"),
    )


def test_awq_as_auto_awq_declares_it() -> None:
    assert held(scheme_named("awq-int4-g128"), (64, 256)) == {
        "qweight": ((256, 8), "int32"),
        "qzeros": ((2, 8), "int32"),
        "scales": ((2, 64), "fp16"),
    }


@pytest.mark.parametrize(
    ("stored_as", "scheme", "expected"),
    [
        ("int-quantized", weights(), {"weight": ((64, 256), "int8"), "weight_scale": ((64, 1), "bf16")}),
        (
            "int-quantized",
            weights(symmetric=False),
            {
                "weight": ((64, 256), "int8"),
                "weight_scale": ((64, 1), "bf16"),
                "weight_zero_point": ((64, 1), "int8"),
            },
        ),
        ("int-quantized", weights(strategy="tensor"), {"weight": ((64, 256), "int8"), "weight_scale": ((1,), "bf16")}),
        (
            "float-quantized",
            weights(type="float"),
            {"weight": ((64, 256), "fp8_e4m3"), "weight_scale": ((64, 1), "bf16")},
        ),
        (
            "float-quantized",
            weights(type="float", strategy="block", block_structure=[32, 128]),
            {"weight": ((64, 256), "fp8_e4m3"), "weight_scale": ((2, 2), "bf16")},
        ),
        (
            "naive-quantized",
            weights(num_bits=4, strategy="group", group_size=128),
            {"weight": ((64, 256), "int8"), "weight_scale": ((64, 2), "bf16")},
        ),
        (
            "pack-quantized",
            weights(num_bits=4, strategy="group", group_size=128),
            {
                "weight_packed": ((64, 32), "int32"),
                "weight_scale": ((64, 2), "bf16"),
                "weight_shape": ((2,), "int64"),
            },
        ),
        (
            "pack-quantized",
            weights(num_bits=4, group_size=128, strategy=None, symmetric=False, actorder="group"),
            {
                "weight_packed": ((64, 32), "int32"),
                "weight_scale": ((64, 2), "bf16"),
                "weight_zero_point": ((8, 2), "int32"),
                "weight_shape": ((2,), "int64"),
                "weight_g_idx": ((256,), "int32"),
            },
        ),
        (
            "pack-quantized",
            weights(num_bits=8, symmetric=False, strategy=None, group_size=-1),
            {
                "weight_packed": ((64, 64), "int32"),
                "weight_scale": ((64, 1), "bf16"),
                "weight_zero_point": ((16, 1), "int32"),
                "weight_shape": ((2,), "int64"),
            },
        ),
        (
            "pack-quantized",
            weights(num_bits=3, strategy="group", group_size=128),
            {
                "weight_packed": ((64, 24), "int32"),
                "weight_scale": ((64, 2), "bf16"),
                "weight_shape": ((2,), "int64"),
            },
        ),
        (
            "nvfp4-pack-quantized",
            weights(**NV),
            {
                "weight_packed": ((64, 128), "uint8"),
                "weight_scale": ((64, 16), "fp8_e4m3"),
                "weight_global_scale": ((1,), "fp32"),
            },
        ),
        (
            "mxfp4-pack-quantized",
            weights(num_bits=4, type="float", strategy="group", group_size=32, scale_dtype="torch.uint8"),
            {"weight_packed": ((64, 128), "uint8"), "weight_scale": ((64, 8), "uint8")},
        ),
        (
            "mxfp8-quantized",
            weights(type="float", strategy="group", group_size=32, scale_dtype="torch.uint8"),
            {"weight": ((64, 256), "fp8_e4m3"), "weight_scale": ((64, 8), "uint8")},
        ),
    ],
)
def test_compressed_tensors_as_release_0_20_stores_it(
    stored_as: str, scheme: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert held(group(stored_as, scheme), (64, 256)) == expected


def test_compressed_tensors_with_static_activations() -> None:
    fp8 = held(group("float-quantized", weights(type="float", strategy="tensor"), STATIC8), (64, 256))
    assert fp8 == {
        "weight": ((64, 256), "fp8_e4m3"),
        "weight_scale": ((1,), "bf16"),
        "input_scale": ((1,), "bf16"),
    }
    assert held(group("nvfp4-pack-quantized", weights(**NV), LOCAL4), (64, 256))["input_global_scale"] == ((1,), "fp32")
    assert held(group("int-quantized", weights(), STATIC8), (64, 256))["input_scale"] == ((1,), "bf16")


def test_model_optimizer_formats() -> None:
    assert held(config(quant_method="modelopt", quant_algo="NVFP4"), (64, 256)) == {
        "weight": ((64, 128), "uint8"),
        "weight_scale": ((64, 16), "fp8_e4m3"),
        "weight_scale_2": ((), "fp32"),
        "input_scale": ((), "fp32"),
    }
    assert "input_scale" not in held(config(quant_method="modelopt", quant_algo="W4A16_NVFP4"), (64, 256))
    assert held(config(quant_method="modelopt", quant_algo="FP8"), (64, 256)) == {
        "weight": ((64, 256), "fp8_e4m3"),
        "weight_scale": ((), "fp32"),
        "input_scale": ((), "fp32"),
    }


def test_fused_experts_are_the_sum_of_separate_ones() -> None:
    """Where no table is shared, E fused matrices take what E single ones take."""
    for name, scheme in WEIGHT_FORMATS.items():
        if name == "mxfp4" or scheme.method in {"plain", "bitsandbytes"}:
            continue
        fused = sum(t.bytes for t in stored("m.mlp.experts.down_proj", (6, 64, 256), "expert", scheme, "bf16"))
        one = sum(t.bytes for t in stored("m.mlp.experts.0.down_proj.weight", (64, 256), "expert", scheme, "bf16"))
        assert fused == 6 * one, name


def test_two_fused_projections_keep_two_scales() -> None:
    tensors = stored("m.experts.gate_up_proj", (6, 128, 64), "expert", scheme_named("nvfp4"), "bf16")
    assert {t.name: t.shape for t in tensors} == {
        "m.experts.gate_up_proj": (6, 128, 32),
        "m.experts.gate_up_proj_scale": (6, 128, 4),
        "m.experts.gate_up_proj_scale_2": (6, 2),
        "m.experts.gate_up_proj_input_scale": (6, 2),
    }


def test_transposed_experts_are_packed_along_their_input() -> None:
    """(experts, in, out): 96 input features are three MXFP4 blocks, 40 output features need not be one."""
    held_as = held(scheme_named("mxfp4"), (4, 96, 40), "experts.gate_up_proj", "expert", transposed=True)
    assert held_as == {
        "gate_up_proj_blocks": ((4, 40, 3, 16), "uint8"),
        "gate_up_proj_scales": ((4, 40, 3), "uint8"),
    }
    with pytest.raises(InputError, match=r"^experts\.gate_up_proj: 40 features cannot be stored as mxfp4"):
        held(scheme_named("mxfp4"), (4, 96, 40), "experts.gate_up_proj", "expert")


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("awq-int4-g128", (64, 200)),
        ("awq-int4-g128", (12, 256)),
        ("gptq-int4-g128", (64, 40)),
        ("gptq-int4-g128", (40, 64)),
        ("w4a16-g128", (64, 200)),
        ("nvfp4", (64, 40)),
    ],
)
def test_a_cut_group_is_refused_by_name(name: str, shape: tuple[int, int]) -> None:
    with pytest.raises(InputError) as caught:
        stored("model.layers.0.mlp.up_proj.weight", shape, "mlp", scheme_named(name), "bf16")
    assert caught.value.message.code == "formats.partial-group"
    assert caught.value.place.key == "model.layers.0.mlp.up_proj.weight"


BITS = {
    "fp32": 32, "bf16": 16, "fp16": 16, "fp8": 8, "fp8_block": 8 + 32 / 16384, "int8": 8 + 32 / 4096,
    "w8a8": 8 + 16 / 4096, "nf4": 4.5, "fp4": 4.5, "nf4_double": 4.126953125, "fp4_double": 4.126953125,
    "gptq-int4-g128": 4 + 20 / 128 + 32 / 4096, "gptq-int8-g128": 8 + 24 / 128 + 32 / 4096,
    "awq-int4-g128": 4 + 20 / 128, "awq-int4-g64": 4 + 20 / 64, "w4a16-g128": 4.125, "mxfp4": 4.25, "nvfp4": 4.5,
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(BITS))
def test_bits_per_weight_of_a_square_matrix(name: str) -> None:
    """Tables and single numbers add less than 0.001 bit at 4096 x 4096."""
    assert bits_per_weight(scheme_named(name), (4096, 4096)) == pytest.approx(BITS[name], abs=1e-3)


def test_bits_per_weight_of_fused_experts() -> None:
    assert bits_per_weight(scheme_named("mxfp4"), (8, 64, 64)) == 4.25
    assert bits_per_weight(scheme_named("nf4"), (8, 64, 64)) == 16


@given(
    name=st.sampled_from(sorted(WEIGHT_FORMATS)),
    rows=st.integers(2, 6),
    columns=st.integers(1, 6),
    cut=st.integers(1, 5),
)
def test_row_shards_add_up_to_the_whole(name: str, rows: int, columns: int, cut: int) -> None:
    """Shards whose boundary respects the blocks hold the whole, counting what each matrix keeps once."""
    rows, columns, cut = 128 * rows, 128 * columns, 128 * min(cut, rows - 1)
    scheme = scheme_named(name)

    def split(high: int) -> tuple[int, int]:
        """Bytes that depend on the rows, and the rest."""
        parts = stored("m.weight", (high, columns), "mlp", scheme, "bf16")
        more = stored("m.weight", (high + 4096, columns), "mlp", scheme, "bf16")
        growing = sum(a.bytes for a, b in zip(parts, more, strict=True) if a.shape != b.shape)
        return growing, sum(t.bytes for t in parts) - growing

    whole, top, bottom = split(rows), split(cut), split(rows - cut)
    nested = 4 * 4 if name.endswith("_double") else 0  # a 256-block of magnitudes may straddle the cut
    assert whole[0] <= top[0] + bottom[0] <= whole[0] + nested
    assert whole[1] == top[1] == bottom[1]


@given(
    name=st.sampled_from(sorted(WEIGHT_FORMATS)),
    rows=st.integers(1, 5),
    columns=st.integers(1, 5),
    more=st.integers(1, 3),
)
def test_bytes_are_monotone_in_both_sides(name: str, rows: int, columns: int, more: int) -> None:
    def size(high: int, wide: int) -> int:
        return sum(t.bytes for t in stored("m.weight", (128 * high, 128 * wide), "mlp", scheme_named(name), "bf16"))

    assert size(rows, columns) < size(rows + more, columns)
    assert size(rows, columns) < size(rows, columns + more)


# Oracles: the modules of transformers, built on the meta device.

DTYPES = {
    "float8_e4m3fn": "fp8_e4m3", "float32": "fp32", "uint8": "uint8", "int8": "int8", "float8_e8m0fnu": "e8m0",
    "bfloat16": "bf16",
}  # fmt: skip


def declared(module: Any) -> dict[str, Any]:
    named = [*module.named_parameters(), *module.named_buffers()]
    return {name: (tuple(value.shape), DTYPES[str(value.dtype).split(".")[1]]) for name, value in named}


@pytest.mark.oracle
@pytest.mark.parametrize("scale", ["float", "ue8m0"])
@pytest.mark.parametrize("block", [None, [128, 128], [1, 32], [100, 60]])
@pytest.mark.parametrize("activation", ["dynamic", "static"])
def test_fp8_linear_of_transformers(block: list[int] | None, scale: str, activation: str) -> None:
    torch = pytest.importorskip("torch")
    fp8 = pytest.importorskip("transformers.integrations.finegrained_fp8")
    with torch.device("meta"):
        module = fp8.FP8Linear(200, 300, block, activation, scale)
    scheme = config(quant_method="fp8", weight_block_size=block, scale_fmt=scale, activation_scheme=activation)
    assert held(scheme, (300, 200)) == declared(module)


@pytest.mark.oracle
@pytest.mark.parametrize(("block", "kind"), [(None, "fp8"), ([128, 128], "fp8"), ([128, 128], "fp4")])
@pytest.mark.parametrize("intermediate", [32, 192])
def test_fp8_experts_of_transformers(block: list[int] | None, kind: str, intermediate: int) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    fp8 = pytest.importorskip("transformers.integrations.finegrained_fp8")
    sizes = {"hidden_size": 256, "moe_intermediate_size": intermediate, "num_experts": 3}
    with torch.device("meta"):
        module = fp8.FP8Experts(transformers.Qwen3MoeConfig(**sizes), block, expert_dtype=kind)
    scheme = config(quant_method="fp8", weight_block_size=block, expert_dtype=kind)
    ours: dict[str, Any] = {}
    for name, shape in (("gate_up_proj", (3, 2 * intermediate, 256)), ("down_proj", (3, 256, intermediate))):
        ours |= held(scheme, shape, f"experts.{name}", "expert")
    if block is None:
        # transformers gives single numbers two more dimensions; the bytes are the same.
        ours = {
            name: (shape if len(shape) == 3 else (3, 2, 1) if "gate_up" in name else (3, 1, 1), dtype)
            for name, (shape, dtype) in ours.items()
        }
    assert ours == declared(module)


@pytest.mark.oracle
def test_fbgemm_linear_of_transformers() -> None:
    torch = pytest.importorskip("torch")
    fbgemm = pytest.importorskip("transformers.integrations.fbgemm_fp8")
    with torch.device("meta"):
        module = fbgemm.FbgemmFp8Linear(200, 300, bias=False)
    assert held(config(quant_method="fbgemm_fp8", activation_scale_ub=1200.0), (300, 200)) == declared(module)


@pytest.mark.oracle
def test_mxfp4_experts_of_transformers() -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    mxfp4 = pytest.importorskip("transformers.integrations.mxfp4")
    sizes = {"hidden_size": 96, "intermediate_size": 64, "num_local_experts": 3}
    with torch.device("meta"):
        module = mxfp4.Mxfp4GptOssExperts(transformers.GptOssConfig(**sizes))
    scheme = scheme_named("mxfp4")
    for name, shape in (("gate_up_proj", (3, 96, 128)), ("down_proj", (3, 64, 96))):
        blocks = stored(f"experts.{name}", shape, "expert", scheme, "bf16", transposed=True)[0]
        assert blocks.bytes == getattr(module, name).nbytes
