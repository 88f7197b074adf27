"""Opening local models: which files of a folder count, what is left out, and what is refused."""

import json
import os
from pathlib import Path

import pytest
from artifact_files import TWO_SHARDS, gguf_bytes, gguf_key, gguf_tensor, write_safetensors, write_sharded

from capienza.artifacts.model import ArtifactFile, open_model
from capienza.errors import CapienzaError, InputError, UnreachableError

ONE = {"a": ("F32", [2])}


def write_config(folder: Path, **content: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"model_type": "x", **content}))


def write_gguf(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    keys = [gguf_key("general.architecture", 8, "llama")]
    path.write_bytes(gguf_bytes(keys, [gguf_tensor("t", [4], 0, 0)], 16))


def refusal(reference: Path | str, kind: type[CapienzaError] = InputError, **more: str) -> CapienzaError:
    with pytest.raises(kind) as caught:
        open_model(str(reference), **more)
    assert caught.value.as_dict()[0]["hint"]
    return caught.value


def code_of(reference: Path | str, kind: type[CapienzaError] = InputError) -> str:
    return refusal(reference, kind).message.code.removeprefix("artifacts.")


def test_sharded_folder(tmp_path):
    write_config(tmp_path, hidden_size=8)
    write_sharded(tmp_path, TWO_SHARDS)
    model = open_model(str(tmp_path))
    assert model.kind == "safetensors"
    assert model.config == {"model_type": "x", "hidden_size": 8}
    assert [(tensor.name, tensor.bytes) for tensor in model.tensors] == [("a", 64), ("b", 12), ("c", 8)]
    assert model.metadata == {"format": "pt"}
    assert (model.reference, model.revision, model.left_out, model.notes) == (str(tmp_path), None, (), ())
    assert [(file.name, file.role) for file in model.files] == [
        ("config.json", "config"),
        ("model-00001-of-00002.safetensors", "weights"),
        ("model-00002-of-00002.safetensors", "weights"),
        ("model.safetensors.index.json", "index"),
    ]
    # Everything here is smaller than the first read, so all of it was read, once.
    assert model.bytes_read == sum(file.size_bytes for file in model.files)
    assert all(file.size_bytes == (tmp_path / file.name).stat().st_size for file in model.files)


def test_several_complete_sets_count_once(tmp_path):
    write_config(tmp_path)
    write_sharded(tmp_path, TWO_SHARDS)
    write_safetensors(tmp_path / "model.fp16.safetensors", ONE)
    write_safetensors(tmp_path / "consolidated.safetensors", ONE)
    write_safetensors(tmp_path / "original" / "model.safetensors", ONE)
    write_gguf(tmp_path / "model-q4.gguf")
    for name in ("pytorch_model.bin", "original/consolidated.00.pth", "tf_model.h5", "onnx/model.onnx"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"PK")
    model = open_model(str(tmp_path))
    assert [tensor.name for tensor in model.tensors] == ["a", "b", "c"]
    assert model.left_out == (
        "consolidated.safetensors",
        "model-q4.gguf",
        "model.fp16.safetensors",
        "onnx/model.onnx",
        "original/consolidated.00.pth",
        "original/model.safetensors",
        "pytorch_model.bin",
        "tf_model.h5",
    )


@pytest.mark.parametrize(
    "names, read",
    [
        (["model.safetensors", "consolidated.safetensors"], ["model.safetensors"]),
        (["consolidated.safetensors", "adapter_model.safetensors"], ["consolidated.safetensors"]),
        (["adapter_model.safetensors"], ["adapter_model.safetensors"]),
        (["odd-1-of-2.safetensors"], ["odd-1-of-2.safetensors"]),
        (
            ["consolidated-00001-of-00002.safetensors", "consolidated-00002-of-00002.safetensors"],
            ["consolidated-00001-of-00002.safetensors", "consolidated-00002-of-00002.safetensors"],
        ),
        (["model.safetensors", "model-00001-of-00002.safetensors"], ["model.safetensors"]),
    ],
)
def test_choice_without_an_index(tmp_path, names, read):
    for number, name in enumerate(names):
        write_safetensors(tmp_path / name, {f"t{number}": ("F32", [1])})
    model = open_model(str(tmp_path))
    assert [file.name for file in model.files] == read
    assert sorted([*read, *model.left_out]) == sorted(names)
    assert model.config is None


def test_index_before_a_single_file_of_the_same_name(tmp_path):
    write_sharded(tmp_path, TWO_SHARDS)
    write_safetensors(tmp_path / "model.safetensors", ONE)
    model = open_model(str(tmp_path))
    assert len(model.tensors) == 3
    assert model.left_out == ("model.safetensors",)


@pytest.mark.parametrize(
    "code, names",
    [
        ("several-models", ["one.safetensors", "two.safetensors"]),
        ("several-models", ["one.Q4.gguf", "two.Q8.gguf"]),
        ("missing-shards", ["model-00001-of-00003.safetensors", "model-00003-of-00003.safetensors"]),
        ("missing-shards", ["model-00001-of-00002.safetensors", "model-00002-of-00003.safetensors"]),
        ("no-model", ["pytorch_model.bin"]),
        ("no-model", []),
        ("tensor-in-two-files", ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]),
    ],
)
def test_folders_that_do_not_say_which_model(tmp_path, code, names):
    for name in names:
        if name.endswith(".gguf"):
            write_gguf(tmp_path / name)
        else:
            write_safetensors(tmp_path / name, ONE)
    assert code_of(tmp_path) == code


