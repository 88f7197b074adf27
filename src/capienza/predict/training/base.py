"""What the frozen or trained model itself holds on the GPU once it is loaded, to the byte.

Legend: every tensor is a block of its own, rounded up to 512 B. A quantised matrix is several tensors (`formats`):
nf4 with double quantisation packed codes (n/2), scales (n/64), scales of scales (n/16384 x 4), an offset and a code of
16 entries (a block each), and a code of 256 entries that all matrices share before bitsandbytes 0.46.
    widened     PEFT's k-bit preparation takes what is not quantised up to fp32; TRL takes embedding and head back
                (`widens_norms`). A bias of a quantised module follows the format of that module's input: attention's
                output arrives in the narrow one, so the bias behind it is narrowed again.
    untied      LitGPT holds a head of its own where the model ties it to the embedding
Sources: transformers 4.48 and 5.24 quantizer_bnb_4bit.py; peft 0.13 and 0.21 utils/other.py; trl 0.13
peft_module_casting_to_bf16; bitsandbytes 0.43 and 0.50 functional.py, nn/modules.py; fms rows, to the byte.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from capienza.allocator.sizes import rounded_bytes
from capienza.architecture.model import Architecture
from capienza.formats.scheme import WEIGHT_FORMATS, Scheme, stored
from capienza.formats.tensor import Tensor
from capienza.predict.training.modules import UNTIED_HEAD, Piece, alike, pieces, stored_buffers
from capienza.predict.training.releases import release
from capienza.recipe.recipe import Recipe

NESTED_CODE = "nested_quant_map"
OWN_NESTED_CODES_SINCE = (0, 46)
WIDE = "fp32"


class Base(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of the model's own tensors.

    `weights_bytes` is the model in the formats it is loaded in, by format in `by_format`, `rounding_bytes` what the
    allocator's blocks take beyond that. The others are blocks: `widened_bytes` is what taking the rest up to fp32 adds,
    `untied_head_bytes` a second copy of the embedding, `buffers_bytes` tables that are not stored with the model.
    `num_quantised` are elements of quantised matrices, `num_rest` of all others.
    """

    weights_bytes: int
    by_format: tuple[tuple[str, int], ...]
    rounding_bytes: int
    widened_bytes: int
    untied_head_bytes: int
    buffers_bytes: int
    num_quantised: int
    num_rest: int
    num_modules: int

    @property
    def total_bytes(self) -> int:
        """All of it, in blocks."""
        return (
            self.weights_bytes + self.rounding_bytes + self.widened_bytes + self.untied_head_bytes + self.buffers_bytes
        )


def base_of(
    architecture: Architecture,
    recipe: Recipe,
    scheme: Scheme | None = None,
    made: tuple[Piece, ...] | None = None,
) -> Base:
    """The model's own tensors. `scheme` is the quantisation of its files, if any; else the recipe's is taken.

    `made` are the model's pieces, or one of each kind with its count, where the caller has them. Raises `InputError`
    for a matrix that the format cannot pack.
    """
    scheme = scheme_of(recipe, scheme)
    dtype = resident_dtype(recipe)
    shares_code = release(recipe, "bitsandbytes") < OWN_NESTED_CODES_SINCE
    by_format: dict[str, int] = {}
    quantised = rest = modules = widened = nested_code = rounding = untied = 0
    made = pieces(architecture, recipe) if made is None else made
    everything = (*made, *stored_buffers(architecture))
    # Where the quantisation has rules by name, every piece is a kind of its own.
    for one in everything if scheme is not None and scheme.rules else alike(everything):
        count = one.count
        parts = stored(one.name, one.shape, one.role, scheme, dtype, transposed=one.transposed)
        for part in parts:
            if shares_code and part.name.endswith(NESTED_CODE):
                nested_code = part.bytes
                continue
            if one.name == UNTIED_HEAD and architecture.tied_head:
                untied += rounded_bytes(part.bytes)
                continue
            by_format[part.dtype] = by_format.get(part.dtype, 0) + count * part.bytes
            rounding += count * (rounded_bytes(part.bytes) - part.bytes)
        if is_packed(parts, dtype):
            quantised, modules = quantised + count * one.elements, modules + count
        else:
            rest += count * one.elements
            if is_widened(one, recipe):
                size = one.elements * 2
                widened += count * (rounded_bytes(2 * size) - rounded_bytes(size))
    if nested_code:
        by_format[WIDE] = by_format.get(WIDE, 0) + nested_code
    return Base(
        weights_bytes=sum(by_format.values()),
        by_format=tuple(by_format.items()),
        rounding_bytes=rounding,
        widened_bytes=widened,
        untied_head_bytes=untied,
        buffers_bytes=buffers_bytes(architecture, recipe),
        num_quantised=quantised,
        num_rest=rest,
        num_modules=modules,
    )


def scheme_of(recipe: Recipe, scheme: Scheme | None) -> Scheme | None:
    """The quantisation of the model's files, else the one that the recipe makes while loading."""
    if scheme is None and recipe.precision.quantised is not None:
        found = WEIGHT_FORMATS[recipe.precision.quantised]
        # Lightning's BitsandbytesPrecision takes every linear module, the head too.
        return msgspec.structs.replace(found, roles=(*found.roles, "head")) if recipe.kernels == "litgpt" else found
    return scheme


def resident_dtype(recipe: Recipe) -> str:
    """The format of weights that are not quantised."""
    return recipe.precision.base if recipe.adapters is not None else recipe.precision.trained


def is_packed(parts: tuple[Tensor, ...], dtype: str) -> bool:
    """Is a parameter that is held in these tensors quantised?"""
    return len(parts) > 1 or parts[0].dtype != dtype


def is_widened(one: Piece, recipe: Recipe) -> bool:
    """Is a tensor that is not quantised taken up to fp32?"""
    precision = recipe.precision
    if precision.base == WIDE or not (precision.widens_rest or precision.widens_norms):
        return False
    if one.name.endswith(ATTENTION_OUT_BIAS):
        return False
    return precision.widens_rest or one.role not in ("embedding", "head")


ATTENTION_OUT_BIAS = (".o_proj.bias", ".out_proj.bias", ".dense.bias", ".attn.c_proj.bias")


def buffers_bytes(architecture: Architecture, recipe: Recipe) -> int:
    """Tables that the program makes and no file holds: inverse frequencies of positions, masks."""
    return sum(_buffers(architecture, recipe))


def _buffers(architecture: Architecture, recipe: Recipe) -> Iterator[int]:
    layers = len(architecture.layers)
    positions = architecture.max_position_embeddings or 0
    head = next((one.attention.key_head_dim for one in architecture.layers if one.attention), 0)
    learned = any(one.role == "position" for one in architecture.parameters)
    if architecture.model_type == "gpt_bigcode":
        yield rounded_bytes(positions**2)
    elif architecture.model_type == "gpt2":
        yield layers * rounded_bytes(positions**2)
    if recipe.kernels == "torchtune" and head and not learned:
        yield rounded_bytes(4 * positions * head)  # cosines and sines of every position (RotaryPositionalEmbeddings)
    elif head and not learned:
        yield _rotaries(architecture.model_type, recipe, layers) * rounded_bytes(4 * head // 2)


def _rotaries(model_type: str, recipe: Recipe, layers: int) -> int:
    """Inverse frequencies: before transformers 4.48 each layer's, and Llama's once more; from 5 on a second copy."""
    at = release(recipe, "transformers")
    if at >= (5,):
        return 2
    return 1 if at >= (4, 48) or model_type == "granite" else layers + (model_type == "llama")
