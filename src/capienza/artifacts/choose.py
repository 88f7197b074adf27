"""Which files of a folder are the model: one complete set of weights, never two of them.

Repositories hold the same weights several times: `model*.safetensors` for transformers, `consolidated*.safetensors`
for other loaders, pickles in `original/`, GGUF files in many formats. Order of preference: the safetensors set with
the transformers names, its index before a single file; another safetensors set when it is the only one; GGUF when the
folder has one model in it. Two equal candidates are an error that says how to name one.
"""

from __future__ import annotations

import re
from typing import Literal, NoReturn

import msgspec

from capienza.artifacts.folder import Folder
from capienza.artifacts.gguf_parts import PART_NAME, part_names
from capienza.errors import InputError, Place, UnreachableError, template

WEIGHT_SUFFIXES = (".safetensors", ".gguf", ".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".onnx", ".npz")
INDEX_SUFFIX = ".safetensors.index.json"
SHARD_NAME = re.compile(r"(?P<stem>.+)-(?P<number>\d{4,6})-of-(?P<count>\d{4,6})\.safetensors", re.DOTALL)
PREFERRED_STEMS = ("model", "consolidated")

SEVERAL_MODELS = template(
    "artifacts.several-models",
    "holds {count} models: {found}",
    "name one of them, such as {example}",
)
MISSING_SHARDS = template(
    "artifacts.missing-shards",
    "{found} of the {count} files of the model {stem} are there",
    "download the others: the memory of a part says nothing about the whole",
)
WRONG_NUMBERS = template(
    "artifacts.wrong-shard-numbers",
    "{found} does not belong to a model of {count} files, which are numbered from 1 to {count}",
    "download the files again: a part of the model is missing",
)
ONE_SHARD = template(
    "artifacts.one-shard",
    "is one of {count} files of a model",
    "give the folder that holds them all",
)
NO_SUCH_FILE = template(
    "artifacts.no-such-file",
    "has no file {found}; its models are: {accepted}",
    "check the name",
)
NO_SUCH_FILE_AT_ALL = template(
    "artifacts.no-such-file-at-all",
    "has no file {found}, and no .safetensors or .gguf file",
    "check the name",
)


class Choice(msgspec.Struct, frozen=True):
    """The files to read: an index (whose shards it names), safetensors files, GGUF parts, or none at all."""

    kind: Literal["index", "safetensors", "gguf", "none"]
    names: tuple[str, ...] = ()


def choose_named(name: str) -> Choice:
    """The set that begins with this one file. Raises `InputError` for a later part or a single shard."""
    if name.endswith(".gguf"):
        return Choice("gguf", part_names(name))
    match = SHARD_NAME.fullmatch(name)
    if match is not None and int(match["count"]) > 1:
        raise InputError(ONE_SHARD(count=int(match["count"])), Place(name))
    return Choice("safetensors", (name,))


def choose(folder: Folder) -> Choice:
    """The set of weights of a folder.

    Raises `InputError` when several are equally good, or the only one is incomplete.
    """
    names = folder.names()
    here = [name for name in names if "/" not in name]
    sets = _safetensors_sets(here)
    indexes = {name.removesuffix(INDEX_SUFFIX): name for name in here if name.endswith(INDEX_SUFFIX)}
    stems = [stem for stem in PREFERRED_STEMS if stem in sets or stem in indexes] or sorted({*sets, *indexes})
    if len(stems) > 1 and stems[0] not in PREFERRED_STEMS:
        _refuse_several([sets[stem][0] if stem in sets else indexes[stem] for stem in stems], folder)
    if stems and stems[0] in indexes:
        return Choice("index", (indexes[stems[0]],))
    if stems:
        return Choice("safetensors", _complete(stems[0], sets[stems[0]], folder.label))
    models = gguf_models(names)
    if len(models) > 1:
        _refuse_several(models, folder)
    return Choice("gguf", part_names(models[0])) if models else Choice("none")


def check_named(name: str, folder: Folder) -> None:
    """Raises `UnreachableError` when the folder has no file `name`, and lists the models it has."""
    names = folder.names()
    if name not in names:
        models = gguf_models(names) or [other for other in names if other.endswith(".safetensors")]
        message = NO_SUCH_FILE(found=name, accepted=_some(models)) if models else NO_SUCH_FILE_AT_ALL(found=name)
        raise UnreachableError(message, Place(folder.label))


def gguf_models(names: list[str]) -> list[str]:
    """One name for each GGUF model: the first part of a split one; projectors only when there is nothing else."""
    firsts = [name for name in names if name.endswith(".gguf") and not _is_later_part(name)]
    return [name for name in firsts if "mmproj" not in name.rpartition("/")[2]] or firsts


def _is_later_part(name: str) -> bool:
    match = PART_NAME.fullmatch(name)
    return match is not None and int(match["number"]) != 1


def _safetensors_sets(here: list[str]) -> dict[str, list[str]]:
    sets: dict[str, list[str]] = {}
    for name in here:
        if name.endswith(".safetensors"):
            match = SHARD_NAME.fullmatch(name)
            stem = match["stem"] if match else name.removesuffix(".safetensors")
            sets.setdefault(stem, []).append(name)
    return sets


def _complete(stem: str, members: list[str], label: str) -> tuple[str, ...]:
    """All the shards of one set; a single file that stands beside shards of its own name is the whole set."""
    single = f"{stem}.safetensors"
    if single in members:
        return (single,)
    counts = {int(match["count"]) for name in members if (match := SHARD_NAME.fullmatch(name))}
    count = max(counts)
    if len(counts) > 1 or len(members) != count:
        raise InputError(MISSING_SHARDS(found=len(members), count=count, stem=stem), Place(label))
    for name in members:
        match = SHARD_NAME.fullmatch(name)
        if match is not None and not 1 <= int(match["number"]) <= count:
            raise InputError(WRONG_NUMBERS(found=name, count=count), Place(label))
    return tuple(members)


def _refuse_several(models: list[str], folder: Folder) -> NoReturn:
    message = SEVERAL_MODELS(count=len(models), found=_some(models), example=folder.address(models[0]))
    raise InputError(message, Place(folder.label))


def _some(names: list[str]) -> list[str]:
    return names[:20] + (["..."] if len(names) > 20 else [])