def test_the_refusal_of_several_gguf_files_lists_them_and_names_one(tmp_path):
    for name in ("m.Q4_K_M.gguf", "m.Q8_0.gguf"):
        write_gguf(tmp_path / name)
    error = refusal(tmp_path)
    assert "m.Q4_K_M.gguf, m.Q8_0.gguf" in str(error)
    assert str(tmp_path / "m.Q4_K_M.gguf") in error.as_dict()[0]["hint"]
    assert open_model(str(tmp_path / "m.Q8_0.gguf")).kind == "gguf"


def test_projector_beside_the_model_is_left_out(tmp_path):
    write_gguf(tmp_path / "m.gguf")
    write_gguf(tmp_path / "mmproj-m.gguf")
    model = open_model(str(tmp_path))
    assert (model.kind, model.left_out) == ("gguf", ("mmproj-m.gguf",))
    assert model.metadata["general.architecture"] == "llama"


def test_config_only(tmp_path):
    write_config(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"PK")
    for reference in (tmp_path, tmp_path / "config.json"):
        model = open_model(str(reference))
        assert (model.kind, model.tensors, model.config) == ("config", (), {"model_type": "x"})
    assert open_model(str(tmp_path)).left_out == ("pytorch_model.bin",)


def test_one_safetensors_file_takes_the_config_beside_it(tmp_path):
    write_config(tmp_path)
    write_safetensors(tmp_path / "model.safetensors", ONE)
    write_safetensors(tmp_path / "other.safetensors", ONE)
    model = open_model(str(tmp_path / "model.safetensors"))
    assert model.config == {"model_type": "x"}
    assert [file.name for file in model.files] == ["config.json", "model.safetensors"]


def test_quantisation_file_is_listed(tmp_path):
    write_config(tmp_path)
    (tmp_path / "hf_quant_config.json").write_text("{}")
    model = open_model(str(tmp_path))
    assert ArtifactFile("hf_quant_config.json", 2, "quantization") in model.files


def test_one_shard_or_one_part_is_not_a_model(tmp_path):
    write_sharded(tmp_path, TWO_SHARDS)
    assert code_of(tmp_path / "model-00001-of-00002.safetensors") == "one-shard"
    write_gguf(tmp_path / "m-00002-of-00002.gguf")
    assert code_of(tmp_path / "m-00002-of-00002.gguf") == "gguf-not-first-part"


HOSTILE_INDEXES = [
    ("index-missing-shard", {"a": "model-00003-of-00002.safetensors"}),
    ("index-missing-shard", {"a": ""}),
    ("index-path-outside", {"a": "../model.safetensors"}),
    ("index-path-outside", {"a": "/etc/passwd"}),
    ("index-path-outside", {"a": "sub/../../model.safetensors"}),
    ("index-path-outside", {"a": "..\\model.safetensors"}),
    ("index-path-outside", {"a": "C:\\model.safetensors"}),
    ("index-path-outside", {"a": "C:model.safetensors"}),
    ("index-path-outside", {"a": "a\0.safetensors"}),
    ("index-path-outside", {"a": ".."}),
    ("index-missing-tensor", {"a": "model-00002-of-00002.safetensors"}),
    ("index-missing-tensor", {"zzz": "model-00002-of-00002.safetensors"}),
    ("index-empty", {}),
    ("index-not-valid", {"a": 3}),
    ("index-not-valid", {"a": ["model-00002-of-00002.safetensors"]}),
    ("index-not-valid", []),
    ("index-not-valid", None),
]


