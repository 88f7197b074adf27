"""The GGUF reader: values, tensors, split models, and everything it refuses."""

import struct
from pathlib import Path

import pytest
from artifact_files import BytesSource, gguf_bytes, gguf_key, gguf_tensor, text_value
from hypothesis import given, settings
from hypothesis import strategies as st

from capienza.artifacts import cursor
from capienza.artifacts.folder import LocalFolder
from capienza.artifacts.gguf import read_gguf, read_parts
from capienza.artifacts.gguf_parts import part_names
from capienza.artifacts.gguf_values import LongValue
from capienza.errors import InputError, UnreachableError
from capienza.formats.tensor import Tensor

ARCHITECTURE = gguf_key("general.architecture", 8, "llama")


def refusal(data: bytes) -> InputError:
    with pytest.raises(InputError) as caught:
        read_gguf(BytesSource(data, "x.gguf"))
    assert caught.value.place.file == "x.gguf"
    return caught.value


@pytest.mark.parametrize("version", [2, 3])
def test_reads_values_of_every_type(version):
    values = {
        "u8": (0, 255),
        "i8": (1, -128),
        "u16": (2, 65535),
        "i16": (3, -5),
        "u32": (4, 2**32 - 1),
        "i32": (5, -(2**31)),
        "f32": (6, 0.5),
        "bool": (7, True),
        "text": (8, "ciao è"),
        "heads": (9, (4, [8, 8, 0])),
        "tags": (9, (8, ["a", ""])),
        "flags": (9, (7, [True, False])),
        "u64": (10, 2**64 - 1),
        "i64": (11, -(2**63)),
        "f64": (12, 1e-300),
    }
    data = gguf_bytes([gguf_key(key, *value) for key, value in values.items()], version=version)
    expected = {key: value[1] if isinstance(value, tuple) else value for key, (_, value) in values.items()}
    assert read_gguf(BytesSource(data)).metadata == expected


def test_long_values_are_described_not_kept():
    keys = [
        gguf_key("tokenizer.ggml.tokens", 9, (8, ["a", "bb"])),
        gguf_key("tokenizer.ggml.scores", 9, (6, [float("nan"), 0.0])),
        gguf_key("x.long", 9, (4, [1] * 4097)),
        gguf_key("x.short", 9, (4, [1] * 4096)),
        gguf_key("general.license.text", 8, "l" * 65_537),
        gguf_key("general.name", 8, b"\xffbad"),
    ]
    metadata = read_gguf(BytesSource(gguf_bytes(keys))).metadata
    assert metadata["tokenizer.ggml.tokens"] == LongValue("string", 2)
    assert metadata["tokenizer.ggml.scores"] == LongValue("f32", 2)
    assert metadata["x.long"] == LongValue("u32", 4097)
    assert metadata["x.short"] == [1] * 4096
    assert metadata["general.license.text"] == LongValue("u8", 65_537)
    assert metadata["general.name"] == "\\xffbad"


@given(lengths=st.lists(st.integers(0, 90), max_size=40), window=st.integers(8, 80))
def test_texts_are_skipped_whatever_the_window(lengths, window):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cursor, "FIRST_WINDOW_BYTES", window)
        patch.setattr(cursor, "LARGEST_WINDOW_BYTES", window)
        tokens = ["t" * length for length in lengths]
        keys = [gguf_key("tokenizer.ggml.tokens", 9, (8, tokens)), gguf_key("after", 4, 7)]
        metadata = read_gguf(BytesSource(gguf_bytes(keys))).metadata
    assert metadata == {"tokenizer.ggml.tokens": LongValue("string", len(lengths)), "after": 7}


def test_shape_is_row_length_last_and_bytes_come_from_blocks():
    tensors = [gguf_tensor("w", [256, 2], 12, 0), gguf_tensor("n", [3], 0, 288), gguf_tensor("one", [], 30, 320)]
    data = gguf_bytes([ARCHITECTURE], tensors, 322)
    assert read_gguf(BytesSource(data)).tensors == (
        Tensor("w", (2, 256), "q4_k", 288),
        Tensor("n", (3,), "fp32", 12),
        Tensor("one", (), "bf16", 2),
    )


