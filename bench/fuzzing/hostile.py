"""Values that break programs: lengths, scalars, characters."""

from __future__ import annotations

from typing import Any

from fuzzing.trees import Raw

LENGTHS = (
    0, 1, 2, 7, 8, 31, 255, 256, 2**16, 2**20, 2**24, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53, 2**62, 2**63 - 1,
    2**63, 2**64 - 1,
)  # fmt: skip
SCALARS: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 7, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64, 10**18, 10**30, -(10**18),
    0.0, -0.0, 0.1, 0.5, 1.5, 1e-300, 1e300, Raw("1e309"), Raw("-1e999"), Raw("1e-999999999"), Raw("9" * 400),
    Raw("1" + "0" * 5000), Raw("NaN"), Raw("Infinity"), Raw("-Infinity"), Raw("1_000"), Raw("0x10"), Raw("010"),
    Raw("1."), Raw("+1"), Raw("'"), Raw(""), Raw("undefined"), "", " ", "none", "null", "NONE", "~", "true", "0", "-1",
    "1e9", "16e9", "1,5", "1.234,56", "9" * 50, "9" * 5000, "999999999999999999999999 GiB", "1e400 GiB", "24 GB",
    "-1 GB", "8k", "0 GiB", "0.0000000001 GiB", "300 EUR", "-3 USD", "1e500 USD", "NaN USD", "2026-12-07", "2026-02-30",
    "9999-12-31", "0001-01-01", "2026-12-07T25:00:00Z", "2026-12-07T10:00:00+99:99", "2026-12-07T10:00:00",
    "9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00", "Europe/Rome", "../../etc/passwd", "/dev/zero", "C:\\nul",
    "Mars/Olympus", "\x00", "a\x00b", "\x1b[2J\x1b[31mred", "\u202egnp.exe", "\u200b", "\ufeff", "\u2028", "\x85",
    "\r\n",
    "a\nb", "\t", "\u0661\u0662\u0663", "\uff11\uff12", "\U0001f600" * 20, "e\u0301" * 50, "\u0130", "\ufb01", "\ud7ff",
    Raw('"\\ud800"'), Raw('"\\udc00\\ud800"'), Raw('"\\x41"'), Raw('"\\'), "{}", "{0}", "{found}", "%s%n", "$(id)",
    "`id`", "=1+1", "<script>alert(1)</script>", "| a | b |", "x" * 300, "x" * 70_000, "a b " * 5000, "(" * 3000,
    "a" * 40 + "!", "1" * 40 + "x", "- " * 200, "H100 80GB", "A100 MIG 3g.40gb", "rtx" * 60,
)  # fmt: skip
TYPED: tuple[Any, ...] = (
    "llama", "qwen3_moe", "deepseek_v3", "gemma3", "mamba2", "BF16", "F8_E4M3", "F4", "I64", "U64", "BOOL", "bf16",
    "nf4", "fp8_e4m3", "q4_0", "sliding_attention", "full_attention", "fine-tuning", "inference", "bitsandbytes",
    "gptq", "awq", "mxfp4", "total", "per_gpu_hour", "mig", "whole", "model.safetensors", "config.json", "main",
)  # fmt: skip
NASTY = (
    "\x00", "\x1b", "\x7f", "\x85", "\u2028", "\u202e", "\ufeff", "\ud7ff", "\t", "\r", "\n", '"', "'", "\\", "{",
    "}", "[", "]", ":", ",", "#", "&", "*", "!", "|", ">", "%", "@", "`", "- ", ": ", "? ", "---\n", "...\n", "&a ",
    "*a ",
    "<<: ", "!!python/object:os.system ", "!!binary ", "%YAML 1.1\n", "%TAG ! tag:x,2000:\n", ";",
    "\U0001f4a9",
)  # fmt: skip


def encode(text: str) -> bytes:
    """The text with any half surrogates that it holds."""
    return text.encode("utf-8", "surrogatepass")
