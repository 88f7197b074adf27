"""How measured cases write the settings of a training, read into those of a recipe.

Every function takes the value as the case has it, and gives None where it says nothing; what it says and no recipe
has raises `InputError` with the reason.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

from capienza.errors import InputError, phrase
from capienza.recipe.recipe import Checkpointing, Dtype, Family, Loss
from capienza.validate import training_reasons as reasons
from capienza.validate.row_check import shown

MOST = 2**26
COUNT = phrase("a whole number of at least 1")
_NUMBER = re.compile(r"\d+", re.ASCII)
_BOUND = re.compile(r"max_seq_length\s+(\d+)|<=?\s*(\d+)|up to (\d+)", re.ASCII)
_EXACT = re.compile(r"\s*(\d+)(\s+tokens)?\s*", re.ASCII)
DTYPES: tuple[tuple[str, Dtype], ...] = (
    (r"bf16|bfloat16", "bf16"), (r"fp16|float16|\bhalf\b", "fp16"), (r"fp32|float32|tf32", "fp32"),
)  # fmt: skip
NOTHING = ("", "none", "null", "no", "false", "off", "default", "model default", "unspecified")


def text(value: Any) -> str:
    """A value in lower case; empty where it says nothing."""
    said = str(value).strip().lower() if isinstance(value, str | bool | int | float) else ""
    return "" if said in ("null", "unspecified", "default", "model default") else said


def count(key: str, value: Any, least: int = 1) -> int | None:
    """A whole number, as a number or as its digits. Raises `InputError` for any other value."""
    if value is None or value == "":
        return None
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit():
        value = int(value.strip()[:12])
    is_whole = isinstance(value, int | float) and not isinstance(value, bool) and value == value // 1
    if not is_whole or not least <= value <= MOST:
        raise InputError(reasons.BAD_VALUE(key=key, found=shown(value), accepted=COUNT))
    return int(value)


def length(value: Any) -> tuple[int | None, bool]:
    """Tokens of a sequence, and whether that is what was run: "max_seq_length 2048" only bounds it."""
    if isinstance(value, str):
        if exact := _EXACT.fullmatch(value):
            return count("seq_len", exact[1]), True
        if bound := _BOUND.search(value):
            return count("seq_len", next(filter(None, bound.groups()))), False
        return None, False
    return count("seq_len", value), True


def dtype(value: Any) -> Dtype | None:
    """The first number format that a text names."""
    said = text(value)
    found = [(match.start(), name) for pattern, name in DTYPES if (match := re.search(pattern, said))]
    return min(found)[1] if found else None


def quantised(value: Any) -> str | None:
    """The format of quantised linear modules that a text names, by its name on a card."""
    said = text(value)
    if "gptq" in said:
        bits = re.search(r"int(\d)", said)
        group = re.search(r"g(?:roup)?[ _-]?(\d+)", said)
        return f"gptq-int{bits[1] if bits else 4}-g{group[1] if group else 128}"
    if "awq" in said:
        return "awq-int4-g128"
    if re.search(r"nf4|4[- ]?bit|fp4", said):
        kind = "fp4" if "fp4" in said else "nf4"
        if "torchao" in said:
            raise InputError(reasons.OTHER_WEIGHTS(found=said[:60]))
        is_double = re.search(r"(?<!no )(double|-dq|\bdq)", said) is not None
        return f"{kind}_double" if is_double else kind
    return "int8" if re.search(r"int8|8[- ]?bit", said) else None


def attention(value: Any) -> str | None:
    """The implementation that a text names first."""
    said = text(value)
    words = {
        r"sdpa|flex": "sdpa", r"eager|materiali": "eager", r"xformers": "xformers",
        r"flash[_ -]?attention[_ -]?3|fa3": "flash_attention_3", r"flash|fa2": "flash_attention_2",
    }  # fmt: skip
    found = [(match.start(), name) for pattern, name in words.items() if (match := re.search(pattern, said))]
    return min(found)[1] if found else None


def checkpointing(value: Any) -> Checkpointing | None:
    """What of the forward pass is kept; whether reentrant is the framework's habit unless the text says it."""
    said = text(value)
    if not said:
        return None
    if said.startswith(("none", "false", "no", "off")):
        return Checkpointing(kind="none")
    if "select" in said:
        return Checkpointing(kind="selective")
    if "unsloth" in said or "offload" in said:
        return Checkpointing(kind="offload")
    return Checkpointing(kind="full", is_reentrant="reentrant" in said and "non-reentrant" not in said)


