"""What the frameworks of measured cases do where a case is silent, and the words by which they are known.

Sources: the frameworks' own defaults. HF Trainer clips at 1, walks AdamW by foreach until torch 2.8 and fused from then
on, and puts an attention mask into every batch; PEFT keeps adapters of 16-bit bases in fp32; LitGPT and torchtune keep
them in the format of the base and clip nothing; torchtitan and axolotl set expandable segments; ms-swift leaves out
rows that are too long (`truncation_strategy` is "delete", swift/llm/utils/argument.py of 1.x) and always trains under
autocast, in fp16 where the weights are those of GPTQ. Its 1.x prepares no k-bit base (swift/llm/tuner.py), and puts
its own `checkpoint` in torch's place: without reentrance from torch 2.1 on (`fix_gradient_checkpointing_warning`,
swift/llm/utils/model.py).
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

Kernels = Literal["transformers", "liger", "unsloth", "foak", "litgpt", "torchtune", "torchtitan", "pytorch", "written"]


class Habit(msgspec.Struct, frozen=True, kw_only=True):
    """What one framework does.

    `wide_adapters`: those of a 16-bit base are fp32. `prepares_bits`: PEFT prepares 4-bit bases, and takes the
    rest up to fp32, or its norms alone. `widens_logits`: cross entropy is computed in fp32. `update_rows`: sequences of
    one update where nothing says how many microbatches it has; 0 means one microbatch. `drops_longer`: rows longer than
    allowed are left out, not cut. `autocasts`: to the format of the weights, where nothing else is said.
    `frees_checkpoints`: it makes them non-reentrant from torch 2.1 on.
    `asks_flash_by_old_name`: it sets `_flash_attn_2_enabled`, which a later transformers does not read.
    """

    name: str
    is_hugging_face: bool = False
    kernels: Kernels = "transformers"
    wide_adapters: bool = True
    prepares_bits: Literal["rest", "norms", "nothing"] = "nothing"
    max_grad_norm: float | None = None
    is_expandable: bool = False
    generates: int = 0
    checkpoints: bool = False
    widens_logits: bool = False
    update_rows: int = 0
    drops_longer: bool = False
    autocasts: bool = False
    frees_checkpoints: bool = False
    asks_flash_by_old_name: bool = False


HUGGING_FACE = Habit(
    name="transformers", is_hugging_face=True, prepares_bits="rest", max_grad_norm=1.0, widens_logits=True
)
TRL = msgspec.structs.replace(HUGGING_FACE, name="trl", prepares_bits="norms")
PLAIN = Habit(name="pytorch")
HABITS: tuple[tuple[str, Habit], ...] = (
    (r"pytorch scripts", Habit(name="pytorch", kernels="pytorch")),
    (
        r"lit-?gpt|lit-?llama",
        Habit(name="litgpt", kernels="litgpt", wide_adapters=False, generates=100, update_rows=16),
    ),
    (r"torchtune", Habit(name="torchtune", kernels="torchtune", wide_adapters=False, widens_logits=True)),
    (
        r"torchtitan",
        Habit(name="torchtitan", kernels="torchtitan", max_grad_norm=1.0, is_expandable=True, widens_logits=True),
    ),
    (
        r"unsloth",
        Habit(name="unsloth", is_hugging_face=True, kernels="unsloth", max_grad_norm=1.0, checkpoints=True),
    ),
    (r"axolotl", msgspec.structs.replace(TRL, name="axolotl", is_expandable=True)),
    (
        r"swift",
        msgspec.structs.replace(
            HUGGING_FACE,
            name="ms-swift",
            prepares_bits="nothing",
            checkpoints=True,
            frees_checkpoints=True,
            drops_longer=True,
            autocasts=True,
            asks_flash_by_old_name=True,
        ),
    ),
    (r"llama-?factory", msgspec.structs.replace(TRL, name="llama-factory", checkpoints=True)),
    (r"fsdp_qlora", Habit(name="fsdp_qlora", wide_adapters=False, max_grad_norm=0.3, widens_logits=True)),
    (r"\btrl\b|sft-?trainer|fms|dpo-?trainer|grpo-?trainer", TRL),
    (r"hf trainer|hugging ?face|transformers|finetune\.py", HUGGING_FACE),
    (r"peft", Habit(name="peft", max_grad_norm=1.0, widens_logits=True)),
)


def habit_of(framework: str) -> Habit:
    """The habits of the framework that a text names; those of a plain loop where it names none of them."""
    said = framework.lower()
    return next((habit for pattern, habit in HABITS if re.search(pattern, said)), PLAIN)


DENSE = {"o": ("dense",), "mlp": ("dense_h_to_4h", "dense_4h_to_h")}
DENSE |= {"up": ("dense_h_to_4h",), "down": ("dense_4h_to_h",)}
TARGETS: dict[str, dict[str, tuple[str, ...]]] = {
    "gpt_neox": dict.fromkeys("qkv", ("query_key_value",)) | DENSE,
    "falcon": dict.fromkeys("qkv", ("query_key_value",)) | DENSE,
    "bloom": dict.fromkeys("qkv", ("query_key_value",)) | DENSE,
    "phi": {"o": ("dense",), "mlp": ("fc1", "fc2"), "up": ("fc1",), "down": ("fc2",)},
    "phi3": dict.fromkeys("qkv", ("qkv_proj",))
    | {"mlp": ("gate_up_proj", "down_proj"), "gate": ("gate_up_proj",), "up": ("gate_up_proj",)},
    "qwen": dict.fromkeys("qkv", ("c_attn",))
    | {"o": ("attn.c_proj",), "mlp": ("w1", "w2", "mlp.c_proj")}
    | {"gate": ("w2",), "up": ("w1",), "down": ("mlp.c_proj",)},
    "gpt2": dict.fromkeys("qkv", ("c_attn",)) | {"o": ("attn.c_proj",), "mlp": ("c_fc", "mlp.c_proj")},
    "gpt_bigcode": dict.fromkeys("qkv", ("c_attn",)) | {"o": ("attn.c_proj",), "mlp": ("c_fc", "mlp.c_proj")},
}
"""What short words for parts of a block are called in families that do not say q_proj, gate_proj and so on."""
USUAL_TARGETS = {word: (f"{word}_proj",) for word in ("q", "k", "v", "o", "gate", "up", "down")} | {
    "mlp": ("gate_proj", "up_proj", "down_proj"),
    "attn": ("q_proj", "k_proj", "v_proj", "o_proj"),
}


def targets_of(said: tuple[str, ...], family: str) -> tuple[str, ...]:
    """Names of modules for short words ("q", "mlp"); a word that is a module's name already stays."""
    own = TARGETS.get(family, {})
    found = [name for word in said for name in own.get(word) or USUAL_TARGETS.get(word) or (word,)]
    return tuple(dict.fromkeys(found))


def default_targets(family: str) -> tuple[str, ...]:
    """The projections of queries and values, which PEFT adapts where nothing is said."""
    own = TARGETS.get(family, {})
    return tuple(dict.fromkeys((*(own.get("q") or ("q_proj",)), *(own.get("v") or ("v_proj",)))))
