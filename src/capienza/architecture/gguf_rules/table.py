"""One row for each GGUF architecture name: which blocks are windowed, recurrent, latent, or share a cache.

Legend: window the tokens a block looks back to; `full_every` = n: one block in n sees everything.
Source of every row: llama.cpp at 0c1e57098, `load_arch_hparams` of the model's own file and `create_memory`.
An architecture that keeps K and V in full in every block has no more than its name here (`FULL`).
Sizes follow the engine, not the paper: a window that llama.cpp ignores (llama, qwen2, phi3) is not applied.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from capienza.architecture.model import StateKind


class Windows(msgspec.Struct, frozen=True, kw_only=True):
    """Which attention blocks are windowed, and how far they look back.

    `full_every` None: the file must list the blocks itself; 0: every attention block is windowed.
    `absent` is the window when the key is missing (None: an error; 0: then nothing is windowed), `zero_is_full`
    accepts a written 0, `always` replaces any other value, `only_blocks` limits the rule to one model size.
    """

    full_every: int | None = None
    full_first: bool = False
    absent: int | None = None
    zero_is_full: bool = False
    always: int | None = None
    only_blocks: int | None = None
    kind: Literal["sliding", "chunked"] = "sliding"


class Recurrence(msgspec.Struct, frozen=True, kw_only=True):
    """Which blocks keep a recurrent state, of what shape.

    `where`: "all" blocks; those "without_kv" heads; those without KV heads and feed-forward ("without_both", the
    feed-forward blocks then keep nothing); or all but every `full_every`-th, unless the file lists them ("rest").
    """

    kind: StateKind
    shape: Literal["ssm", "shortconv", "rwkv", "kda", "lightning"] = "ssm"
    where: Literal["all", "without_kv", "without_both", "rest"] = "without_kv"
    full_every: int = 4
    beside_attention: bool = False


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """How one architecture departs from plain attention in every block.

    `own_cache_blocks` is the number of leading blocks with a cache of their own (the rest read an earlier one);
    `shared_key` takes it from `attention.shared_kv_layers`. `may_be_latent`: K only, when the file has MLA keys.
    """

    windows: Windows | None = None
    recurrence: Recurrence | None = None
    own_cache_blocks: int | None = None
    shared_key: bool = False
    may_be_latent: bool = False

    @property
    def never_attends(self) -> bool:
        """True when no block has attention heads."""
        recurrence = self.recurrence
        return recurrence is not None and recurrence.where == "all" and not recurrence.beside_attention


PLAIN = Rule()
LISTED = Rule(windows=Windows())
LATENT = Rule(may_be_latent=True)
RWKV = Rule(recurrence=Recurrence(kind="rwkv", shape="rwkv", where="all"))
MAMBA2_REST = Rule(recurrence=Recurrence(kind="mamba2"))
GATED_DELTA = Rule(recurrence=Recurrence(kind="gated_delta", where="rest"))
KDA = Rule(recurrence=Recurrence(kind="linear", shape="kda"), may_be_latent=True)


def _optional(full_every: int, *, full_first: bool = False, always: int | None = None) -> Rule:
    """Windowed only when the file states a window above 0."""
    windows = Windows(full_every=full_every, full_first=full_first, absent=0, zero_is_full=True, always=always)
    return Rule(windows=windows)


FULL = (  # bitnet-25 is the name of ik_llama.cpp for bitnet
    "apertus", "arcee", "arctic", "baichuan", "bailingmoe", "bailingmoe2", "bitnet", "bitnet-25", "bloom",
    "chameleon", "chatglm", "codeshell", "cogvlm", "command-r", "dbrx", "deci", "deepseek", "deepseek2-ocr",
    "dots1", "ernie4_5", "ernie4_5-moe", "exaone", "falcon", "gemma", "glm4", "glm4moe", "gpt2", "gptj",
    "gptneox", "granite", "granitemoe", "grok", "grovemoe", "hunyuan-dense", "hunyuan-moe", "hunyuan_vl", "hy_v3",
    "internlm2", "jais", "jais2", "llama", "maincoder", "minicpm", "minicpm3", "minimax-m2", "mistral3", "mpt",
    "nemotron", "olmo", "olmoe", "openelm", "orion", "paddleocr", "pangu-embedded", "phi2", "phi3", "phimoe",
    "plamo", "plm", "qwen", "qwen2", "qwen2moe", "qwen2vl", "qwen3", "qwen3moe", "qwen3vl", "qwen3vlmoe",
    "refact", "seed_oss", "smollm3", "stablelm", "starcoder", "starcoder2", "talkie", "xverse",
)  # fmt: skip

RULES: dict[str, Rule] = {
    **dict.fromkeys(FULL, PLAIN),
    # windows
    "afmoe": _optional(4),
    "cohere2": Rule(windows=Windows(full_every=4)),
    "cohere2moe": Rule(windows=Windows(full_every=4, full_first=True)),
    "exaone-moe": Rule(windows=Windows(full_every=4)),
    "exaone4": Rule(windows=Windows(full_every=4, absent=4096, only_blocks=64)),
    "gemma2": Rule(windows=Windows(full_every=2, absent=4096)),
    "gemma3": _optional(6),
    "gemma3n": Rule(windows=Windows(full_every=5), own_cache_blocks=20),
    "gemma4": Rule(windows=Windows(), shared_key=True),
    "gpt-oss": Rule(windows=Windows(full_every=2)),
    "granite_swa": LISTED,
    "laguna": _optional(4, full_first=True),
    "llama4": Rule(
        windows=Windows(full_every=4, absent=8192, zero_is_full=True, always=8192, kind="chunked"),
    ),
    "maple": LISTED,
    "mellum": _optional(4),
    "mimo2": LISTED,
    "muse-glimmer": Rule(windows=Windows(full_every=4)),
    "olmo2": _optional(4),
    "plamo3": _optional(8),
    "smallthinker": _optional(4, full_first=True, always=4096),
    "spark2_5": LISTED,
    "step35": LISTED,
    # latent
    "deepseek2": LATENT,
    "mistral4": LATENT,
    # recurrent
    "arwkv7": RWKV,
    "bailingmoe3": KDA,
    "falcon-h1": Rule(recurrence=Recurrence(kind="mamba2", where="all", beside_attention=True)),
    "granitehybrid": MAMBA2_REST,
    "jamba": Rule(recurrence=Recurrence(kind="mamba")),
    "kimi-k3": KDA,
    "kimi-linear": KDA,
    "lfm2": Rule(
        recurrence=Recurrence(kind="conv", shape="shortconv"),
        windows=Windows(full_every=0, absent=0, zero_is_full=True),
    ),
    "lfm2moe": Rule(recurrence=Recurrence(kind="conv", shape="shortconv")),
    "mamba": Rule(recurrence=Recurrence(kind="mamba", where="all")),
    "mamba2": Rule(recurrence=Recurrence(kind="mamba2", where="all")),
    "minimax-01": Rule(recurrence=Recurrence(kind="linear", shape="lightning", where="rest", full_every=8)),
    "nemotron_h": Rule(recurrence=Recurrence(kind="mamba2", where="without_both")),
    "nemotron_h_moe": Rule(recurrence=Recurrence(kind="mamba2", where="without_both")),
    "plamo2": Rule(recurrence=Recurrence(kind="mamba")),
    "qwen35": GATED_DELTA,
    "qwen35moe": GATED_DELTA,
    "qwen3next": GATED_DELTA,
    "rwkv6": RWKV,
    "rwkv6qwen2": RWKV,
    "rwkv7": RWKV,
}

INDEXED = frozenset({
    "deepseek32", "deepseek4", "dots3note", "glm-dsa", "glm5-next", "hy_v4", "minimax-m3", "qwen4exp",
})  # fmt: skip
"""A cache for the indexer of sparse attention, or compressed copies, beside K and V."""

NOT_GENERATING = frozenset({
    "bert", "dream", "eurobert", "gemma-embedding", "jina-bert-v2", "jina-bert-v3", "llada", "llada-moe",
    "llama-embed", "modern-bert", "neo-bert", "nomic-bert", "nomic-bert-moe", "rnd1", "t5", "t5encoder",
    "wavtokenizer-dec",
})  # fmt: skip
"""Encoders, encoder-decoders and diffusion models: no causal cache to size."""

PARTS = frozenset({"clip", "dflash", "eagle3", "gemma4-assistant", "mmproj", "pockettts", "qwen3tts"})
"""Files that run beside a language model: projectors, draft heads, voices."""
