"""vLLM's documented hardware, release by release, as rules: a second and weaker source than its code.

A table has one line a method and one column a family of GPUs. A method may stand on several lines (FP8 in W8A8, and
weight-only by Marlin): a GPU is documented as not supported when every line of the method says no; when only the line
of the faster way says no, the method is slower there. There is no column for Blackwell or for anything older than
Volta, so nothing is documented of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from capienza.catalog.devices import Row, table
from capienza.catalog.release import parse_release
from capienza.catalog.rules import NONE_OF_VENDOR, Rule

COLUMNS = {
    "volta_7.0": ("7.0",),
    "turing_7.5": ("7.5",),
    "ampere_8.0_8.6": ("8.0", "8.6"),
    "ada_8.9": ("8.9",),
    "hopper_9.0": ("9.0",),
}
MARLIN = "Marlin (GPTQ/AWQ/FP8)"
METHODS = {
    "awq": ("AWQ", MARLIN),
    "gptq": ("GPTQ", MARLIN, "BitBLAS (GPTQ)"),
    "fp8": ("FP8", "FP8 (W8A8)", MARLIN, "FP8 (W8A16, Marlin)"),
    "ct-w8a8-int8": ("INT8 (W8A8)",),
    "bnb": ("bitsandbytes",),
    "gguf": ("GGUF",),
    "aqlm": ("AQLM",),
    "deepspeedfp": ("DeepSpeedFP",),
}
KINDS = {"bnb": ("bnb-int8", "bnb-4bit"), "fp8": ("fp8", "ct-w8a8-fp8")}
"""Kinds of weights that a method stands for, where they are not of its own name."""
FASTER = {"fp8": "FP8 (W8A8)"}
"""The line of the way that computes in the format itself."""


def documented_rules() -> Iterator[Rule]:
    """The rules of every table, oldest release first."""
    releases: dict[str, dict[str, Row]] = {}
    for row in table("vllm_quant_hw.csv"):
        releases.setdefault(row["vllm_docs_version"], {})[row["method"]] = row
    for version, lines in releases.items():
        for method, names in METHODS.items():
            found = [lines[name] for name in names if name in lines]
            # The line of Marlin alone documents no method that has a line of its own.
            if any(row["method"] != MARLIN for row in found):
                yield from _of_method(version, method, found)


def _of_method(version: str, method: str, lines: list[Row]) -> Iterator[Rule]:
    fast = [row for row in lines if row["method"] == FASTER.get(method)]
    yield _rule(version, method, lines, "")
    if any(row["amd_gpu"] for row in lines):
        yield _amd(version, method, lines)
    if fast:
        yield _rule(version, method, fast, ".compute")


def _rule(version: str, method: str, lines: list[Row], suffix: str) -> Rule:
    said = {
        capability: [row[column] for row in lines if row[column]]
        for column, capabilities in COLUMNS.items()
        for capability in capabilities
    }
    documented = tuple(capability for capability, words in said.items() if words)
    return Rule(
        id=f"vllm.docs.{version}.{method}{suffix}",
        software="vllm",
        source=lines[0]["source"],
        violation="slower" if suffix else "refused",
        first=_release(version),
        last=_release(version),
        subjects=_subjects(method),
        vendor="NVIDIA",
        documented=() if suffix else documented,
        refused_on=tuple(capability for capability in documented if "yes" not in said[capability]),
        note=lines[0]["note"],
    )


def _amd(version: str, method: str, lines: list[Row]) -> Rule:
    is_supported = any(row["amd_gpu"] == "yes" for row in lines)
    return Rule(
        id=f"vllm.docs.{version}.{method}.amd",
        software="vllm",
        source=lines[0]["source"],
        violation="refused",
        first=_release(version),
        last=_release(version),
        subjects=_subjects(method),
        vendor="AMD",
        gfx=() if is_supported else (NONE_OF_VENDOR,),
    )


def _subjects(method: str) -> tuple[str, ...]:
    return tuple(f"weights:{kind}" for kind in KINDS.get(method, (method,)))


def _release(version: str) -> tuple[int, ...] | None:
    release = parse_release(version)
    return None if release is None else release[:2]
