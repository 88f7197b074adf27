"""LFM3: short convolutions, windows and full attention, a gate for each head and norms on both sides."""

from __future__ import annotations

from capienza.architecture.assembly import assemble
from capienza.architecture.forward_parts import Forward, layer_block
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import attentions, layer_types, read_heads
from capienza.architecture.lfm2_blocks import lfm2_mlp
from capienza.architecture.mixers import short_convolution
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.pieces import attention_pieces, linear, norm
from capienza.architecture.reading import Config

LAYER_TYPES = frozenset({"conv", "full_attention", "sliding_attention"})
PERIOD, FULL_AT, SLIDING_AT = 4, 2, 0


def build(config: Config) -> Architecture:
    """Layers as `layer_types` says, else by the place in a period of four."""
    frame = read_frame(
        config,
        hidden_size=2048,
        num_hidden_layers=24,
        vocab_size=128_000,
        max_position_embeddings=128_000,
        tied=True,
    )
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=16, num_key_value_heads=4, head_dim=128)
    kernel = config.integer("conv_L_cache", 7)
    mixer = short_convolution("conv", hidden, kernel, config.flag("conv_bias", default=False))
    bias = config.flag("attention_bias", default=False)
    attending = attention_pieces(heads, hidden, bias=bias, output_bias=bias, head_norm=True)
    if config.flag("use_attention_gate", default=True):
        attending += linear("self_attn.g_proj", heads.num_attention_heads, hidden, "attention")
    width = config.dimension("intermediate_size", 7680)
    forward = Forward(Mlp(kind="dense", intermediate_size=width), lfm2_mlp(hidden, width))
    names = ["operator_norm", "ffn_norm"]
    if config.flag("use_sandwich_norm", default=True):
        names += ["post_operator_norm", "post_ffn_norm"]
    norms = [piece for name in names for piece in norm(name, hidden)]
    window = config.optional("sliding_window", 256)
    blocks = [
        layer_block(hidden, forward, mixer.pieces, state=mixer.state, norms=norms)
        if kind == "conv"
        else layer_block(
            hidden, forward, attending, attention=attentions(config, heads, [kind], window)[0], norms=norms
        )
        for kind in layer_types(config, frame.num_layers, _default_type, LAYER_TYPES)
    ]
    return assemble(config, frame, blocks, after=norm("model.embedding_norm", hidden))


def _default_type(index: int) -> str:
    at = index % PERIOD
    if at == FULL_AT:
        return "full_attention"
    return "sliding_attention" if at == SLIDING_AT and index else "conv"
