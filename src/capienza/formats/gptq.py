"""GPTQ and AWQ: integer weights packed into 32-bit words, with a scale and a zero point for each group.

Legend: R rows (output), C columns (input), b bits, G = C / g groups (1 when there is no group size).
    gptq  qweight (C b / 32, R) + qzeros (G, R b / 32) + scales fp16 (G, R) + g_idx int32 (C)
    awq   qweight (C, R b / 32) + qzeros (G, R b / 32) + scales fp16 (G, R)
so 4 bits with groups of 128 take 4 + 20/128 bits a weight, and GPTQ 4 bytes more for each input feature.
Only the linear modules inside the decoder's blocks are quantised. Zero points are stored for symmetric weights too.
Source: AutoGPTQ and GPTQModel quantised linear modules; AutoAWQ's GEMM module; transformers 5.24 GPTQConfig and
AwqConfig; "Qwen-14B-Chat-Int4" and CodeLlama-34B-AWQ as measured in vLLM.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from capienza.formats.keys import Keys
from capienza.formats.layout import DECODER_ROLES, Matrix, Part, Rule, Scheme, ceil_div

WORD_BITS = 32
GPTQ_BITS = (2, 3, 4, 8)
GROUP_DEFAULT = 128
NO_EFFECT = (
    "quant_method",
    "act_group_aware",
    "backend",
    "batch_size",
    "block_name_to_quantize",
    "cache_block_outputs",
    "damp_auto_increment",
    "damp_percent",
    "dataset",
    "disable_exllama",
    "exllama_config",
    "hyb_act",
    "max_input_length",
    "meta",
    "model_file_base_name",
    "model_name_or_path",
    "model_seqlen",
    "module_name_preceding_first_block",
    "mse",
    "pad_token_id",
    "parallel_packing",
    "static_groups",
    "tokenizer",
    "true_sequential",
    "use_cuda_fp16",
    "use_exllama",
    "v2",
    "v2_alpha",
)
"""Keys about how a checkpoint was made or is run, not about what it stores."""


class Gptq(msgspec.Struct, frozen=True):
    """GPTQ: `group` None is one scale for each output feature."""

    bits: int
    group: int | None

    def parts(self, matrix: Matrix) -> tuple[Part, ...]:
        """Packed weight, packed zero points, scales and the group of each input feature."""
        method = f"gptq {self.bits} bit"
        groups = 1 if self.group is None else ceil_div(matrix.columns, self.group)
        return (
            Part("qweight", (matrix.groups(WORD_BITS, method) * self.bits, matrix.rows), "int32"),
            Part("qzeros", (groups, matrix.groups(WORD_BITS, method, matrix.rows) * self.bits), "int32"),
            Part("scales", (groups, matrix.rows), "fp16"),
            Part("g_idx", (matrix.columns,), "int32"),
        )


class Awq(msgspec.Struct, frozen=True):
    """AWQ's GEMM packing: 4 bits, eight outputs a word."""

    group: int | None

    def parts(self, matrix: Matrix) -> tuple[Part, ...]:
        """Packed weight, packed zero points and scales."""
        groups = 1 if self.group is None else matrix.groups(self.group, f"awq g{self.group}")
        words = matrix.groups(WORD_BITS // 4, "awq 4 bit", matrix.rows)
        return (
            Part("qweight", (matrix.columns, words), "int32"),
            Part("qzeros", (groups, words), "int32"),
            Part("scales", (groups, matrix.rows), "fp16"),
        )


def gptq_scheme(bits: int, group: int | None) -> Scheme:
    """GPTQ on the decoder's linear modules."""
    return Scheme(
        method="gptq", name=_name("gptq", bits, group), layout=Gptq(bits, group), roles=DECODER_ROLES, conv1d=True
    )


def awq_scheme(group: int | None) -> Scheme:
    """AWQ on the decoder's linear modules."""
    return Scheme(method="awq", name=_name("awq", 4, group), layout=Awq(group), roles=DECODER_ROLES)


def read_gptq(keys: Keys) -> Scheme:
    """The scheme of a `gptq` configuration. Raises `InputErrors`."""
    bits = keys.integer("bits", GPTQ_BITS)
    group = keys.group("group_size", GROUP_DEFAULT)
    for key in ("desc_act", "sym", "is_marlin_format"):
        if keys.flag(key) and key == "is_marlin_format":
            keys.refuse(key, True, ("false",))
    for key in ("checkpoint_format", "format"):
        keys.word(key, ("gptq", "gptq_v2"), "gptq")
    keys.word("pack_dtype", ("int32",), "int32")
    head = keys.flag("lm_head")
    listed = _listed(keys)
    rules = _dynamic(keys, bits, group)
    keys.ignore(*NO_EFFECT)
    keys.done()
    scheme = gptq_scheme(bits, group)
    roles = scheme.roles
    if listed is not None:
        rules = (*rules, keys.rule("suffix", "modules_in_block_to_quantize", listed, scheme.layout))
        roles = ()
    return msgspec.structs.replace(scheme, rules=rules, roles=(*roles, "head") if head else roles)


def read_awq(keys: Keys) -> Scheme:
    """The scheme of an `awq` configuration. Raises `InputErrors`."""
    for key in ("bits", "w_bit"):
        if key in keys.config or key == "bits":
            keys.integer(key, (4,), None if key == "bits" and "w_bit" not in keys.config else 4)
    group = keys.group("group_size", GROUP_DEFAULT)
    other = keys.group("q_group_size", group)
    if other != group and keys.config.get("group_size") is not None:
        keys.refuse("q_group_size", keys.config["q_group_size"], (f"group_size: {keys.config['group_size']}",))
    group = other
    for key in ("version", "format"):
        keys.word(key, ("gemm",), "gemm")
    keys.flag("zero_point")
    skipped = keys.names("modules_to_not_convert")
    keys.ignore(*NO_EFFECT, "do_fuse", "fuse_max_seq_len", "modules_to_fuse", "desc_act", "sym")
    keys.done()
    rules = (keys.rule("module", "modules_to_not_convert", skipped),) if skipped else ()
    return msgspec.structs.replace(awq_scheme(group), rules=rules)


def _listed(keys: Keys) -> tuple[str, ...] | None:
    """The suffixes that optimum's `modules_in_block_to_quantize` lists, one level of lists flattened."""
    found = keys.raw("modules_in_block_to_quantize")
    if found is None:
        return None
    flat = [name for item in found for name in (item if isinstance(item, list) else [item])] if isinstance(
        found, list
    ) else None  # fmt: skip
    if flat is None or not all(isinstance(name, str) for name in flat):
        keys.refuse("modules_in_block_to_quantize", found, ('[["...", ...], ...]',))
        return None
    return tuple(flat)


def _dynamic(keys: Keys, bits: int, group: int | None) -> tuple[Rule, ...]:
    """GPTQModel's overrides: "-:expression" leaves modules alone, any other changes their bits or group."""
    rules = []
    for pattern, override in (keys.mapping("dynamic") or {}).items():
        path = f"{keys.path}.dynamic.{str(pattern)[:64]}"
        expression = str(pattern).removeprefix("-:").removeprefix("+:")
        if str(pattern).startswith("-:"):
            rules.append(keys.rule("regex", "dynamic", (expression,)))
            continue
        inner = Keys(_mapping_or_empty(keys, override), keys.file, "gptq dynamic", path)
        layout = Gptq(inner.integer("bits", GPTQ_BITS, bits), inner.group("group_size", group))
        inner.ignore("desc_act", "sym", "mse", "damp_percent", "static_groups")
        inner.done()
        rules.append(keys.rule("regex", "dynamic", (expression,), layout))
    return tuple(rules)


def _mapping_or_empty(keys: Keys, found: Any) -> Mapping[str, Any]:
    if isinstance(found, Mapping):
        return found
    keys.refuse("dynamic", found, ('{"-:...": {...}}',))
    return {}


def _name(method: str, bits: int, group: int | None) -> str:
    return f"{method}-int{bits}" if group is None else f"{method}-int{bits}-g{group}"
