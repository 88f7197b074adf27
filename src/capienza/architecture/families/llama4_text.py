"""Llama 4, text side: chunked attention with rotary layers, full without; experts stored [in, out]."""

from __future__ import annotations

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import Heads, attentions, layer_types, read_heads, rotary_layers
from capienza.architecture.model import Architecture, Attention, Mlp
from capienza.architecture.pieces import Piece, attention_pieces, gated_mlp, layer_norms, linear, read_experts
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """Experts in `moe_layers`, or in every `interleave_moe_layer_step`-th layer; a plain MLP in the others."""
    frame = read_frame(
        config, hidden_size=5120, num_hidden_layers=48, vocab_size=202_048, max_position_embeddings=131_072
    )
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=40, num_key_value_heads=8, head_dim=128)
    experts, chosen = read_experts(config, "num_local_experts", 16, per_token=1)
    inner, dense = config.dimension("intermediate_size", 8192), config.dimension("intermediate_size_mlp", 16384)
    bias = config.flag("attention_bias", False)
    common = [*attention_pieces(heads, hidden, bias=bias, output_bias=bias), *layer_norms(hidden)]
    mixture: list[Piece] = [
        *linear("feed_forward.router", experts, hidden, "router"),
        ("feed_forward.experts.gate_up_proj", (experts, hidden, 2 * inner), "expert"),
        ("feed_forward.experts.down_proj", (experts, inner, hidden), "expert"),
        *gated_mlp(hidden, inner, name="feed_forward.shared_expert"),
    ]
    kinds = {
        True: Mlp(
            kind="experts",
            intermediate_size=inner,
            num_experts=experts,
            num_experts_per_token=chosen,
            num_shared_experts=1,
        ),
        False: Mlp(kind="dense", intermediate_size=dense),
    }
    pieces = {True: [*common, *mixture], False: [*common, *gated_mlp(hidden, dense, name="feed_forward")]}
    sparse = _sparse_layers(config, frame.num_layers)
    blocks = [
        Block(attention=attention, mlp=kinds[index in sparse], pieces=pieces[index in sparse])
        for index, attention in enumerate(_attentions(config, heads, frame.num_layers))
    ]
    names = ("feed_forward.experts.gate_up_proj", "feed_forward.experts.down_proj")
    return assemble(config, frame, blocks, transposed=names)


def _sparse_layers(config: Config, num_layers: int) -> set[int]:
    """The layers that hold experts."""
    stated = config.layer_indices("moe_layers", num_layers)
    if stated is not None:
        return set(stated)
    step = config.integer("interleave_moe_layer_step", 1)
    return set(range(step - 1, num_layers, step))


def _attentions(config: Config, heads: Heads, num_layers: int) -> list[Attention]:
    """A layer with rotary positions looks back within its chunk; every fourth has none and sees all."""
    chunk = config.optional("attention_chunk_size", 8192)
    rotary = rotary_layers(config, num_layers)
    types = layer_types(
        config,
        num_layers,
        lambda index: "chunked_attention" if rotary[index] and chunk is not None else "full_attention",
        {"chunked_attention", "full_attention"},
    )
    return attentions(config, heads, types, chunk, "attention_chunk_size")
