"""JetMoE: experts in attention as well, each with its own queries and output over shared keys and values."""

from __future__ import annotations

from capienza.architecture.forward_parts import Forward
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import Heads, full_attention
from capienza.architecture.layer_stack import assemble_stack
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.pieces import Piece, layer_norms, linear, read_experts
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers alike, with full attention."""
    config = config.with_aliases(kv_channels="head_dim")
    frame = read_frame(
        config,
        hidden_size=2048,
        num_hidden_layers=12,
        vocab_size=32000,
        max_position_embeddings=4096,
        tied=True,
    )
    hidden = frame.hidden_size
    experts, chosen = read_experts(config, "num_local_experts", 8, per_token=2)
    heads = _read_heads(config, chosen)
    width = config.dimension("intermediate_size", 5632)
    mlp = Mlp(kind="experts", intermediate_size=width, num_experts=experts, num_experts_per_token=chosen)
    return assemble_stack(
        config,
        frame,
        [full_attention(config, heads, frame.num_layers)] * frame.num_layers,
        [
            *_experts("self_attention.experts", experts, hidden, heads.key_width, heads.key_width),
            *linear("self_attention.kv_proj", 2 * heads.key_width, hidden, "attention"),
            *layer_norms(hidden),
        ],
        [Forward(mlp, _experts("mlp", experts, hidden, 2 * width, width))] * frame.num_layers,
    )


def _read_heads(config: Config, chosen: int) -> Heads:
    """A token's query heads are those of the experts it takes, one set for each."""
    kv_heads = config.dimension("num_key_value_heads", 16)
    count = kv_heads * chosen
    stated = config.optional("num_attention_heads")
    if stated not in (None, count):
        rule = f"num_attention_heads == num_key_value_heads * num_experts_per_tok == {count}"
        config.broken_rule("num_attention_heads", stated, rule)
    return Heads(count, kv_heads, config.integer("kv_channels", 128))


def _experts(name: str, experts: int, hidden: int, inside: int, back: int) -> list[Piece]:
    """Fused experts under JetMoE's names: `inside` is what their input makes, `back` what their output takes."""
    return [
        (f"{name}.bias", (hidden,), "expert"),
        (f"{name}.input_linear.weight", (experts, inside, hidden), "expert"),
        (f"{name}.output_linear.weight", (experts, hidden, back), "expert"),
        *linear(f"{name}.router.layer", experts, hidden, "router"),
    ]