@pytest.mark.parametrize("code, weight_map", HOSTILE_INDEXES)
def test_hostile_weight_maps(tmp_path, code, weight_map):
    write_sharded(tmp_path, TWO_SHARDS)
    write_safetensors(tmp_path.parent / "model.safetensors", ONE)
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    assert code_of(tmp_path) == code


@pytest.mark.parametrize(
    "code, text",
    [
        ("index-not-valid", ""),
        ("index-not-valid", "{}"),
        ("index-not-valid", "[]"),
        ("index-not-valid", '{"weight_map": {"a": "x"'),
        ("index-not-valid", '{"weight_map":' + '{"a":' * 100_000),
        ("index-not-valid", '{"x":' + "[" * 100_000),
        (
            "index-duplicate-tensor",
            '{"weight_map": {"c": "%s", "c": "%s"}}'.replace("%s", "model-00002-of-00002.safetensors"),
        ),
        ("index-too-large", '{"weight_map": {' + ",".join(f'"{n}":""' for n in range(220_001)) + "}}"),
        ("index-too-large", " " * (24 * 1024**2 + 1)),
    ],
    ids=lambda value: str(value)[:40],
)
def test_hostile_indexes(tmp_path, code, text):
    write_sharded(tmp_path, TWO_SHARDS)
    (tmp_path / "model.safetensors.index.json").write_text(text)
    assert code_of(tmp_path) == code


@pytest.mark.parametrize("piece_bytes", [1, 40, 60, 100, 333, 10**6])
@pytest.mark.parametrize("indent", [None, 2])
def test_an_index_reads_the_same_in_pieces(tmp_path, monkeypatch, piece_bytes, indent):
    monkeypatch.setattr("capienza.artifacts.index.PIECE_BYTES", piece_bytes)
    names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    weight_map = {f'layer.{row}.a, "b.safetensors",{{}}': names[row % 2] for row in range(20)}
    for number, name in enumerate(names):
        write_safetensors(tmp_path / name, {key: ("U8", [1]) for key in list(weight_map)[number::2]})
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {key.replace('"', "'"): name for key, name in weight_map.items()}}))
    assert code_of(tmp_path) == "index-missing-tensor"
    plain = {key.replace('"', "'"): name for key, name in weight_map.items()}
    for number, name in enumerate(names):
        write_safetensors(tmp_path / name, {key: ("U8", [1]) for key in list(plain)[number::2]})
    index.write_text(json.dumps({"weight_map": plain, "metadata": {}}, indent=indent))
    assert sorted(tensor.name for tensor in open_model(str(tmp_path)).tensors) == sorted(plain)


def test_tensors_the_index_forgets_are_counted_and_reported(tmp_path):
    weight_map = write_sharded(tmp_path, TWO_SHARDS)
    del weight_map["b"]
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    model = open_model(str(tmp_path))
    assert [tensor.name for tensor in model.tensors] == ["a", "b", "c"]
    assert [(note.code, note.parameters["count"], note.parameters["found"]) for note in model.notes] == [
        ("artifacts.not-in-index", 1, "b")
    ]


def test_tensors_stored_twice_are_counted_once_and_reported(tmp_path):
    write_sharded(tmp_path, TWO_SHARDS)
    second = {"a": ("BF16", [4, 8]), "c": ("BF16", [2, 2])}
    write_safetensors(tmp_path / "model-00002-of-00002.safetensors", second)
    model = open_model(str(tmp_path))
    assert [tensor.name for tensor in model.tensors] == ["a", "b", "c"]
    assert [note.code for note in model.notes] == ["artifacts.indexed-elsewhere"]


