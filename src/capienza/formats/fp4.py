"""Four-bit floating point in small blocks along a row: MXFP4 and NVFP4.

Legend: R rows, C columns. Packed values R C / 2 bytes; MXFP4 one scale byte for 32 values (4.25 bits a weight);
NVFP4 one FP8 scale for 16 values and one or two fp32 numbers a matrix (4.5 bits and a few bytes).
gpt-oss quantises its fused experts only; their biases, the attention, the router, the embeddings and the head
keep the model's own format.
Source: OCP Microscaling specification 1.0; transformers 5.24 integrations/mxfp4.py; compressed-tensors nvfp4 and
mxfp4 packers; TensorRT Model Optimizer's unified checkpoints.
"""

from __future__ import annotations

import msgspec

from capienza.formats.keys import Keys
from capienza.formats.layout import Matrix, Part, Scheme

MX_BLOCK = 32
NV_BLOCK = 16


class MicroBlocks(msgspec.Struct, frozen=True):
    """MXFP4: two values a byte and one byte of exponent for 32 of them.

    `nested` gives gpt-oss's own shape, with the blocks as a dimension of their own.
    """

    packed: str = "weight_packed"
    scale: str = "weight_scale"
    packed_dtype: str = "uint8"
    scale_dtype: str = "uint8"
    nested: bool = False

    def parts(self, matrix: Matrix) -> tuple[Part, ...]:
        """Packed values and scales."""
        blocks = matrix.groups(MX_BLOCK, "mxfp4")
        columns = (blocks, MX_BLOCK // 2) if self.nested else (matrix.columns // 2,)
        return (
            Part(self.packed, (matrix.rows, *columns), self.packed_dtype),
            Part(self.scale, (matrix.rows, blocks), self.scale_dtype),
        )


class Nvfp4(msgspec.Struct, frozen=True):
    """NVFP4: two values a byte, one FP8 scale for 16 of them, one fp32 scale a matrix.

    `activation` names the scale of a quantised input. `vector` says that single numbers have one dimension.
    """

    packed: str = "weight"
    global_scale: str = "weight_scale_2"
    activation: str | None = "input_scale"
    vector: bool = False

    def parts(self, matrix: Matrix) -> tuple[Part, ...]:
        """Packed values, block scales and the fp32 scales."""
        blocks = matrix.groups(NV_BLOCK, "nvfp4")
        single = matrix.vector if self.vector else matrix.scalar
        parts = (
            Part(self.packed, (matrix.rows, matrix.columns // 2), "uint8"),
            Part("weight_scale", (matrix.rows, blocks), "fp8_e4m3"),
            Part(self.global_scale, single, "fp32"),
        )
        return (*parts, Part(self.activation, single, "fp32")) if self.activation else parts


def mxfp4_scheme() -> Scheme:
    """gpt-oss's own: fused experts in MXFP4, everything else in the model's format."""
    layout = MicroBlocks(packed="blocks", scale="scales", nested=True)
    return Scheme(method="mxfp4", name="mxfp4", layout=layout, roles=("expert",))


def nvfp4_scheme() -> Scheme:
    """NVFP4 on every linear module but the head, with static activation scales."""
    return Scheme(method="modelopt", name="nvfp4", layout=Nvfp4())


def read_mxfp4(keys: Keys) -> Scheme:
    """The scheme of an `mxfp4` configuration. Raises `InputErrors`."""
    skipped = keys.names("modules_to_not_convert")
    dequantize = keys.flag("dequantize")
    keys.ignore("quant_method")
    keys.done()
    scheme = mxfp4_scheme()
    rules = (keys.rule("module", "modules_to_not_convert", skipped),) if skipped else ()
    return msgspec.structs.replace(scheme, rules=rules, layout=None if dequantize else scheme.layout)
