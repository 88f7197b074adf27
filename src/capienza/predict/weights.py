"""The weights entry: exact bytes from headers, from the architecture, or from a bare parameter count.

Legend: P parameters, b bits per parameter, n GPUs of one copy. Plain arithmetic: P * b / 8, no multiplier.
Per GPU the provable floor and the expectation are an even share ceil(total / n): whatever the split, some GPU
holds at least that. The ceiling is everything on one GPU, until a placement is computed.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import TYPE_CHECKING

import msgspec

from capienza.architecture.model import Architecture
from capienza.errors import NOWHERE, InputError, Message, Place, template
from capienza.formats.tensor import Tensor
from capienza.ledger.arithmetic import plain_weights_bytes
from capienza.ledger.entry import Entry, Input
from capienza.ledger.ledger import WEIGHTS
from capienza.ledger.phase import Phase
from capienza.predict.model import Model, lacks_weights
from capienza.predict.number_formats import UNKNOWN_DTYPE
from capienza.units import Range

if TYPE_CHECKING:
    from capienza.formats.layout import Scheme

NO_DTYPE = template(
    "predict.no-weight-format",
    "the model states no weight format (no dtype in config.json, no tensor headers)",
    "state weights.format on the card, or point at the folder that holds the .safetensors files",
)
NO_SHAPES = template(
    "predict.format-needs-shapes",
    "weights.format {format} cannot be computed for {model}: its layers are not known",
    "leave weights.format out to size the weights as stored, or state parameters and bits",
)


SUM_OF_FORMATS = template("predict.formula-weights", "{sum} = {total} B")
COUNT_TIMES_BITS = template("predict.formula-count", "{parameters} x {bits} / 8 = {total} B")
WITH_MISSING = template(
    "predict.formula-with-missing",
    "{formula}; the files do not hold all that config.json gives, which comes to {expected} B",
)
PER_GPU = template("predict.formula-per-gpu", "{formula}; per GPU at least {total} / {gpus}")
FROM_HEADERS = template("predict.from-headers", "tensor headers of {reference}")
FROM_LAYERS = template("predict.from-layers", "layers of {model_type}")
FROM_FORMAT = template("predict.from-format", "layers of {model_type}, in the format that {origin} states")
FROM_FIELD = template("predict.from-field", "stated: {field}")


class WeightBytes(msgspec.Struct, frozen=True, kw_only=True):
    """All the weights of one copy of the model, with the formula that gave them.

    `expected_bytes` is more than `total_bytes` when the files hold only a part. `ceiling_bytes`: the most that they
    may take in another format than the one asked for; None where there is no such format.
    """

    total_bytes: int
    expected_bytes: int
    formula: Message
    source: Message
    inputs: tuple[Input, ...]
    ceiling_bytes: int | None = None

    @property
    def may_grow_bytes(self) -> int:
        """How much more than expected they may take in another format."""
        return 0 if self.ceiling_bytes is None else max(0, self.ceiling_bytes - self.expected_bytes)


def weight_bytes(model: Model, weight_format: str | None) -> WeightBytes:
    """The resident weights. Raises `InputError` when neither files nor card state enough."""
    if model.parameters is not None and model.bits is not None:
        return _from_count(model.parameters, model.bits)
    artifact = model.artifact
    if weight_format is None and artifact is not None and artifact.tensors:
        return _with_missing(model, _from_headers(artifact.tensors, artifact.reference))
    if model.architecture is None or not model.architecture.parameters:
        raise InputError(NO_SHAPES(format=weight_format or "?", model=model.name))
    from capienza.formats.scheme import scheme_named

    scheme, source = model.scheme, "config.json"
    if weight_format is not None:
        scheme, source = scheme_named(weight_format, Place(key="weights.format")), "weights.format"
    dtype = model.dtype or (scheme.dtype if scheme is not None else None)
    if dtype is None:
        odd = next((note for note in model.differences if note.code == UNKNOWN_DTYPE.code), None)
        raise InputError(odd or NO_DTYPE(), Place(artifact.reference) if artifact else NOWHERE)
    return _from_architecture(model.architecture, scheme, dtype, source)


def weights_entry(weights: WeightBytes, device: str, gpus: int, phases: tuple[Phase, ...]) -> Entry:
    """The entry of one GPU."""
    return Entry(
        name=WEIGHTS,
        phases=phases,
        device=device,
        amount=Range(
            _even_share(weights.total_bytes, gpus),
            _even_share(weights.expected_bytes, gpus),
            weights.expected_bytes + weights.may_grow_bytes,
        ),
        status="estimated",
        inputs=weights.inputs,
        formula=per_gpu(weights.formula, weights.total_bytes, gpus),
        source=weights.source,
    )


def share(total_bytes: int, gpus: int) -> Range:
    """What one of `gpus` GPUs holds of a total, before a placement is computed."""
    even = _even_share(total_bytes, gpus)
    return Range(even, even, total_bytes)


def _even_share(total_bytes: int, gpus: int) -> int:
    return -(-total_bytes // gpus)


def per_gpu(formula: Message, total_bytes: int, gpus: int) -> Message:
    """The formula with the share of one GPU, where there are several."""
    return formula if gpus == 1 else PER_GPU(formula=formula, total=total_bytes, gpus=gpus)


def _from_count(parameters: int, bits: Decimal) -> WeightBytes:
    total = plain_weights_bytes(parameters, bits)
    return WeightBytes(
        total_bytes=total,
        expected_bytes=total,
        formula=COUNT_TIMES_BITS(parameters=parameters, bits=str(bits), total=total),
        source=FROM_FIELD(field="model.parameters"),
        inputs=(
            Input("parameters", parameters, FROM_FIELD(field="model.parameters")),
            Input("bits", str(bits), FROM_FIELD(field="model.bits")),
        ),
    )


def _from_headers(tensors: Iterable[Tensor], reference: str) -> WeightBytes:
    by_dtype = _sum_by_dtype(tensors)
    total = sum(by_dtype.values())
    return WeightBytes(
        total_bytes=total,
        expected_bytes=total,
        formula=_formula(by_dtype, total),
        source=FROM_HEADERS(reference=reference),
        inputs=tuple(Input(dtype, amount, FROM_HEADERS(reference=reference)) for dtype, amount in by_dtype.items()),
    )


def _with_missing(model: Model, held: WeightBytes) -> WeightBytes:
    """What is held bounds the weights from below; an engine allocates all that the configuration gives."""
    dtype = model.stored_dtype or model.dtype
    if model.architecture is None or dtype is None or not lacks_weights(model):
        return held
    whole = _from_architecture(model.architecture, model.scheme, dtype, "config.json").total_bytes
    expected = max(whole, held.total_bytes)
    return msgspec.structs.replace(
        held, expected_bytes=expected, formula=WITH_MISSING(formula=held.formula, expected=expected)
    )


def _from_architecture(architecture: Architecture, scheme: Scheme | None, dtype: str, source: str) -> WeightBytes:
    from capienza.formats.scheme import stored

    by_dtype = _sum_by_dtype(
        tensor
        for parameter in (*architecture.parameters, *architecture.buffers)
        for tensor in stored(
            parameter.name, parameter.shape, parameter.role, scheme, dtype, transposed=parameter.transposed
        )
    )
    total = sum(by_dtype.values())
    origin = FROM_FORMAT(model_type=architecture.model_type, origin=source)
    return WeightBytes(
        total_bytes=total,
        expected_bytes=total,
        formula=_formula(by_dtype, total),
        source=origin,
        inputs=(
            Input("parameters", architecture.num_stored_elements, FROM_LAYERS(model_type=architecture.model_type)),
            *(Input(name, amount, origin) for name, amount in by_dtype.items()),
        ),
    )


def _sum_by_dtype(tensors: Iterable[Tensor]) -> dict[str, int]:
    by_dtype: dict[str, int] = {}
    for tensor in tensors:
        by_dtype[tensor.dtype] = by_dtype.get(tensor.dtype, 0) + tensor.bytes
    return by_dtype


def _formula(by_dtype: dict[str, int], total: int) -> Message:
    return SUM_OF_FORMATS(sum=" + ".join(f"{amount} ({dtype})" for dtype, amount in by_dtype.items()), total=total)
