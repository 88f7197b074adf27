"""The text side of DeepSeek-OCR 2 and Unlimited-OCR: plain attention and DeepSeek's experts without a correction."""

from __future__ import annotations

from collections.abc import Sequence

from capienza.architecture.forward_parts import dense_forward, sparse_forward
from capienza.architecture.frame import Frame
from capienza.architecture.heads import Heads, share_out
from capienza.architecture.layer_stack import assemble_stack
from capienza.architecture.model import Architecture, Attention
from capienza.architecture.pieces import attention_pieces, gated_mlp, layer_norms, read_experts
from capienza.architecture.reading import MAX_EXPERTS, Config


def read_ocr_heads(config: Config, hidden: int, *, num_attention_heads: int, num_key_value_heads: int | None) -> Heads:
    """Heads that share out the hidden size, whatever `head_dim` says; the numbers are class defaults."""
    heads = config.dimension("num_attention_heads", num_attention_heads)
    kv_heads = config.optional("num_key_value_heads", num_key_value_heads) or heads
    if heads % kv_heads:
        config.broken_rule("num_key_value_heads", kv_heads, f"{heads} % num_key_value_heads == 0")
    return Heads(heads, kv_heads, share_out(config, hidden, heads))


def assemble_ocr_mixture(
    config: Config,
    frame: Frame,
    heads: Heads,
    attention: Attention,
    flags: Sequence[bool],
    *,
    intermediate_size: int,
    moe_intermediate_size: int,
    num_experts_per_tok: int | None,
) -> Architecture:
    """Experts in the layers that `flags` gives; the numbers are class defaults."""
    hidden = frame.hidden_size
    bias = config.flag("attention_bias", default=False)
    mlp_bias = config.flag("mlp_bias", default=False)
    width = config.dimension("moe_intermediate_size", moe_intermediate_size)
    experts, chosen = read_experts(config, "n_routed_experts", 64, per_token=num_experts_per_tok)
    shared = config.integer("n_shared_experts", 2, minimum=0, maximum=MAX_EXPERTS)
    beside = gated_mlp(hidden, shared * width, bias=mlp_bias, name="mlp.shared_experts")
    sparse = sparse_forward(hidden, width, experts, chosen, shared=shared, shared_pieces=beside)
    dense = dense_forward(hidden, config.dimension("intermediate_size", intermediate_size), bias=mlp_bias)
    return assemble_stack(
        config,
        frame,
        [attention] * frame.num_layers,
        [*attention_pieces(heads, hidden, bias=bias, output_bias=bias), *layer_norms(hidden)],
        [sparse if flag else dense for flag in flags],
    )
