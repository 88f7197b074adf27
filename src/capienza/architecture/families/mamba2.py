"""Mamba-2: no attention and no feed-forward part, a state of constant size in every layer."""

from __future__ import annotations

from capienza.architecture.assembly import Block
from capienza.architecture.mamba_model import assemble_mamba, read_mamba_frame
from capienza.architecture.mixers import Mamba2
from capienza.architecture.model import Architecture
from capienza.architecture.pieces import norm
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers alike; the heads must fill the inner channels."""
    frame = read_mamba_frame(config, hidden_size=4096, num_hidden_layers=64, vocab_size=32768, tied=False)
    hidden = frame.hidden_size
    heads, head_dim = config.integer("num_heads", 128), config.integer("head_dim", 64)
    inner = config.integer("expand", 2) * hidden
    if heads * head_dim != inner:
        config.broken_rule("num_heads", heads, f"num_heads * {head_dim} == expand * hidden_size == {inner}")
    mixer = Mamba2(
        hidden=hidden,
        heads=heads,
        head_dim=head_dim,
        groups=config.integer("n_groups", 8),
        state=config.integer("state_size", 128),
        kernel=config.integer("conv_kernel", 4),
        bias=config.flag("use_bias", default=False),
        convolution_bias=config.flag("use_conv_bias", default=True),
    ).mixer("mixer")
    block = Block(state=mixer.state, pieces=[*norm("norm", hidden), *mixer.pieces])
    return assemble_mamba(config, frame, block)
