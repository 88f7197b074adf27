"""From the name of a model to the families that it may belong to.

The families are model types of transformers. A name says which is meant; where it says nothing, the families are tried
in the order of `USUAL`, and the parameter count that the case states decides.
"""

from __future__ import annotations

import re

NAMES: tuple[tuple[str, str], ...] = (
    (r"mixtral", "mixtral"),
    (r"codestral|devstral|magistral|ministral|mistral|zephyr|openchat", "mistral"),
    (r"starcoder-?2", "starcoder2"),
    (r"santacoder|starcoder|bigcode", "gpt_bigcode"),
    (r"powermoe|granite.*moe|granite.*a\d+m", "granitemoe"),
    (r"powerlm|granite", "granite"),
    (r"gemma-?3n", "gemma3n_text"),
    (r"gemma-?3|functiongemma|embeddinggemma", "gemma3_text"),
    (r"gemma-?4", "gemma4_text"),
    (r"gemma-?2-?\d+b|gemma-?2\b(?!b)", "gemma2"),
    (r"gemma", "gemma"),
    (r"phi-?3|phi-?4", "phi3"),
    (r"phi-?(1|2)", "phi"),
    (r"falcon-?h1", "falcon_h1"),
    (r"falcon", "falcon"),
    (r"qwen-?3.*a\d+b", "qwen3_moe"),
    (r"qwen-?3[.-]5", "qwen3_5_text"),
    (r"qwen-?3", "qwen3"),
    (r"qwen-?(1\.5|2).*(a\d+(\.\d+)?b|moe)", "qwen2_moe"),
    (r"qwen-?(1\.5|2)", "qwen2"),
    (r"qwen", "qwen"),
    (r"stablelm-?(base|tuned)-?alpha|pythia|neox|dolly|redpajama|oasst", "gpt_neox"),
    (r"stablelm", "stablelm"),
    (r"gpt-?neo", "gpt_neo"),
    (r"gpt-?j", "gptj"),
    (r"gpt-?oss", "gpt_oss"),
    (r"gpt-?2|distilgpt", "gpt2"),
    (r"olmoe", "olmoe"),
    (r"olmo-?3", "olmo3"),
    (r"olmo-?2", "olmo2"),
    (r"olmo", "olmo"),
    (r"smollm-?3", "smollm3"),
    (r"\bopt-?\d", "opt"),
    (r"bloom", "bloom"),
    (r"\bmpt", "mpt"),
    (r"deepseek.*v3|deepseek-?r1$", "deepseek_v3"),
    (r"deepseek.*v2", "deepseek_v2"),
    (r"command|aya|cohere", "cohere"),
    (r"lfm-?2", "lfm2"),
    (r"roberta", "roberta"),
    (r"bert", "bert"),
    (
        r"llama|vicuna|alpaca|yi-?\d|baichuan|deepseek|smollm|internlm|solar|xverse|aquila|minicpm|platypus",
        "llama",
    ),
)
"""Patterns of names in the order in which they are tried: the first one that is found says the family."""
USUAL = ("llama", "mistral", "qwen2", "qwen3", "gpt_neox", "gpt2", "phi", "gemma", "granite", "opt", "bloom", "falcon")
ALIBI = re.compile(r"baichuan-?2?-?13b|\bmpt|bloom")
"""Models whose positions are added to the scores of attention."""
EXTRAS: tuple[tuple[str, dict[str, bool]], ...] = ((r"powerlm", {"attention_bias": True, "mlp_bias": True}),)
"""What the config.json of some models says beside their dimensions."""
NO_TEXT = re.compile(
    r"flux|sdxl|stable-?diffusion|cogvideo|timm|\bvit|resnet|vgg|xception|mobilenet|efficientnet|inception|convnext|"
    r"whisper|\bcsm-|tts|wav2vec"
)
NOT_IN_ROOM = re.compile(r"-vl\b|-vl-|vision|omni|internvl|ovis|pixtral|minicpm-?v|smolvlm|voxtral|ocr|janus|llava")
"""Names of models with a side for images or sound, whose dimensions a case does not state."""


def family_named(model: str) -> str | None:
    """The family that a model's name says; None where it says none."""
    name = plain(model)
    return next((family for pattern, family in NAMES if re.search(pattern, name)), None)


def plain(model: str) -> str:
    """A name in lower case with hyphens, without the owner before its slash."""
    return re.sub(r"[\s_]+", "-", model.rsplit("/", 1)[-1].lower())