def test_alignment_moves_the_data():
    tensors = [gguf_tensor("a", [1], 0, 0), gguf_tensor("b", [1], 0, 128)]
    data = gguf_bytes([gguf_key("general.alignment", 4, 128)], tensors, 132, alignment=128)
    assert [tensor.bytes for tensor in read_gguf(BytesSource(data)).tensors] == [4, 4]


def test_skipped_arrays_are_not_fetched():
    keys = [gguf_key("tokenizer.ggml.scores", 9, (6, [0.0] * 10**6)), gguf_key("after", 4, 1)]
    source = BytesSource(gguf_bytes(keys))
    assert read_gguf(source).metadata["after"] == 1
    assert source.bytes_read < 10**6 < source.size_bytes


def one_tensor(ne=(1,), type_id=0, offset=0, data_bytes=4, name="t") -> bytes:
    return gguf_bytes([ARCHITECTURE], [gguf_tensor(name, list(ne), type_id, offset)], data_bytes)


def two_tensors(second_offset: int, data_bytes: int = 68, name: str = "b") -> bytes:
    tensors = [gguf_tensor("a", [8], 0, 0), gguf_tensor(name, [1], 0, second_offset)]
    return gguf_bytes([ARCHITECTURE], tensors, data_bytes)


HOSTILE = {
    "wrong-magic": [b"", b"GGU", b"GGML" + bytes(40), b"FUGG" + bytes(40), b"PK\x03\x04" + bytes(40)],
    "big-endian": [b"GGUF" + struct.pack(">Iqq", version, 0, 0) for version in (1, 2, 3)],
    "wrong-version": [gguf_bytes(version=version) for version in (0, 1, 4, 2**32 - 1)],
    "truncated": [
        b"GGUF",
        b"GGUF\x03\x00\x00\x00",
        gguf_bytes(counts=(0, 1)),
        gguf_bytes([ARCHITECTURE])[:50],
        gguf_bytes([text_value("k") + struct.pack("<i", 8) + struct.pack("<Q", 2**63)]),
        gguf_bytes([text_value("k") + struct.pack("<i", 8) + struct.pack("<Q", 1000)]),
        gguf_bytes([text_value("k") + struct.pack("<iiQ", 9, 4, 2**61)]),
        gguf_bytes([text_value("k") + struct.pack("<iiQ", 9, 12, 2**64 - 1)]),
        gguf_bytes([text_value("k") + struct.pack("<iiQ", 9, 8, 2**20)]),
        gguf_bytes([text_value("tokenizer.k") + struct.pack("<iiQQ", 9, 8, 2, 2**64 - 1) + bytes(40)]),
        gguf_bytes([text_value("tokenizer.k") + struct.pack("<iiQQ", 9, 8, 2, 2**62) + bytes(40)]),
        gguf_bytes(counts=(1, 0)),
    ],
    "too-many-tensors": [gguf_bytes(counts=counts) for counts in ((-1, 0), (2**62, 0), (65_537, 0))],
    "too-many-keys": [gguf_bytes(counts=counts) for counts in ((0, -1), (0, 2**62), (0, 65_537))],
    "long-name": [gguf_bytes([struct.pack("<Q", 2**64 - 1)]), one_tensor(name="n" * 1025)],
    "not-utf8": [gguf_bytes([gguf_key(b"\xff", 4, 1)])],
    "duplicate-name": [gguf_bytes([ARCHITECTURE, ARCHITECTURE]), two_tensors(32, name="a")],
    "bad-value-type": [
        gguf_bytes([text_value("k") + struct.pack("<i", kind) + bytes(64)]) for kind in (13, -1, 2**31 - 1)
    ]
    + [gguf_bytes([text_value("k") + struct.pack("<iiQ", 9, kind, 1) + bytes(64)]) for kind in (9, 13, -1)],
    "too-many-texts": [gguf_bytes([text_value("k") + struct.pack("<iiQ", 9, 8, 2**62)])],
    "not-finite": [
        gguf_bytes([gguf_key("k", 6, float("nan"))]),
        gguf_bytes([gguf_key("k", 12, float("inf"))]),
        gguf_bytes([gguf_key("k", 9, (6, [1.0, float("-inf")]))]),
    ],
    "bad-alignment": [
        gguf_bytes([gguf_key("general.alignment", kind, value)])
        for kind, value in ((4, 0), (4, 3), (10, 2**40), (8, "32"), (5, -32), (7, True))
    ],
    "bad-shape": [gguf_bytes([], [text_value("t") + struct.pack("<I", 5) + bytes(60)])],
    "unknown-type": [one_tensor(type_id=type_id) for type_id in (4, 5, 31, 36, 137, -1, 2**31 - 1)],
    "wrong-offset": [one_tensor(offset=32), two_tensors(0), two_tensors(31), two_tensors(64), two_tensors(2**63)],
    "truncated-data": [
        one_tensor(data_bytes=3),
        two_tensors(32, 35),
        one_tensor([2**31, 2**30]),
        one_tensor([2**62] * 4),
    ],
}


