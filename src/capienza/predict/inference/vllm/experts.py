"""How vLLM pads MXFP4 experts for its kernels.

Legend: H hidden size, I width of an expert. Marlin (cards before compute capability 9) pads H to 256 and I to 128,
the Triton kernels of later cards pad one side to 256. Biases and scales follow.
    gpt-oss: 2880 becomes 3072 and 2944, 1.090 times the bytes; 65.97 GiB of gpt-oss-120b is met exactly
Source: `quantization/mxfp4.py` of 0.11.2, and the logged weights of gpt-oss.
"""

from __future__ import annotations

from capienza.architecture.model import Parameter
from capienza.predict.inference.serving import Serving

MARLIN_NAMES = ("a100", "a800", "a10", "a30", "a40", "a2", "a16", "a6000", "a5000", "a4000", "rtx 30", "rtx 40",
                "3090", "4090", "l4", "l40", "ada", "t4")  # fmt: skip


def padded_bytes(serving: Serving, parameter: Parameter, size_bytes: int) -> int:
    """Bytes of a parameter after padding; only experts in MXFP4 change."""
    is_mxfp4 = serving.scheme is not None and serving.scheme.method == "mxfp4"
    if not is_mxfp4 or parameter.role != "expert" or len(parameter.shape) != 3:
        return size_bytes
    hidden = serving.architecture.hidden_size
    width = _expert_width(parameter, hidden)
    if _is_marlin(serving.gpu):
        return size_bytes * _up(hidden, 256) * _up(width, 128) // (hidden * width)
    return size_bytes * _up(width, 256) // width


def _expert_width(parameter: Parameter, hidden: int) -> int:
    _, rows, columns = parameter.shape
    other = columns if rows == hidden else rows
    return other // 2 if "gate_up" in parameter.name else other


def _is_marlin(gpu: str) -> bool:
    return any(name in gpu.lower() for name in MARLIN_NAMES)


def _up(count: int, multiple: int) -> int:
    return -(-count // multiple) * multiple
