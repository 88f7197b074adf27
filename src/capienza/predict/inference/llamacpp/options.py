"""The engine options of a card, as llama.cpp's own command line spells them, as a runtime.

Legend: names may have dashes or underscores, with or without leading dashes. Of a server that is not told the number of
sequences, four share one cache. Options that move no memory are listed as such; any other one is named in the answer.
Source: common/arg.cpp and tools/server of llama.cpp at 0c1e57098.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from capienza.errors import InputError, Message, Place, template
from capienza.formats.blocks import BLOCKS
from capienza.predict.inference.llamacpp.backend import CPU
from capienza.predict.inference.llamacpp.model import LlamaModel
from capienza.predict.inference.llamacpp.rules import era_of
from capienza.predict.inference.llamacpp.runtime import ALL_LAYERS, LlamaRuntime

BAD_VALUE = template(
    "predict.llamacpp-option",
    "found {found}; accepted: {accepted}",
    "correct the value of this engine option, or leave it out",
)
NOT_UNDERSTOOD = template(
    "predict.llamacpp-options-not-understood",
    "these options of llama.cpp may hold memory elsewhere, and are not understood: {options}",
    "compare with the buffers that the engine prints when it starts, or leave them out of the card",
)
TWICE = template(
    "predict.llamacpp-option-twice",
    "{one} and {other} are the same option of llama.cpp",
    "keep the one that the run is started with",
)
NEEDS_FLASH = template(
    "predict.llamacpp-needs-flash-attention",
    "a V cache of {found} needs flash attention, which is off: llama.cpp refuses to start",
    "set flash_attn to on or auto, or leave cache_type_v at f16",
)
SERVER_SEQUENCES = 4
NO_DEVICE = "none"
CACHE_TYPES = {
    "f32": "fp32", "f16": "fp16", "bf16": "bf16", "q8_0": "q8_0", "q5_1": "q5_1", "q5_0": "q5_0", "q4_1": "q4_1",
    "q4_0": "q4_0", "iq4_nl": "iq4_nl",
}  # fmt: skip
ALIASES = {
    "b": "batch_size", "n_batch": "batch_size", "ub": "ubatch_size", "n_ubatch": "ubatch_size", "c": "ctx_size",
    "n_ctx": "ctx_size", "np": "parallel", "n_parallel": "parallel", "n_seq_max": "parallel", "kvu": "kv_unified",
    "ctk": "cache_type_k", "ctv": "cache_type_v", "fa": "flash_attn", "ngl": "n_gpu_layers",
    "gpu_layers": "n_gpu_layers", "sm": "split_mode", "ts": "tensor_split", "mg": "main_gpu", "cmoe": "cpu_moe",
    "ncmoe": "n_cpu_moe", "ot": "override_tensor", "kvo": "kv_offload", "spec_draft_n_max": "draft_max",
    "embedding": "embeddings", "dev": "device",
}  # fmt: skip
NEGATED = {
    "nkvo": "kv_offload", "no_kv_offload": "kv_offload", "no_kvu": "kv_unified", "no_kv_unified": "kv_unified",
    "no_op_offload": "op_offload", "no_mmap": "mmap",
}  # fmt: skip
NEUTRAL = frozenset({
    "alias", "api_key", "cont_batching", "chat_template", "host", "jinja", "min_p", "metrics", "mlock", "port", "prio",
    "seed", "slots", "temp", "temperature", "threads", "threads_batch", "timeout", "top_k", "top_p", "verbose",
})  # fmt: skip


class _Options:
    """The options of a card, taken one by one."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.values: dict[str, Any] = {}
        self.spelt: dict[str, str] = {}
        for name, value in options.items():
            plain = name.strip().lstrip("-").replace("-", "_").casefold()
            key = ALIASES.get(plain, plain)
            if plain in NEGATED:
                key, value = NEGATED[plain], not self.flag_of(name, value)
            if key in self.values:
                raise InputError(TWICE(one=self.spelt[key], other=name), Place(key=f"engine.options.{name}"))
            self.values[key] = value
            self.spelt[key] = name

    def take(self, key: str, read: Callable[[str, Any], Any], default: Any) -> Any:
        """The value of one option, or what the engine uses without it."""
        if key not in self.values:
            return default
        return read(self.spelt[key], self.values.pop(key))

    def count(self, key: str, default: int, *, least: int = 0) -> int:
        """A whole number."""

        def read(name: str, value: Any) -> int:
            if isinstance(value, str) and re.fullmatch(r"-?\d{1,9}", value):
                value = int(value)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise refusal(name, value, f">= {least}")
            return value

        return int(self.take(key, read, default))

    def flag(self, key: str, *, default: bool) -> bool:
        """Yes or no."""
        return bool(self.take(key, self.flag_of, default))

    def word(self, key: str, default: str, accepted: Mapping[str, str]) -> str:
        """One of some words."""

        def read(name: str, value: Any) -> str:
            found = accepted.get(str(value).casefold())
            if found is None:
                raise refusal(name, value, ", ".join(accepted))
            return found

        return str(self.take(key, read, default))

    def numbers(self, key: str) -> tuple[float, ...] | None:
        """Shares, with commas between them."""

        def read(name: str, value: Any) -> tuple[float, ...]:
            parts = re.split(r"[,/]", str(value))
            if not all(re.fullmatch(r"\s*\d{1,9}(\.\d{1,9})?\s*", part) for part in parts):
                raise refusal(name, value, "3,1")
            return tuple(float(part) for part in parts)

        found: tuple[float, ...] | None = self.take(key, read, None)
        return found

    def devices(self, present: tuple[str, ...]) -> tuple[str, ...]:
        """The GPUs that the run may use, out of those that are there (none: not known)."""

        def read(name: str, value: Any) -> tuple[str, ...]:
            names = tuple(part.strip() for part in str(value).split(","))
            if names == (NO_DEVICE,):
                return ()
            is_known = all(names) if not present else set(names) <= set(present)
            if not is_known or len(set(names)) < len(names):
                raise refusal(name, value, ", ".join((NO_DEVICE, *(present or ("CUDA0", "CUDA1")))))
            return names

        found: tuple[str, ...] = self.take("device", read, present)
        return found

    def overrides(self, present: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
        """Patterns with the buffer for the tensors that they match: the host's, or one of the GPUs that are there."""
        buffers = (CPU, *present)

        def read(name: str, value: Any) -> tuple[tuple[str, str], ...]:
            pairs = [part.partition("=") for part in str(value).split(",")]
            if not all(pattern and (buffer in buffers if present else buffer) for pattern, _, buffer in pairs):
                raise refusal(name, value, ", ".join(f"PATTERN={buffer}" for buffer in buffers))
            return tuple((pattern, buffer) for pattern, _, buffer in pairs)

        found: tuple[tuple[str, str], ...] = self.take("override_tensor", read, ())
        return found

    @staticmethod
    def flag_of(name: str, value: Any) -> bool:
        """A flag as it may be written."""
        words = {"true": True, "on": True, "1": True, "": True, "none": True, "false": False, "off": False, "0": False}
        found = words.get(str(value).casefold())
        if found is None:
            raise refusal(name, value, "true, false")
        return found


def refusal(name: str, value: Any, accepted: str) -> InputError:
    """What is wrong with one option."""
    return InputError(BAD_VALUE(found=repr(value)[:80], accepted=accepted), Place(key=f"engine.options.{name}"))


def llama_runtime(
    options: Mapping[str, Any],
    model: LlamaModel,
    *,
    version: str | None = None,
    devices: tuple[str, ...] = (),
    free_bytes: tuple[int, ...] | None = None,
) -> tuple[LlamaRuntime, tuple[Message, ...]]:
    """The runtime that a card's engine options describe, with a note on options that are not understood.

    `devices` are the GPUs by ggml's names, unless the options choose some. Raises `InputError` for a bad value.
    """
    found = _Options(options)
    says_sequences = "parallel" in found.values and found.values["parallel"] not in (-1, "-1")
    if not says_sequences:
        found.values.pop("parallel", None)
    sequences = found.count("parallel", SERVER_SEQUENCES, least=1)
    flash = {"on": "on", "off": "off", "auto": "auto", "true": "on", "false": "off", "1": "on", "0": "off"}
    modes = {"none": "none", "layer": "layer", "row": "row", "tensor": "tensor"}
    all_experts = found.flag("cpu_moe", default=False)
    layers = found.word("n_gpu_layers", str(ALL_LAYERS), _LayerWords())
    runtime = LlamaRuntime(
        devices=found.devices(devices),
        free_bytes=free_bytes,
        n_ctx=found.count("ctx_size", 0),
        n_batch=found.count("batch_size", 2048, least=1),
        n_ubatch=found.count("ubatch_size", 512),
        n_seq_max=sequences,
        kv_unified=found.flag("kv_unified", default=not says_sequences),
        cache_type_k=found.word("cache_type_k", "fp16", CACHE_TYPES),
        cache_type_v=found.word("cache_type_v", "fp16", CACHE_TYPES),
        flash_attn=found.word("flash_attn", "auto", flash),  # type: ignore[arg-type]
        n_gpu_layers=int(layers),
        split_mode=found.word("split_mode", "layer", modes),  # type: ignore[arg-type]
        main_gpu=found.count("main_gpu", 0),
        tensor_split=found.numbers("tensor_split"),
        swa_full=found.flag("swa_full", default=False),
        kv_offload=found.flag("kv_offload", default=True),
        op_offload=found.flag("op_offload", default=True),
        n_cpu_moe=max(found.count("n_cpu_moe", 0), model.blocks if all_experts else 0),
        override_tensor=found.overrides(devices),
        snapshots=found.count("draft_max", 0),
        embeddings=found.flag("embeddings", default=False),
        use_mmap=found.flag("mmap", default=True),
        era=era_of(build_number(version)),
    )
    _check(runtime, found.spelt)
    odd = tuple(found.spelt[key] for key in found.values if key not in NEUTRAL)
    return runtime, (NOT_UNDERSTOOD(options=odd),) if odd else ()


def _check(runtime: LlamaRuntime, spelt: Mapping[str, str]) -> None:
    """Raises `InputError` for options that cannot be together."""
    gpus, shares = len(runtime.devices), runtime.tensor_split or ()
    if gpus and runtime.main_gpu >= gpus:
        raise refusal(spelt["main_gpu"], runtime.main_gpu, ", ".join(str(index) for index in range(gpus)))
    if gpus and len(shares) > gpus:
        names = ",".join(f"N{index}" for index in range(gpus))
        raise refusal(spelt["tensor_split"], ",".join(f"{share:g}" for share in shares), names)
    if BLOCKS[runtime.cache_type_v].elements > 1 and runtime.flash_attn == "off":
        place = Place(key=f"engine.options.{spelt['cache_type_v']}")
        raise InputError(NEEDS_FLASH(found=runtime.cache_type_v), place)


class _LayerWords(dict[str, str]):
    """Accepted numbers of layers: a number, "all" or "auto"."""

    def __init__(self) -> None:
        super().__init__({"all": str(ALL_LAYERS), "auto": str(ALL_LAYERS)})

    def __iter__(self) -> Iterator[str]:
        return iter((">= 0", "all", "auto"))

    def get(self, key: str, default: Any = None) -> Any:
        """The number as text."""
        return key if re.fullmatch(r"-1|\d{1,6}", key) else super().get(key, default)


def build_number(version: str | None) -> int | None:
    """9849 from "b9849" or "9849"; None when the version is no build."""
    match = re.match(r"b?(\d{3,6})(?![\w.])", (version or "").strip())
    return int(match[1]) if match else None