def test_paths_that_do_not_exist(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_config(tmp_path / "llama-3")
    error = refusal("./llama3", UnreachableError)
    assert error.message.parameters["suggestion"] == "llama-3"
    assert "Hub id" in error.as_dict()[0]["hint"]
    for reference in ("", "gpt2", "/no/such/place/at/all", "a/b/c", "x\0y", "~/none-such", "y" * 5000, "models/m.gguf"):
        assert code_of(reference, UnreachableError).startswith("path-not-found")


def test_things_that_are_no_model(tmp_path):
    (tmp_path / "notes.txt").write_text("x")
    assert code_of(tmp_path / "notes.txt") == "wrong-suffix"
    os.mkfifo(tmp_path / "model.safetensors")
    assert code_of(tmp_path / "model.safetensors") == "not-a-file"


def test_a_folder_of_thousands_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("capienza.artifacts.folder.MAX_LISTED", 3)
    for number in range(4):
        (tmp_path / str(number)).touch()
    assert code_of(tmp_path) == "too-many-files"


def test_a_local_path_has_no_revision(tmp_path):
    write_config(tmp_path)
    assert refusal(tmp_path, revision="main").message.code == "artifacts.local-revision"


def test_a_local_folder_named_like_a_hub_id_is_reported(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_config(tmp_path / "org" / "name")
    assert [note.code for note in open_model("org/name").notes] == ["artifacts.local-first"]
    assert open_model("./org/name").notes == ()


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read(tmp_path):
    write_config(tmp_path)
    (tmp_path / "config.json").chmod(0)
    assert code_of(tmp_path, UnreachableError) == "cannot-read"


def test_a_broken_link_is_named(tmp_path):
    (tmp_path / "config.json").symlink_to(tmp_path / "nowhere")
    error = refusal(tmp_path, UnreachableError)
    assert (error.message.code, error.place.file) == ("artifacts.cannot-read", str(tmp_path / "config.json"))
    assert code_of(tmp_path / "config.json", UnreachableError).startswith("path-not-found")


def _link(path: Path) -> None:
    path.symlink_to("nowhere")


@pytest.mark.parametrize("make, kind", [(_link, UnreachableError), (Path.mkdir, InputError), (os.mkfifo, InputError)])
@pytest.mark.parametrize(
    "names",
    [
        ["config.json"],
        ["model.safetensors"],
        ["model.gguf"],
        ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"],
        ["model.safetensors.index.json", "model-00001-of-00001.safetensors"],
    ],
)
def test_what_has_the_name_of_a_file_and_is_none_is_not_passed_over(tmp_path, make, kind, names):
    """A link to nothing, a folder, a pipe."""
    if names != ["config.json"]:
        write_config(tmp_path)
    if names[0].endswith(".index.json"):
        (tmp_path / names[0]).write_text(json.dumps({"weight_map": {"t": names[1]}}))
    odd = [name for name in names if not name.endswith(".index.json")]
    for name in odd:
        make(tmp_path / name)
    assert refusal(tmp_path, kind).place.file == str(tmp_path / odd[0])


def test_a_broken_link_beside_the_model_is_named_among_what_is_left_out(tmp_path):
    write_safetensors(tmp_path / "model.safetensors", ONE)
    _link(tmp_path / "other.safetensors")
    assert open_model(str(tmp_path)).left_out == ("other.safetensors",)


@pytest.mark.parametrize("name", ["model.safetensors", "model.gguf"])
def test_a_file_without_tensors_is_refused(tmp_path, name):
    write_config(tmp_path)
    if name.endswith(".gguf"):
        (tmp_path / name).write_bytes(gguf_bytes([gguf_key("general.architecture", 8, "llama")], []))
    else:
        write_safetensors(tmp_path / name, {})
    error = refusal(tmp_path)
    assert (error.message.code, error.place.file) == ("artifacts.no-tensors", str(tmp_path / name))


@pytest.mark.parametrize("number", ["00000", "00003"])
def test_a_shard_whose_number_is_not_of_the_model_is_refused(tmp_path, number):
    write_safetensors(tmp_path / "model-00001-of-00002.safetensors", ONE)
    write_safetensors(tmp_path / f"model-{number}-of-00002.safetensors", {"b": ("F32", [2])})
    error = refusal(tmp_path)
    assert error.message.code == "artifacts.wrong-shard-numbers"
    assert number in str(error)
