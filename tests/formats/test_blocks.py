import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capienza.errors import InputError, Place
from capienza.formats.blocks import (
    BLOCKS,
    GGUF_BLOCKS,
    GGUF_TYPES,
    PACKED,
    PLAIN,
    SAFETENSORS_DTYPES,
    block_of,
    tensor_bytes,
)


@pytest.mark.parametrize(
    ("shape", "name", "expected"),
    [
        ((), "fp32", 4),
        ((0, 4096), "bf16", 0),
        ((3, 5), "fp16", 30),
        ((7,), "fp64", 56),
        ((7,), "complex64", 56),
        ((2, 3), "bool", 6),
        ((4096, 4096), "q4_k", 9437184),  # 16 777 216 / 256 x 144
        ((128256, 4096), "q6_k", 430940160),  # 525 336 576 / 256 x 210
        ((32, 64), "nvfp4", 1152),
        ((4096, 4096), "mxfp4", 8912896),
        ((4, 3), "fp4", 6),
        ((2, 2), "fp6_e2m3", 3),
        ((5,), "e8m0", 5),
    ],
)
def test_bytes_by_hand(shape: tuple[int, ...], name: str, expected: int) -> None:
    assert tensor_bytes(shape, name) == expected


@pytest.mark.parametrize(
    ("shape", "name", "code"),
    [
        ((4, 100), "q4_k", "formats.partial-row"),  # 400 elements are no whole blocks either
        ((2, 128), "q4_k", "formats.partial-row"),  # 256 elements are, but each row is half a block
        ((), "q8_0", "formats.partial-row"),
        ((3,), "fp4", "formats.partial-tensor"),
        ((2, 3), "fp6_e3m2", "formats.partial-tensor"),
        ((-1, 4), "bf16", "formats.bad-shape"),
        ((2**63,), "uint8", "formats.bad-shape"),
        ((10**5000,), "uint8", "formats.bad-shape"),
        ((1,) * 65, "uint8", "formats.bad-shape"),
        ((4,), "zz", "formats.unknown"),
    ],
)
def test_what_cannot_be_stored_is_refused(shape: tuple[int, ...], name: str, code: str) -> None:
    with pytest.raises(InputError) as caught:
        tensor_bytes(shape, name, Place("model.gguf", key="blk.0.attn_q.weight"))
    assert caught.value.message.code == code
    assert str(caught.value).startswith("model.gguf: blk.0.attn_q.weight: ")


def test_unknown_format_suggests_the_nearest() -> None:
    with pytest.raises(InputError, match=r"bf61.*did you mean bf16\?"):
        block_of("bf61")


def test_largest_shape_is_computed_exactly() -> None:
    assert tensor_bytes((2**63 - 1,) * 64, "fp64") == 8 * (2**63 - 1) ** 64


def test_tables_do_not_overlap_and_name_only_known_formats() -> None:
    assert len(BLOCKS) == len(PLAIN) + len(PACKED) + len(GGUF_BLOCKS)
    assert set(GGUF_TYPES.values()) <= BLOCKS.keys()
    assert set(SAFETENSORS_DTYPES.values()) <= BLOCKS.keys()
    assert set(GGUF_BLOCKS) <= set(GGUF_TYPES.values())
    assert len(set(GGUF_TYPES.values())) == len(GGUF_TYPES)


@given(
    name=st.sampled_from(sorted(BLOCKS)),
    leading=st.lists(st.integers(0, 50), max_size=3),
    blocks=st.integers(0, 50),
    more=st.integers(0, 3),
)
def test_bytes_are_monotone_and_add_up(name: str, leading: list[int], blocks: int, more: int) -> None:
    block = BLOCKS[name]
    row = blocks * block.elements
    whole = tensor_bytes((*leading, row), name)
    assert whole == math.prod(leading) * blocks * block.bytes
    assert tensor_bytes((*leading, row + more * block.elements), name) >= whole
    for rows in {0, leading[0] // 2, leading[0]} if leading else ():
        top = tensor_bytes((rows, *leading[1:], row), name)
        assert top + tensor_bytes((leading[0] - rows, *leading[1:], row), name) == whole


@pytest.mark.oracle
def test_every_gguf_type_agrees_with_the_gguf_package() -> None:
    gguf = pytest.importorskip("gguf")
    names = {"f64": "fp64", "f32": "fp32", "f16": "fp16", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64"}
    for kind, sizes in gguf.GGML_QUANT_SIZES.items():
        name = names.get(kind.name.lower(), kind.name.lower())
        assert GGUF_TYPES[kind.value] == name
        # gguf-py counts two fp32 in a q8_1 block; the C struct holds two fp16. No file has the type.
        assert (BLOCKS[name].elements, BLOCKS[name].bytes) == ((32, 36) if name == "q8_1" else sizes)


@pytest.mark.oracle
def test_every_plain_format_agrees_with_torch() -> None:
    torch = pytest.importorskip("torch")
    names = {
        "float64": "fp64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "complex64": "complex64",
        "float8_e4m3fn": "fp8_e4m3", "float8_e5m2": "fp8_e5m2", "float8_e4m3fnuz": "fp8_e4m3fnuz",
        "float8_e5m2fnuz": "fp8_e5m2fnuz", "float8_e8m0fnu": "e8m0", "bool": "bool",
        **{f"{sign}int{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    }  # fmt: skip
    assert set(names.values()) == set(PLAIN)
    for torch_name, name in names.items():
        assert getattr(torch, torch_name).itemsize == BLOCKS[name].bytes


def _header(dtype: str, shape: list[int], size: int) -> bytes:
    text = f'{{"t":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[0,{size}]}}}}'.encode()
    return struct.pack("<Q", len(text)) + text + bytes(size)


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", sorted(SAFETENSORS_DTYPES))
def test_safetensors_accepts_exactly_our_size(dtype: str) -> None:
    safetensors = pytest.importorskip("safetensors")
    shape = [3, 8]
    size = tensor_bytes(shape, SAFETENSORS_DTYPES[dtype])
    (name, found), *_ = safetensors.deserialize(_header(dtype, shape, size))
    assert (name, len(found["data"])) == ("t", size)
    for wrong in (size - 1, size + 1):
        with pytest.raises(safetensors.SafetensorError):
            safetensors.deserialize(_header(dtype, shape, wrong))


@pytest.mark.oracle
def test_our_list_of_safetensors_dtypes_is_complete() -> None:
    safetensors = pytest.importorskip("safetensors")
    with pytest.raises(safetensors.SafetensorError, match="unknown variant") as caught:
        safetensors.deserialize(_header("NOT_A_TYPE", [1], 1))
    listed = str(caught.value).split("expected one of ")[1]
    assert {name for name in listed.split("`") if name.strip(", ")[:1].isupper()} == set(SAFETENSORS_DTYPES)
