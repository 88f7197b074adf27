"""Zamba: Mamba mixers of several heads, and one shared block of attention and MLP in every sixth layer."""

from __future__ import annotations

from capienza.architecture.frame import read_frame
from capienza.architecture.mixers import Mixer, convolution, kept_state, time_step_rank
from capienza.architecture.model import Architecture
from capienza.architecture.pieces import Piece, gated_mlp, linear, norm
from capienza.architecture.reading import Config
from capienza.architecture.zamba_parts import assemble_zamba, held_blocks, hybrid_flags, read_wide_heads, wide_attention

FIRST = (False, False, True)


def build(config: Config) -> Architecture:
    """The third layer is hybrid, and from there one in a period, unless `layers_block_type` says otherwise."""
    config = config.with_aliases(layer_types="layers_block_type", attention_head_dim="head_dim")
    frame = read_frame(
        config,
        hidden_size=3712,
        num_hidden_layers=76,
        vocab_size=32000,
        max_position_embeddings=4096,
        tied=True,
    )
    hidden = frame.hidden_size
    heads = read_wide_heads(config, hidden, num_attention_heads=16, num_key_value_heads=16)
    intermediate = config.dimension("intermediate_size", 14848)
    period = config.integer("attn_layer_period", 6)
    offset = config.integer("attn_layer_offset", 4, minimum=0)
    rest = [index % period == offset for index in range(max(frame.num_layers - len(FIRST), 0))]
    flags = hybrid_flags(config, frame.num_layers, [*FIRST, *rest])
    block = [
        *wide_attention(heads, hidden, "shared_transf.self_attn"),
        *gated_mlp(hidden, intermediate, name="shared_transf.feed_forward"),
        *norm("shared_transf.input_layernorm", 2 * hidden),
        *norm("shared_transf.pre_ff_layernorm", hidden),
    ]
    shared = [block] * held_blocks(frame, 1, sum(flags))
    return assemble_zamba(config, frame, heads, _mixer(config, hidden), intermediate, flags, shared)


def _mixer(config: Config, hidden: int) -> Mixer:
    """Mamba whose time step, B and C are made for each head apart."""
    inner = config.integer("mamba_expand", 2) * hidden
    heads = config.integer("n_mamba_heads", 2)
    if inner % heads:
        config.broken_rule("n_mamba_heads", heads, f"{inner} % n_mamba_heads == 0")
    size = inner // heads
    state = config.integer("mamba_d_state", 16)
    kernel = config.integer("mamba_d_conv", 4)
    rank = time_step_rank(config, "mamba_dt_rank", hidden)
    bias = config.flag("mamba_proj_bias", default=False)
    pieces: list[Piece] = [
        ("mamba.x_proj_weight", (heads, rank + 2 * state, size), "state"),
        ("mamba.dt_proj_weight", (heads, size, rank), "state"),
        ("mamba.dt_proj_bias", (heads, size), "state"),
        ("mamba.A_log", (heads, size, state), "state"),
        ("mamba.D", (heads, size), "state"),
        *convolution("mamba.conv1d", inner, kernel, config.flag("mamba_conv_bias", default=True)),
        *linear("mamba.in_proj", 2 * inner, hidden, "state", bias),
        *linear("mamba.out_proj", hidden, inner, "state", bias),
    ]
    return Mixer(pieces, kept_state("mamba", inner, kernel, (heads, size, state)))
