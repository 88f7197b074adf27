"""gpt-oss: windows in every other layer, a sink for each head, biased experts stored [in, out]."""

from __future__ import annotations

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import attentions, layer_types, read_heads
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.pieces import Piece, attention_pieces, layer_norms, linear, read_experts
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """Sliding and full layers in turn, unless `layer_types` says otherwise."""
    config = config.with_aliases(num_experts_per_tok="experts_per_token")
    frame = read_frame(
        config, hidden_size=2880, num_hidden_layers=36, vocab_size=201_088, max_position_embeddings=131_072
    )
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=64, num_key_value_heads=8, head_dim=64)
    types = layer_types(config, frame.num_layers, lambda index: "full_attention" if index % 2 else "sliding_attention")
    layers = attentions(config, heads, types, config.optional("sliding_window", 128))
    experts, chosen = read_experts(config, "num_local_experts", 128, per_token=4)
    inner = config.dimension("intermediate_size", 2880)
    bias = config.flag("attention_bias", True)
    mlp = Mlp(kind="experts", intermediate_size=inner, num_experts=experts, num_experts_per_token=chosen)
    pieces: list[Piece] = [
        ("self_attn.sinks", (heads.num_attention_heads,), "attention"),
        *attention_pieces(heads, hidden, bias=bias, output_bias=bias),
        *linear("mlp.router", experts, hidden, "router", bias=True),
        ("mlp.experts.gate_up_proj", (experts, hidden, 2 * inner), "expert"),
        ("mlp.experts.gate_up_proj_bias", (experts, 2 * inner), "expert"),
        ("mlp.experts.down_proj", (experts, inner, hidden), "expert"),
        ("mlp.experts.down_proj_bias", (experts, hidden), "expert"),
        *layer_norms(hidden),
    ]
    blocks = [Block(attention=attention, mlp=mlp, pieces=pieces) for attention in layers]
    return assemble(config, frame, blocks, transposed=("mlp.experts.gate_up_proj", "mlp.experts.down_proj"))
