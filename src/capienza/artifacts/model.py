"""A model by path or Hub id, opened: its configuration, its tensors, and exactly which files were read for them."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import msgspec

from capienza.artifacts.choose import INDEX_SUFFIX, WEIGHT_SUFFIXES, Choice, check_named, choose, choose_named
from capienza.artifacts.config import CONFIG_NAME, QUANTIZATION_NAMES, add_quantization
from capienza.artifacts.folder import Folder, LocalFolder
from capienza.artifacts.json_text import read_json
from capienza.artifacts.shards import read_files, read_indexed
from capienza.artifacts.weights import Weights
from capienza.errors import InputError, Message, Place, UnreachableError, template
from capienza.formats.tensor import Tensor

if TYPE_CHECKING:
    from capienza.artifacts.gguf_values import Value

Kind = Literal["safetensors", "gguf", "config"]
FileRole = Literal["config", "quantization", "index", "weights"]

NOT_FOUND = template(
    "artifacts.path-not-found",
    "there is no such file or folder",
    "give a folder, a .safetensors, .gguf or config.json file, or a Hub id such as Qwen/Qwen3-8B",
)
NOT_FOUND_NEAR = template(
    "artifacts.path-not-found-near",
    "there is no such file or folder; did you mean {suggestion}?",
    "give a folder, a .safetensors, .gguf or config.json file, or a Hub id such as Qwen/Qwen3-8B",
)
NO_MODEL = template(
    "artifacts.no-model",
    "holds no config.json and no .safetensors or .gguf file",
    "give the folder that holds the model; pickled weights (.bin, .pt) must be converted to safetensors",
)
WRONG_SUFFIX = template(
    "artifacts.wrong-suffix",
    "is neither .safetensors nor .gguf nor .json",
    "pickled weights (.bin, .pt) are not read: convert them to safetensors",
)
NO_TENSORS = template(
    "artifacts.no-tensors",
    "holds no tensors, so it says nothing about the weights",
    "download the model again, or name another file of it",
)
LOCAL_REVISION = template(
    "artifacts.local-revision",
    "is a local path, which has no revision {revision}",
    "leave the revision out, or give a Hub id",
)
LOCAL_FIRST = template(
    "artifacts.local-first",
    "{reference} is read from the local folder of that name, not from the Hub",
)
HUB_ID = re.compile(
    r"(?:hf://(?:models/)?)?(?P<repo>[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(?::(?P<file>[^:]+))?", re.ASCII
)
KINDS: dict[str, Kind] = {"index": "safetensors", "safetensors": "safetensors", "gguf": "gguf", "none": "config"}
PATH_SUFFIXES = (".safetensors", ".gguf", ".json")


class ArtifactFile(msgspec.Struct, frozen=True):
    """One file that was read (of weights: its header)."""

    name: str
    size_bytes: int
    role: FileRole


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    """A model as its files describe it.

    `revision` is the Hub commit, None for a local path. `metadata` holds GGUF keys, or the `__metadata__` of
    safetensors files. `left_out` names files with weights that were not read; `notes` is what deserves a word.
    """

    kind: Kind
    reference: str
    revision: str | None = None
    config: dict[str, Any] | None = None
    metadata: dict[str, Value]
    tensors: tuple[Tensor, ...]
    files: tuple[ArtifactFile, ...]
    bytes_read: int
    left_out: tuple[str, ...] = ()
    notes: tuple[Message, ...] = ()


def open_model(reference: str, revision: str | None = None) -> Artifact:
    """Read a local path, or a Hub id `org/name` (`org/name:file.gguf` for one file of several).

    An existing path comes first, unless a revision is given. Only headers of weights are read.
    Raises `InputError` for a damaged or ambiguous model, `UnreachableError` when it is not there or not allowed.
    """
    hub_id = HUB_ID.fullmatch(reference)
    path = os.path.expanduser(reference)
    if reference and _exists(path) and (hub_id is None or revision is None):
        if revision is not None:
            raise InputError(LOCAL_REVISION(revision=revision), Place(reference))
        return _open_path(path, reference, (LOCAL_FIRST(reference=reference),) if hub_id else ())
    if hub_id is None or (hub_id["file"] is None and reference.endswith(PATH_SUFFIXES)):
        _refuse_missing(path, reference)
    return _open_repository(hub_id["repo"], hub_id["file"], reference, revision)


def _open_repository(repo: str, file: str | None, reference: str, revision: str | None) -> Artifact:
    from capienza.artifacts.hub import open_repository

    repository = open_repository(repo, revision)
    folder = repository.folder
    if file is None:
        choice = choose(folder)
    elif file.endswith((".safetensors", ".gguf")):
        check_named(file, folder)
        choice = choose_named(file)
    else:
        raise InputError(WRONG_SUFFIX(), Place(reference))
    return _open_folder(folder, choice, reference, revision=repository.commit, notes=repository.notes)


def _open_path(path: str, reference: str, notes: tuple[Message, ...]) -> Artifact:
    if os.path.isdir(path):
        folder = LocalFolder(path, reference)
        return _open_folder(folder, choose(folder), reference, notes=notes)
    name = os.path.basename(path)
    folder = LocalFolder(os.path.dirname(path) or ".", os.path.dirname(reference) or ".")
    if name.endswith(".json"):
        return _open_folder(folder, Choice("none"), reference, config_name=name, whole_folder=False)
    if not name.endswith((".safetensors", ".gguf")):
        raise InputError(WRONG_SUFFIX(), Place(reference))
    choice = choose_named(name)
    config_name = CONFIG_NAME if choice.kind == "safetensors" else None
    return _open_folder(folder, choice, reference, config_name=config_name, whole_folder=False)


def _open_folder(
    folder: Folder,
    choice: Choice,
    reference: str,
    *,
    revision: str | None = None,
    notes: tuple[Message, ...] = (),
    config_name: str | None = CONFIG_NAME,
    whole_folder: bool = True,
) -> Artifact:
    config = None
    if config_name is not None and folder.has(config_name):
        with folder.open(config_name) as source:
            config = read_json(source)
        add_quantization(config, folder)
    weights = _read_weights(folder, choice)
    if choice.names and not weights.tensors:
        raise InputError(NO_TENSORS(), Place(folder.address(choice.names[0])))
    if config is None and choice.kind == "none":
        raise InputError(NO_MODEL(), Place(folder.label))
    names = folder.names() if whole_folder else []
    return Artifact(
        kind=KINDS[choice.kind],
        reference=reference,
        revision=revision,
        config=config,
        metadata=weights.metadata,
        tensors=weights.tensors,
        files=tuple(
            ArtifactFile(name, source.size_bytes, _role(name)) for name, source in sorted(folder.opened.items())
        ),
        bytes_read=folder.bytes_read,
        left_out=tuple(name for name in names if name.endswith(WEIGHT_SUFFIXES) and name not in folder.opened),
        notes=notes + weights.notes,
    )


def _read_weights(folder: Folder, choice: Choice) -> Weights:
    if choice.kind == "index":
        return read_indexed(folder, choice.names[0])
    if choice.kind == "safetensors":
        return read_files(folder, choice.names)
    if choice.kind == "gguf":
        from capienza.artifacts.gguf import read_parts

        return read_parts(folder, choice.names)
    return Weights()


def _role(name: str) -> FileRole:
    if name.endswith((".safetensors", ".gguf")):
        return "weights"
    if name.endswith(INDEX_SUFFIX):
        return "index"
    return "quantization" if name in QUANTIZATION_NAMES else "config"


def _exists(path: str) -> bool:
    try:
        return os.path.exists(path)
    except (OSError, ValueError):  # a name that is too long, or holds a zero byte
        return False


def _refuse_missing(path: str, reference: str) -> NoReturn:
    near = nearest(path)
    if near is None:
        raise UnreachableError(NOT_FOUND(), Place(reference))
    suggestion = os.path.normpath(os.path.join(os.path.dirname(reference), near))
    raise UnreachableError(NOT_FOUND_NEAR(suggestion=suggestion), Place(reference))


def nearest(path: str, *, only_models: bool = False) -> str | None:
    """The name beside `path` that is most like it, of all there are or of those that may be a model."""
    from difflib import get_close_matches

    folder = os.path.dirname(path) or "."
    try:
        names = os.listdir(folder)
    except (OSError, ValueError):
        return None
    if only_models:
        names = [name for name in names if name.endswith(PATH_SUFFIXES) or os.path.isdir(os.path.join(folder, name))]
    return next(iter(get_close_matches(os.path.basename(path), names, n=1)), None)
