"""Hunyuan mixtures: Hunyuan's attention, experts in every layer beside one shared MLP of the same width."""

from __future__ import annotations

from capienza.architecture.forward_parts import sparse_forward
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import full_attention, read_heads
from capienza.architecture.hunyuan_attention import hunyuan_attention
from capienza.architecture.layer_stack import assemble_stack
from capienza.architecture.model import Architecture
from capienza.architecture.pieces import gated_mlp
from capienza.architecture.reading import MAX_EXPERTS, Config


def build(config: Config) -> Architecture:
    """All layers hold the same tensors; the experts a token takes may be stated for each layer."""
    config = config.with_aliases(num_experts="num_local_experts", moe_topk="num_experts_per_tok")
    frame = read_frame(config, hidden_size=4096, num_hidden_layers=32, vocab_size=290_943, max_position_embeddings=2048)
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=32)
    width = config.dimension("intermediate_size", 11008)
    experts = config.dimension("num_experts", 1, maximum=MAX_EXPERTS)
    beside = gated_mlp(hidden, width, name="mlp.shared_mlp")
    per_layer = _experts_per_token(config, frame.num_layers, experts)
    forwards = {
        chosen: sparse_forward(hidden, width, experts, chosen, shared=1, router="mlp.gate.wg", shared_pieces=beside)
        for chosen in set(per_layer)
    }
    return assemble_stack(
        config,
        frame,
        [full_attention(config, heads, frame.num_layers)] * frame.num_layers,
        hunyuan_attention(config, heads, hidden),
        [forwards[chosen] for chosen in per_layer],
    )


def _experts_per_token(config: Config, num_layers: int, experts: int) -> list[int]:
    """One number for all layers, or a list with one for each."""
    if isinstance(config.raw("moe_topk"), list | tuple):
        stated = list(config.integers("moe_topk", minimum=1, maximum=MAX_EXPERTS) or ())
        if len(stated) != num_layers:
            config.broken_rule("moe_topk", stated, f"len(moe_topk) == {num_layers}")
    else:
        stated = [config.integer("moe_topk", 1, maximum=MAX_EXPERTS)] * num_layers
    if max(stated) > experts:
        config.broken_rule("moe_topk", max(stated), f"moe_topk <= num_experts == {experts}")
    return stated