def loss(value: Any, *, widens: bool) -> Loss | None:
    """How logits become a loss, as far as a text says it; `widens`: the framework computes it in fp32 unless told."""
    said = text(value)
    if not said or said.endswith(": []"):
        return None
    if re.search(r"liger|fused[- ]linear|cut[- ]cross|flce|\bcce\b", said):
        return Loss(kind="fused_linear", widens=False)
    if "unsloth" in said:
        return Loss(kind="fused_linear", widens=False)
    if "chunk" in said and not said.startswith("full"):
        parts = re.search(r"(?:chunk\w*[ _]size|chunk|ce)\s+(\d+)", said) or re.search(r"ce (\d+)", said)
        return Loss(kind="chunked", widens="fp32" in said, chunk_tokens=int(parts[1]) if parts else None)
    if "fused" in said:
        return Loss(kind="fused", widens=widens)
    return Loss(kind="full", widens=widens or "fp32" in said, shifts="shift" in said)


def family(value: Any) -> Family | None:
    """The kind of optimizer. Raises `InputError` for one that no recipe has."""
    said = text(value)
    if not said or said.startswith("see "):
        return None
    order: tuple[tuple[str, Family], ...] = (
        ("galore", "galore_adamw"), ("apollo", "apollo_adamw"), ("adafactor", "adafactor"), ("adagrad", "adagrad"),
        ("rmsprop", "rmsprop"), ("muon", "muon"), ("lion", "lion"), ("adamw", "adamw"), ("adam", "adam"),
        ("sgd", "sgd"),
    )  # fmt: skip
    if re.search(r"badam|lomo|lisa|lora-fa|sophia|shampoo|schedule", said) or (" / " in said and " vs " not in said):
        raise InputError(reasons.OTHER_OPTIMIZER(found=said[:60]))
    for word, name in order:
        if word in said:
            return name
    raise InputError(reasons.OTHER_OPTIMIZER(found=said[:60]))


def names(value: Any) -> tuple[str, ...]:
    """Names of modules from a list, the text of a list, or a pattern with alternatives; "all-linear" stands alone."""
    if isinstance(value, str):
        if re.search(r"all[- _]?linear", value, re.IGNORECASE):
            return ("all-linear",)
        if value.strip().startswith("["):
            try:
                value = ast.literal_eval(value.strip()[:2000])
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                return ()
        elif pattern := re.search(r"\(([\w|]+)\)_proj", value):
            return tuple(f"{part}_proj" for part in pattern[1].split("|"))
        else:
            return (value.split(" ")[0],) if value.strip() else ()
    if not isinstance(value, list | tuple):
        return ()
    return tuple(part for part in value[:64] if isinstance(part, str) and part)


def number(value: Any, most: float = MOST) -> float | None:
    """A number of at least 0 and below `most`, as a number or as its digits."""
    try:
        read = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else None
    except (ValueError, OverflowError):
        return None
    return read if read is not None and 0 <= read < most else None


def version_of(library: str, said: Any) -> tuple[int, int] | None:
    """Major and minor version of a library in a text such as "torch 2.4.1, transformers ~4.36"."""
    found = re.search(rf"\b{library}\s*(?:git\s+)?[~>=]*\s*v?(\d+)\.(\d+)", text(said))
    return (int(found[1][:6]), int(found[2][:6])) if found else None


PACKAGES = ("torch", "transformers", "trl", "peft", "accelerate", "bitsandbytes", "deepspeed", "torchao", "unsloth")


def libraries(said: Any) -> tuple[tuple[str, str], ...]:
    """The releases that a text such as "torch 2.4.1, transformers ~4.36" names, by package."""
    found = []
    for package in PACKAGES:
        match = re.search(rf"\b{package}\s*[~>=]*\s*v?(\d+(?:\.\d+)+)", text(said))
        if match:
            found.append((package, match[1][:20]))
    return tuple(found)


def lora_of(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """The adapters of a case, empty where it states none."""
    lora = row.get("lora")
    return lora if isinstance(lora, Mapping) else {}