@pytest.mark.parametrize(
    "code, data", [(code, data) for code, cases in HOSTILE.items() for data in cases], ids=lambda value: str(value)[:24]
)
def test_hostile_files(code, data):
    assert refusal(data).message.code == f"artifacts.gguf-{code}"


@pytest.mark.parametrize("ne, type_id", [([255], 12), ([32, 3], 12), ([-1], 0), ([-256, -1], 12), ([], 12)])
def test_shapes_that_are_no_whole_blocks(ne, type_id):
    error = refusal(one_tensor(ne, type_id))
    assert error.message.code.startswith("formats.")
    assert error.place.key == "t"


def test_an_unknown_type_is_named_with_its_tensor():
    error = refusal(one_tensor(type_id=137, name="blk.0.ffn_down.weight"))
    assert error.place.key == "blk.0.ffn_down.weight"
    assert "137" in str(error)


def test_kept_metadata_is_bounded():
    keys = [gguf_key(f"k{i}", 8, "x" * 65_000) for i in range(300)]
    assert refusal(gguf_bytes(keys)).message.code == "artifacts.gguf-metadata-too-large"


def write_split(folder: Path, count: int = 3, changes: dict[int, list[bytes]] | None = None, total: int = 3) -> str:
    for number in range(count):
        keys = [ARCHITECTURE, gguf_key("split.tensors.count", 5, total)] if number == 0 else []
        keys += (changes or {}).get(number, [gguf_key("split.no", 2, number), gguf_key("split.count", 2, count)])
        data = gguf_bytes(keys, [gguf_tensor(f"t{number}", [4], 0, 0)], 16)
        (folder / f"m-{number + 1:05}-of-{count:05}.gguf").write_bytes(data)
    return f"m-00001-of-{count:05}.gguf"


def test_split_model_is_joined(tmp_path):
    weights = read_parts(LocalFolder(tmp_path), part_names(write_split(tmp_path)))
    assert [tensor.name for tensor in weights.tensors] == ["t0", "t1", "t2"]
    assert weights.metadata["general.architecture"] == "llama"


@pytest.mark.parametrize(
    "changes, total, key",
    [
        ({1: [gguf_key("split.no", 2, 2), gguf_key("split.count", 2, 3)]}, 3, "split.no"),
        ({2: [gguf_key("split.no", 2, 2), gguf_key("split.count", 2, 4)]}, 3, "split.count"),
        ({0: []}, 3, "split.count"),
        ({0: [gguf_key("split.no", 8, "0"), gguf_key("split.count", 2, 3)]}, 3, "split.no"),
        (None, 4, "split.tensors.count"),
    ],
)
def test_parts_that_do_not_belong_together(tmp_path, changes, total, key):
    names = part_names(write_split(tmp_path, changes=changes, total=total))
    with pytest.raises(InputError) as caught:
        read_parts(LocalFolder(tmp_path), names)
    assert caught.value.message.code == "artifacts.gguf-bad-split"
    assert caught.value.place.key == key


