"""The model of a card, opened: what its files say, and what its architecture is."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, TypeVar

import msgspec

from capienza.architecture.model import Architecture
from capienza.architecture.registry import describe
from capienza.artifacts.model import Artifact, open_model
from capienza.card.model import ModelRef
from capienza.errors import InputError, Message, Parameter, template
from capienza.predict.number_formats import Doubt, number_formats, stated_quantisation

if TYPE_CHECKING:
    from capienza.formats.layout import Scheme

REFUSED = template("predict.refused", "{spot}: {refusal}")
LACKING = "architecture.elements-differ"
"""The code of a note of `architecture.compare`, which is not loaded while there is nothing to compare."""
T = TypeVar("T")


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """A model as far as it is known.

    `revision` is the Hub's commit, else the one that the card states.
    `dtype` is the format of the unquantised parts (None: not stated anywhere), `stored_dtype` what the files hold.
    `architecture` is None when only a parameter count is known, or when the files' model type is not understood;
    `refusal` then says why. `doubts`: what the number formats leave unproved, since they contradict each other.
    """

    name: str
    revision: str | None = None
    artifact: Artifact | None = None
    architecture: Architecture | None = None
    refusal: Message | None = None
    differences: tuple[Message, ...] = ()
    parameters: int | None = None
    bits: Decimal | None = None
    dtype: str | None = None
    stored_dtype: str | None = None
    scheme: Scheme | None = None
    doubts: frozenset[Doubt] = frozenset()


def stored_format(model: Model) -> str | None:
    """The weight format that the files hold, in the words of a card; None when nothing states it."""
    return model.scheme.name if model.scheme is not None else model.stored_dtype or model.dtype


def resident_format(model: Model) -> str | None:
    """The weight format that evidence has to cover; None when configuration and files do not agree on one."""
    return None if "format" in model.doubts else stored_format(model)


def lacks_weights(model: Model) -> bool:
    """Do the files hold less than the configuration gives, in some part?"""
    return any(
        note.code == LACKING and note.parameters["found"] < note.parameters["expected"]  # type: ignore[operator]
        for note in model.differences
    )


def load_model(reference: ModelRef) -> Model:
    """Open the files (or take the bare parameter count) that a card names.

    Raises `InputError` for files that cannot be read or understood at all, `UnreachableError` when they are not there.
    """
    if reference.parameters is not None:
        name = f"{reference.parameters:,} parameters".replace(",", " ")
        return Model(name=name, revision=reference.revision, parameters=reference.parameters, bits=reference.bits)
    source = reference.path or reference.id or ""
    # Of a path the revision is the writer's own name for the files: nothing is looked up by it.
    artifact = open_model(source, reference.revision if reference.id else None)
    model = _from_gguf(source, artifact) if artifact.kind == "gguf" else _from_config(source, artifact)
    return msgspec.structs.replace(model, revision=artifact.revision or reference.revision)


def _from_gguf(source: str, artifact: Artifact) -> Model:
    from capienza.architecture.gguf import describe_gguf

    architecture, refusal = None, None
    try:
        architecture = describe_gguf(artifact.metadata, artifact.tensors, artifact.reference)
    except InputError as error:
        refusal = error.message
    return Model(
        name=source,
        artifact=artifact,
        architecture=architecture,
        refusal=refusal,
        dtype="fp16",
        stored_dtype=_mostly(artifact),
    )


def _mostly(artifact: Artifact) -> str | None:
    """The type that most bytes of a GGUF file are in, in small letters: such a file mixes several."""
    by_type: dict[str, int] = {}
    for tensor in artifact.tensors:
        by_type[tensor.dtype] = by_type.get(tensor.dtype, 0) + tensor.bytes
    return max(by_type, key=lambda dtype: by_type[dtype]).lower() if by_type else None


def _from_config(source: str, artifact: Artifact) -> Model:
    config = artifact.config or {}
    file = f"{artifact.reference}/config.json"
    quantisation, two = _or_refusal(artifact, lambda: stated_quantisation(config, file))
    architecture, refusal = _or_refusal(artifact, lambda: describe(config, file))
    scheme, no_scheme = _or_refusal(artifact, lambda: _scheme(*quantisation, file)) if quantisation else (None, two)
    formats = number_formats(
        config, artifact.tensors, architecture, scheme, is_quantised=bool(quantisation or no_scheme)
    )
    return Model(
        name=source,
        artifact=artifact,
        architecture=architecture,
        refusal=refusal,
        differences=(*_differences(architecture, artifact), *([no_scheme] if no_scheme else []), *formats.notes),
        dtype=formats.dtype,
        stored_dtype=formats.stored,
        scheme=formats.scheme,
        doubts=formats.doubts,
    )


def _or_refusal(artifact: Artifact, read: Callable[[], T]) -> tuple[T, None] | tuple[None, Message]:
    """What a reader finds, or why it refuses. Headers alone still give exact weights; without them it is an error."""
    try:
        return read(), None
    except InputError as error:
        if not artifact.tensors:
            raise
        message = error.message
        words: dict[str, Parameter] = {"spot": str(error.place), "refusal": message}
        return None, msgspec.structs.replace(
            REFUSED(**words), hint=message.hint, parameters={**message.parameters, **words}
        )


def _scheme(key: str, quantization: object, file: str) -> Scheme:
    from capienza.formats.scheme import scheme_from_config

    return scheme_from_config(quantization, file, key)


def _differences(architecture: Architecture | None, artifact: Artifact) -> tuple[Message, ...]:
    """Where the files do not hold what the configuration says. Headers win: the weights are theirs."""
    if architecture is None or not artifact.tensors:
        return ()
    expected = {part.name: part.shape for part in (*architecture.parameters, *architecture.buffers)}
    if expected == {tensor.name: tensor.shape for tensor in artifact.tensors}:
        return ()
    from capienza.architecture.compare import compare_with_tensors

    return compare_with_tensors(architecture, artifact.tensors)
