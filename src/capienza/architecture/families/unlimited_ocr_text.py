"""The text side of Unlimited-OCR: what the page gave stays in the cache, what is written since slides in a window."""

from __future__ import annotations

from capienza.architecture.forward_parts import late_experts, sparse_flags
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import layer_types
from capienza.architecture.model import Architecture
from capienza.architecture.ocr_mixture import assemble_ocr_mixture, read_ocr_heads
from capienza.architecture.reading import Config
from capienza.errors import template

KIND = "reference_sliding_attention"
GENERATED_WINDOW = template(
    "architecture.generated-window",
    "every layer keeps all tokens of the prompt, and only the last {window} of those it writes; the cache is counted"
    " for all of them, so it is at most this",
    "Count the prompt's tokens and {window} more for the exact figure.",
)


def build(config: Config) -> Architecture:
    """Experts as `mlp_layer_types` says, else from `first_k_dense_replace` on."""
    config = config.with_aliases(n_routed_experts="num_experts")
    frame = read_frame(
        config, hidden_size=1280, num_hidden_layers=12, vocab_size=129_280, max_position_embeddings=32768
    )
    heads = read_ocr_heads(config, frame.hidden_size, num_attention_heads=10, num_key_value_heads=10)
    layer_types(config, frame.num_layers, lambda _: KIND, {KIND})
    window = config.optional("sliding_window", 128)
    if window is None:
        config.broken_rule("sliding_window", None, "sliding_window >= 1")
    config.notes.append(GENERATED_WINDOW(window=window))
    return assemble_ocr_mixture(
        config,
        frame,
        heads,
        heads.attention(),
        sparse_flags(config, frame.num_layers, late_experts(config, first=1)),
        intermediate_size=6848,
        moe_intermediate_size=896,
        num_experts_per_tok=6,
    )