def test_a_missing_part_is_named(tmp_path):
    names = part_names(write_split(tmp_path))
    (tmp_path / names[1]).unlink()
    with pytest.raises(UnreachableError) as caught:
        read_parts(LocalFolder(tmp_path), names)
    assert names[1] in str(caught.value)


def test_a_part_under_a_whole_name_is_refused(tmp_path):
    first = write_split(tmp_path)
    (tmp_path / first).rename(tmp_path / "whole.gguf")
    with pytest.raises(InputError) as caught:
        read_parts(LocalFolder(tmp_path), ("whole.gguf",))
    assert caught.value.place.key == "split.count"


@pytest.mark.parametrize("name", ["m-00002-of-00003.gguf", "m-00001-of-99999.gguf", "m-00000-of-00003.gguf"])
def test_names_of_parts_that_cannot_be_used(name):
    with pytest.raises(InputError):
        part_names(name)


SAMPLE = gguf_bytes(
    [ARCHITECTURE, gguf_key("llama.block_count", 4, 2), gguf_key("tokenizer.ggml.tokens", 9, (8, ["a", "b"]))],
    [gguf_tensor("w", [256, 2], 12, 0), gguf_tensor("n", [3], 0, 288)],
    300,
)


@settings(max_examples=150)
@given(st.data())
def test_a_changed_file_is_read_or_refused(data):
    changed = bytearray(SAMPLE)
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(changed) - 301))] = data.draw(st.sampled_from([0, 1, 2, 127, 128, 255]))
    end = data.draw(st.integers(0, len(changed)) | st.just(len(changed)))
    try:
        weights = read_gguf(BytesSource(bytes(changed[:end])))
    except InputError:
        return
    assert sum(tensor.bytes for tensor in weights.tensors) <= end


@pytest.mark.oracle
def test_every_type_that_the_gguf_package_knows(tmp_path):
    gguf = pytest.importorskip("gguf")
    numpy = pytest.importorskip("numpy")
    path = tmp_path / "all.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(3)
    writer.add_head_count([4, 0, 2])
    writer.add_token_list(["<s>", "b"])
    for kind, (_, size) in gguf.GGML_QUANT_SIZES.items():
        if kind.name != "Q8_1":  # an intermediate format that no file holds; the two sources disagree about it
            data = numpy.zeros((3, 2 * size), dtype=numpy.uint8)
            writer.add_tensor(f"t.{kind.name}", data, raw_shape=data.shape, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    compare_with_package(gguf, path)


def compare_with_package(gguf, path: Path) -> None:
    with LocalFolder(path.parent).open(path.name) as source:
        weights = read_gguf(source)
    reader = gguf.GGUFReader(path)
    names = {"F32": "fp32", "F16": "fp16", "F64": "fp64", "I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64"}
    theirs = [
        Tensor(row.name, tuple(map(int, row.shape[::-1])), names.get(kind, kind.lower()), int(row.n_bytes))
        for row in reader.tensors
        for kind in [row.tensor_type.name]
    ]
    assert list(weights.tensors) == theirs
    assert theirs
    for key, value in weights.metadata.items():
        field = reader.fields[key]
        if isinstance(value, LongValue):
            assert value.length == len(field.data), key
        else:
            assert value == field.contents(), key


@pytest.mark.oracle
def test_split_files_of_the_gguf_package(tmp_path):
    gguf = pytest.importorskip("gguf")
    numpy = pytest.importorskip("numpy")
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "llama", split_max_tensors=2)
    for number in range(5):
        writer.add_tensor(f"t{number}", numpy.zeros((number + 1, 8), dtype=numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    weights = read_parts(LocalFolder(tmp_path), part_names("m-00001-of-00003.gguf"))
    assert [tensor.shape for tensor in weights.tensors] == [(number + 1, 8) for number in range(5)]
