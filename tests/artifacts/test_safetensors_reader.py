"""The safetensors header reader: what it reads, and everything it refuses."""

import json
import struct

import pytest
from artifact_files import BytesSource, header_of, safetensors_bytes
from hypothesis import given
from hypothesis import strategies as st

from capienza.artifacts import safetensors
from capienza.artifacts.safetensors import read_header
from capienza.errors import InputError
from capienza.formats.blocks import SAFETENSORS_DTYPES
from capienza.formats.tensor import Tensor

GOOD, GOOD_BYTES = header_of({"w": ("BF16", [2, 3]), "b": ("F32", [2])}, {"format": "pt"})


def refusal(data: bytes) -> InputError:
    with pytest.raises(InputError) as caught:
        read_header(BytesSource(data, "x.safetensors"))
    assert caught.value.place.file == "x.safetensors"
    return caught.value


def entry(dtype="F32", shape=(1,), offsets=(0, 4), **more) -> dict:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets), **more}


def test_reads_tensors_in_header_order_and_metadata():
    header = read_header(BytesSource(safetensors_bytes(GOOD, GOOD_BYTES)))
    assert header.tensors == (Tensor("w", (2, 3), "bf16", 12), Tensor("b", (2,), "fp32", 8))
    assert header.metadata == {"format": "pt"}


@pytest.mark.parametrize(
    "dtype, shape, size",
    [
        ("F64", [3], 24),
        ("C64", [3], 24),
        ("I16", [], 2),
        ("BOOL", [5], 5),
        ("F8_E5M2FNUZ", [5, 2], 10),
        ("F8_E8M0", [5], 5),
        ("F4", [3, 2], 3),
        ("F6_E3M2", [4], 3),
        ("U8", [0, 7], 0),
    ],
)
def test_bytes_of_each_width(dtype, shape, size):
    header = {"t": entry(dtype, shape, (0, size))}
    (tensor,) = read_header(BytesSource(safetensors_bytes(header, size))).tensors
    assert (tensor.dtype, tensor.bytes, tensor.shape) == (SAFETENSORS_DTYPES[dtype], size, tuple(shape))


def test_order_of_offsets_may_differ_from_order_of_names():
    header = {"z": entry(offsets=(4, 8)), "a": entry(offsets=(0, 4)), "empty": entry("F32", [0], (4, 4))}
    assert [t.name for t in read_header(BytesSource(safetensors_bytes(header, 8))).tensors] == ["z", "a", "empty"]


def test_spaces_escapes_and_padding_are_read():
    header = {"__metadata__": {'quo"te': "é\n{}"}, "caf\u00e9": entry()}
    text = json.dumps(header, indent=1) + "   \n"
    read = read_header(BytesSource(safetensors_bytes(text, 4)))
    assert read.metadata == {'quo"te': "é\n{}"}
    assert read.tensors == (Tensor("café", (1,), "fp32", 4),)


def test_metadata_may_use_the_words_of_a_tensor():
    header = {"__metadata__": {"dtype": "bf16", "shape": "wide", "data_offsets": "no"}, "t": entry()}
    read = read_header(BytesSource(safetensors_bytes(header, 4)))
    assert read.metadata["shape"] == "wide"
    assert [tensor.name for tensor in read.tensors] == ["t"]


def test_no_tensor_at_all():
    assert read_header(BytesSource(safetensors_bytes({}))).tensors == ()


def test_only_the_header_is_read():
    data = safetensors_bytes(*header_of({"w": ("U8", [10**6])}))
    source = BytesSource(data)
    read_header(source)
    assert source.bytes_read == safetensors.FIRST_READ_BYTES


def test_long_header_costs_two_reads_and_no_data():
    header, data_bytes = header_of({f"layer.{i:06}": ("U8", [1000]) for i in range(3000)})
    data = safetensors_bytes(header, data_bytes)
    source = BytesSource(data)
    assert len(read_header(source).tensors) == 3000
    assert source.bytes_read == len(data) - data_bytes


ENTRY = json.dumps(entry())
TORCH_DTYPES = """float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 bool uint16 uint32 uint64 complex64
    float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu float4_e2m1fn_x2""".split()  # noqa: SIM905
