"""bitsandbytes: LLM.int8() rows and 4-bit blocks, as transformers 5 applies them.

Legend: n elements, B = 64 elements a block, b = ceil(n / B) blocks. 4 bit: ceil(n / 2) bytes of packed codes,
one fp32 largest magnitude a block, a 16-entry code. With double quantisation the magnitudes become one byte
each, with one fp32 for every 256 of them, one fp32 offset and a 256-entry code:
    nf4         n/2 + 4 b + 64
    nf4 double  n/2 + b + 4 ceil(b / 256) + 4 + 64 + 1024
8 bit: n bytes and one fp32 a row. Only plain linear modules are touched, so experts that transformers 5 fuses
into one tensor stay unquantised (transformers 4, with one module an expert, did quantise them).
Source: bitsandbytes 0.50 functional.quantize_4bit and int8_vectorwise_quant (each state holds its own copy of the
256-entry code; with 0.43 it was shared, which measured trainings show to the byte); transformers 5.24
integrations/bitsandbytes.py, quantizer_bnb_*.py.
"""

from __future__ import annotations

import msgspec

from capienza.formats.keys import Keys
from capienza.formats.layout import LINEAR_ROLES, Matrix, Part, Scheme, ceil_div

BLOCK = 64
NESTED_BLOCK = 256
CODE_ENTRIES = 16
NESTED_CODE_ENTRIES = 256
STORAGE = {
    "uint8": ("uint8", 1),
    "int8": ("int8", 1),
    "float16": ("fp16", 2),
    "bfloat16": ("bf16", 2),
    "float32": ("fp32", 4),
    "float64": ("fp64", 8),
}


class Rows8(msgspec.Struct, frozen=True):
    """LLM.int8(): one byte a weight and one fp32 scale a row."""

    def parts(self, matrix: Matrix) -> tuple[Part, ...]:
        """Weight and row scales."""
        return (Part("weight", (matrix.rows, matrix.columns), "int8"), Part("SCB", (matrix.rows,), "fp32"))


class Blocks4(msgspec.Struct, frozen=True):
    """nf4 or fp4: packed codes in `storage` words, with their scales in fp32 or quantised once more."""

    kind: str
    double: bool
    storage: str = "uint8"

    def parts(self, matrix: Matrix) -> tuple[Part, ...]:
        """Codes, scales and code tables."""
        elements = matrix.rows * matrix.columns
        dtype, size = STORAGE[self.storage]
        words = matrix.groups(2 * size, f"4 bit {self.storage}", elements + elements % 2)
        blocks = ceil_div(elements, BLOCK)
        code = Part("weight.quant_map", (CODE_ENTRIES,), "fp32")
        packed = Part("weight", (words, 1), dtype)
        if not self.double:
            return (packed, Part("weight.absmax", (blocks,), "fp32"), code)
        return (
            packed,
            Part("weight.absmax", (blocks,), "uint8"),
            Part("weight.nested_absmax", (ceil_div(blocks, NESTED_BLOCK),), "fp32"),
            Part("weight.nested_offset", (), "fp32"),
            code,
            Part("weight.nested_quant_map", (NESTED_CODE_ENTRIES,), "fp32"),
        )


def bitsandbytes_8bit() -> Scheme:
    """LLM.int8() made while loading: every linear module but the head."""
    return Scheme(method="bitsandbytes", name="int8", layout=Rows8(), fused_experts=False, conv1d=True)


def bitsandbytes_4bit(kind: str, double: bool) -> Scheme:
    """nf4 or fp4 made while loading: every linear module but the head."""
    name = f"{kind}_double" if double else kind
    return Scheme(method="bitsandbytes", name=name, layout=Blocks4(kind, double), fused_experts=False, conv1d=True)


def read_bitsandbytes(keys: Keys) -> Scheme:
    """The scheme of a bitsandbytes configuration. Raises `InputErrors`."""
    eight = keys.flag("load_in_8bit", keys.flag("_load_in_8bit"))
    four = keys.flag("load_in_4bit", keys.flag("_load_in_4bit"))
    if eight == four:
        keys.refuse("load_in_4bit", four, ("load_in_4bit: true", "load_in_8bit: true"))
    kind = keys.word("bnb_4bit_quant_type", ("fp4", "nf4"), "fp4")
    double = keys.flag("bnb_4bit_use_double_quant")
    storage = keys.word("bnb_4bit_quant_storage", STORAGE, "uint8")
    sixteen = keys.flag("llm_int8_has_fp16_weight")
    skipped = keys.names("llm_int8_skip_modules")
    keys.ignore("quant_method", "llm_int8_threshold", "llm_int8_enable_fp32_cpu_offload", "bnb_4bit_compute_dtype")
    keys.done()
    scheme = bitsandbytes_4bit(kind, double) if four else bitsandbytes_8bit()
    if four:
        scheme = msgspec.structs.replace(scheme, layout=Blocks4(kind, double, storage))
    elif sixteen:
        scheme = msgspec.structs.replace(scheme, layout=None)
    if skipped is None:
        return scheme
    rule = keys.rule("module", "llm_int8_skip_modules", skipped)
    # transformers lets an explicit list replace its default one, which is the head.
    return msgspec.structs.replace(scheme, rules=(rule,), roles=(*LINEAR_ROLES, "head"))
