"""Falcon Mamba: Mamba with norms of the time step, B and C that have no parameters."""

from __future__ import annotations

from capienza.architecture.assembly import Block
from capienza.architecture.mamba_model import assemble_mamba, read_mamba_frame
from capienza.architecture.mixers import Mamba, time_step_rank
from capienza.architecture.model import Architecture
from capienza.architecture.pieces import norm
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers alike. A stated `intermediate_size` counts before `expand`, as the published 7B has both."""
    frame = read_mamba_frame(config, hidden_size=768, num_hidden_layers=32, vocab_size=50280, tied=True)
    hidden = frame.hidden_size
    mixer = Mamba(
        hidden=hidden,
        inner=config.optional("intermediate_size") or config.integer("expand", 2) * hidden,
        state=config.integer("state_size", 16),
        rank=time_step_rank(config, "time_step_rank", hidden),
        kernel=config.integer("conv_kernel", 4),
        bias=config.flag("use_bias", default=False),
        convolution_bias=config.flag("use_conv_bias", default=True),
    ).mixer("mixer")
    block = Block(state=mixer.state, pieces=[*norm("norm", hidden), *mixer.pieces])
    return assemble_mamba(config, frame, block)
