"""The model of a card, opened: what its files say, and what its architecture is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from capienza.architecture.model import Architecture
from capienza.architecture.registry import describe
from capienza.artifacts.model import Artifact, open_model
from capienza.card.model import ModelRef
from capienza.errors import InputError, Message, Parameter, template

if TYPE_CHECKING:
    from capienza.formats.layout import Scheme

OTHER_DTYPE = template(
    "predict.stored-in-another-format",
    "the files hold {stored} where config.json says {stated}",
    "the weights are counted as stored; state weights.format on the card for what is resident",
)
QUANTISED_ON_PAPER = template(
    "predict.quantised-on-paper",
    "config.json states the quantisation {scheme}, the files hold {stored} alone",
    "an engine may refuse them or quantise them while loading, so nothing is proved of the weights from below; "
    "state weights.format on the card",
)
REFUSED = template("predict.refused", "{spot}: {refusal}")
UNKNOWN_DTYPE = template(
    "predict.unknown-dtype",
    "config.json states the number format {found}, which is not known; known: {accepted}",
    "the headers of the files are taken where there are any; correct torch_dtype in config.json",
)
T = TypeVar("T")
TORCH_DTYPES = {
    "float32": "fp32",
    "float16": "fp16",
    "bfloat16": "bf16",
    "float64": "fp64",
    "float8_e4m3fn": "fp8_e4m3",
    "float8_e5m2": "fp8_e5m2",
}
UNQUANTISED = frozenset({"bf16", "fp16", "fp32"})


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """A model as far as it is known.

    `revision` is the Hub's commit, else the one that the card states.
    `dtype` is the format of the unquantised parts (None: not stated anywhere), `stored_dtype` what the files hold.
    `architecture` is None when only a parameter count is known, or when the files' model type is not understood;
    `refusal` then says why.
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


def stored_format(model: Model) -> str | None:
    """The weight format that the files hold, in the words of a card; None when nothing states it."""
    return model.scheme.name if model.scheme is not None else model.stored_dtype or model.dtype


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
    )


def _from_config(source: str, artifact: Artifact) -> Model:
    config = artifact.config or {}
    file = f"{artifact.reference}/config.json"
    quantization = config.get("quantization_config") or text_config(config).get("quantization_config")
    architecture, refusal = _or_refusal(artifact, lambda: describe(config, file))
    scheme, no_scheme = _or_refusal(artifact, lambda: _scheme(quantization, file)) if quantization else (None, None)
    stated, stored = config_dtype(config), headers_dtype(artifact)
    notes = [no_scheme] if no_scheme else []
    if scheme is not None and stored is not None and {tensor.dtype for tensor in artifact.tensors} <= UNQUANTISED:
        notes.append(QUANTISED_ON_PAPER(scheme=scheme.name, stored=stored))
        scheme = None
    if stated is None and (odd := _dtype_text(config)):
        notes.append(UNKNOWN_DTYPE(found=odd, accepted=tuple(TORCH_DTYPES)))
    if stated is not None and stored is not None and stated != stored:
        notes.append(OTHER_DTYPE(stated=stated, stored=stored))
    return Model(
        name=source,
        artifact=artifact,
        architecture=architecture,
        refusal=refusal,
        differences=(*_differences(architecture, artifact), *notes),
        dtype=stated or stored,
        stored_dtype=stored,
        scheme=scheme,
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


def _scheme(quantization: object, file: str) -> Scheme:
    from capienza.formats.scheme import scheme_from_config

    return scheme_from_config(quantization, file)


def _differences(architecture: Architecture | None, artifact: Artifact) -> tuple[Message, ...]:
    """Where the files do not hold what the configuration says. Headers win: the weights are theirs."""
    if architecture is None or not artifact.tensors:
        return ()
    expected = {part.name: part.shape for part in (*architecture.parameters, *architecture.buffers)}
    if expected == {tensor.name: tensor.shape for tensor in artifact.tensors}:
        return ()
    from capienza.architecture.compare import compare_with_tensors

    return compare_with_tensors(architecture, artifact.tensors)


def text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The nested configuration of the language side, or the configuration itself."""
    nested = config.get("text_config")
    return nested if isinstance(nested, dict) else config


def config_dtype(config: Mapping[str, Any]) -> str | None:
    """The format that a configuration states for unquantised weights; None when it states none."""
    for level in (config, text_config(config)):
        for key in ("dtype", "torch_dtype"):
            stated = level.get(key)
            if isinstance(stated, str):
                return TORCH_DTYPES.get(stated.removeprefix("torch."))
    return None


def _dtype_text(config: Mapping[str, Any]) -> str:
    """What a configuration states as its number format, however it is written; empty when it states none."""
    stated = [level.get(key) for level in (config, text_config(config)) for key in ("dtype", "torch_dtype")]
    return next((str(value)[:40] for value in stated if value not in (None, "", "auto")), "")


def headers_dtype(artifact: Artifact) -> str | None:
    """The unquantised format that most of the stored bytes have; None without headers."""
    sizes: dict[str, int] = {}
    for tensor in artifact.tensors:
        if tensor.dtype in UNQUANTISED:
            sizes[tensor.dtype] = sizes.get(tensor.dtype, 0) + tensor.bytes
    return max(sizes, key=sizes.__getitem__) if sizes else None
