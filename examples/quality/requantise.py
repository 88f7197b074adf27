"""Make two files of one GGUF file: the reference in Q8_0, and one that is harmed on purpose.

    python examples/quality/requantise.py SOURCE.gguf reference.gguf            every matrix in Q8_0
    python examples/quality/requantise.py SOURCE.gguf harmed.gguf --bits 2      rounded to 2 bits in blocks of 32 first
    python examples/quality/requantise.py SOURCE.gguf candidate.gguf --bits 4

A file with --bits is stored in Q8_0 as well, so that the three differ in their values alone. The reference is what
SOURCE holds, in 8 bits: from a Q4_1 file it is no better than that. Needs the package gguf.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter, LlamaFileType, dequantize, quantize

BLOCK = 32


def rounded(values: numpy.ndarray, bits: int) -> numpy.ndarray:
    """The values on a grid of 2^bits steps between the least and the largest of each block."""
    blocks = values.reshape(-1, BLOCK)
    low, high = blocks.min(axis=1, keepdims=True), blocks.max(axis=1, keepdims=True)
    step = numpy.maximum(high - low, 1e-12) / (2**bits - 1)
    return (numpy.round((blocks - low) / step) * step + low).reshape(values.shape).astype(numpy.float32)


def rewrite(source: Path, target: Path, bits: int | None) -> None:
    """Copy the file's metadata; turn its matrices into Q8_0, rounded before where bits are given."""
    reader = GGUFReader(source)
    writer = GGUFWriter(target, str(reader.fields["general.architecture"].contents()))
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        if name == "general.file_type":
            writer.add_file_type(LlamaFileType.MOSTLY_Q8_0)
            continue
        kind = field.types[0]
        writer.add_key_value(name, field.contents(), kind, field.types[-1] if kind == GGUFValueType.ARRAY else None)
    for tensor in reader.tensors:
        if len(tensor.shape) < 2:
            writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
            continue
        values = dequantize(tensor.data, tensor.tensor_type)
        values = rounded(values, bits) if bits else values
        writer.add_tensor(tensor.name, quantize(values, GGMLQuantizationType.Q8_0), raw_dtype=GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--bits", type=int, choices=range(1, 8))
    given = parser.parse_args()
    rewrite(given.source, given.target, given.bits)