HOSTILE_FILES = {
    "too-short": [b"", b"1234567"],
    "wrong-magic": [
        b"PK\x03\x04" + bytes(100),
        b"GGUF\x03" + bytes(100),
        safetensors_bytes("", 0),
        safetensors_bytes("[]", 0),
        safetensors_bytes(' {"a":1}', 0),
        b"<html>no such page</html>",
    ],
    "lfs-pointer": [b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 4\n"],
    "header-too-large": [safetensors_bytes("{}", 0, length=2**63), safetensors_bytes("{}", 0, length=12 * 2**20 + 1)],
    "truncated": [safetensors_bytes("{}", 0, length=3), safetensors_bytes(GOOD, GOOD_BYTES)[:60]],
    "too-many-values": [
        safetensors_bytes("{" + "{" * 65_600),
        safetensors_bytes('{"a":[' + "0," * (2**20 + 1)),
        safetensors_bytes({"__metadata__": {f"{i}": "" for i in range(20_000)}}),
    ],
}
HOSTILE_HEADERS = {
    "bad-header": [
        "{",
        '{"a":}',
        "{}{}",
        '{"a":' + '{"a":' * 5000,
        b'{"\xff":1}',
        '{"a":NaN}',
        '{"__metadata__":' + "[" * 100_000,
        b'{"t":' + ENTRY.encode()[:-1] + b',"x":"\xf5"}}',
        '{"t":' + ENTRY[:-1] + ',"x":1' + "0" * 5000 + "}}",
    ],
    "bad-entry": [
        b'{"t":{"dtype":1},"u":{"x":"\xf5"}}',
        {"t": {}},
        {"t": 1},
        {"t": None},
        {"t": []},
        {"t": {"dtype": "F32", "shape": [1]}},
        {"t": {"dtype": "F32", "data_offsets": [0, 4]}},
        {"t": entry(shape=[-1])},
        {"t": entry(shape=[1.0])},
        {"t": entry(shape=[2**70])},
        {"t": entry(shape=["1"])},
        {"t": entry(shape=[True])},
        {"t": entry(shape=[[1]])},
        {"t": entry(shape=[1] * 17)},
        {"t": entry(offsets=[0, 4, 8])},
        {"t": entry(offsets=[0])},
        {"t": entry(offsets=[-4, 0])},
        {"t": entry(offsets=[0, 1e300])},
        {"t": {**entry(), "shape": "4"}},
        {"t": {**entry(), "dtype": 7}},
        {"t": entry(stride=[1])},
        {"t": {"shape": [], "data_offsets": [0, 0]}},
        f'{{"a":{{}},"a":{ENTRY}}}',
        f'{{"t":{{"dtype":"F32","shape":[1{"0" * 5000}],"data_offsets":[0,4]}}}}',
        {"__metadata__": {"a": 1}},
        {"__metadata__": {"a": {"b": "c"}}},
        {"__metadata__": None},
        {"__metadata__": []},
    ],
    "unknown-dtype": [
        {"t": entry("Q4_K")},
        {"t": entry("")},
        {"t": entry("f32")},
    ],
    "duplicate-key": [
        f'{{"a":{ENTRY},"a":{ENTRY}}}',
        '{"a":{"dtype":"F64","dtype":"F32","shape":[1],"data_offsets":[0,4]}}',
        f'{{"__metadata__":{{"a":"1","a":"2"}},"t":{ENTRY}}}',
        f'{{"__metadata__":{{"a":"1"}},"t":{ENTRY},"__metadata__":{{}}}}',
        f'{{"a":{ENTRY},"\\u0061":{ENTRY}}}',
    ],
    "wrong-extent": [
        {"t": entry(shape=[2])},
        {"t": entry(shape=[2**60, 2**60])},
        {"t": entry(shape=[2**62] * 16)},
        {"t": entry(shape=[0])},
        {"t": entry(offsets=[4, 0])},
        {"t": entry("F4", [3], (0, 2))},
        {"t": entry("F4", [3], (0, 1))},
        {"t": entry(shape=[], offsets=(0, 0))},
    ],
    "not-contiguous": [
        {"a": entry(), "b": entry()},
        {"a": entry(), "b": entry(offsets=(2, 6))},
        {"a": entry(), "b": entry(offsets=(8, 12))},
        {"a": entry(offsets=(4, 8))},
        {"a": entry(offsets=(2**50, 2**50 + 4))},
    ],
    "wrong-size": [{}, {"a": entry(shape=[3], offsets=(0, 12))}],
}


@pytest.mark.parametrize(
    "code, data",
    [(code, data) for code, cases in HOSTILE_FILES.items() for data in cases],
    ids=lambda value: str(value)[:30],
)
def test_hostile_files(code, data):
    assert refusal(data).message.code.removeprefix("artifacts.").removeprefix("safetensors-") == code


@pytest.mark.parametrize(
    "code, header",
    [(code, header) for code, cases in HOSTILE_HEADERS.items() for header in cases],
    ids=lambda value: str(value)[:60],
)
def test_hostile_headers(code, header):
    data_bytes = 8 if code == "wrong-size" else 4
    assert refusal(safetensors_bytes(header, data_bytes)).message.code == f"artifacts.safetensors-{code}"


@pytest.mark.parametrize("header", [{"good": entry(), "bad": {}}, {"good": entry(), "bad": entry("X8")}])
def test_the_bad_tensor_is_named(header):
    assert refusal(safetensors_bytes(header, 4)).place.key == "bad"


def test_a_hostile_name_is_shown_on_one_short_line():
    error = refusal(safetensors_bytes({"\x1b[2J\n\ud800" + "n" * 10**6: entry("X8\x07")}, 4))
    assert str(error).isprintable()
    assert len(str(error)) < 1000


def test_more_tensors_than_the_limit():
    one = '"t%05d":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}'
    text = "{" + ",".join(one % i for i in range(safetensors.MAX_TENSORS + 3)) + "}"
    assert refusal(safetensors_bytes(text)).message.code == "artifacts.safetensors-too-many-values"


@given(
    st.lists(
        st.tuples(st.sampled_from(["F32", "BF16", "U8", "I64"]), st.lists(st.integers(0, 9), max_size=4)), max_size=9
    )
)
def test_any_correct_header_reads_back(rows):
    tensors = {f"t{i}": row for i, row in enumerate(rows)}
    header, data_bytes = header_of(tensors)
    read = read_header(BytesSource(safetensors_bytes(header, data_bytes))).tensors
    assert sum(tensor.bytes for tensor in read) == data_bytes
    assert {t.name: (t.dtype, list(t.shape)) for t in read} == {
        name: (SAFETENSORS_DTYPES[dtype], shape) for name, (dtype, shape) in tensors.items()
    }


@given(st.data())
def test_a_changed_file_is_read_or_refused(data):
    original = safetensors_bytes(GOOD, GOOD_BYTES)
    changed = bytearray(original)
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    try:
        header = read_header(BytesSource(bytes(changed[: data.draw(st.integers(0, len(changed)))])))
    except InputError:
        return
    (length,) = struct.unpack_from("<Q", changed)
    assert sum(tensor.bytes for tensor in header.tensors) == len(original) - 8 - length


@pytest.mark.oracle
@given(st.data())
def test_never_reads_what_the_safetensors_package_refuses(data):
    package = pytest.importorskip("safetensors")
    changed = bytearray(safetensors_bytes(GOOD, GOOD_BYTES))
    for _ in range(data.draw(st.integers(1, 3))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.sampled_from(b'0123456789[]{},:"FU '))
    try:
        ours = read_header(BytesSource(bytes(changed))).tensors
    except InputError:
        return
    theirs = dict(package.deserialize(bytes(changed)))
    assert {name: list(row["shape"]) for name, row in theirs.items()} == {t.name: list(t.shape) for t in ours}
    assert {name: len(row["data"]) for name, row in theirs.items()} == {t.name: t.bytes for t in ours}


@pytest.mark.oracle
def test_every_dtype_that_torch_writes(tmp_path):
    torch = pytest.importorskip("torch")
    from safetensors import safe_open
    from safetensors.torch import save_file

    names = TORCH_DTYPES
    tensors = {name: torch.zeros(4, 8, dtype=torch.uint8).view(getattr(torch, name)) for name in names}
    path = tmp_path / "all.safetensors"
    save_file(tensors, path, {"made": "by torch"})
    header = read_header(BytesSource(path.read_bytes()))
    assert header.metadata == {"made": "by torch"}
    with safe_open(path, "pt") as file:
        assert {t.name for t in header.tensors} == set(file.keys())
    for tensor in header.tensors:
        assert tensor.bytes == tensors[tensor.name].numel() * tensors[tensor.name].itemsize, tensor
    assert len({tensor.dtype for tensor in header.tensors}) == len(names)
