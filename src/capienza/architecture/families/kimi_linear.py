"""Kimi Linear: Kimi's delta attention with one layer of latent attention in four."""

from __future__ import annotations

from collections.abc import Callable

from capienza.architecture.delta_latent import assemble_delta_latent, read_untied_frame, with_older_names
from capienza.architecture.kimi_delta import KimiDelta
from capienza.architecture.latent import read_latent
from capienza.architecture.model import Architecture
from capienza.architecture.reading import Config

PERIOD = 4


def build(config: Config) -> Architecture:
    """Layers as `layer_types` says, or the lists of `linear_attn_config`, which count from 1."""
    config = with_older_names(config)
    frame = read_untied_frame(
        config, hidden_size=2304, num_hidden_layers=27, vocab_size=163_840, max_position_embeddings=1_048_576
    )
    latent = read_latent(config, num_attention_heads=32, query_rank=None)
    own = config.section("linear_attn_config") or Config({}, config.file, parent=config)
    delta = KimiDelta(
        hidden=frame.hidden_size,
        heads=own.optional("num_heads") or config.integer("linear_num_heads", 32),
        head_dim=own.optional("head_dim") or config.integer("linear_head_dim", 128),
        kernel=own.optional("short_conv_kernel_size") or config.integer("linear_conv_kernel_dim", 4),
        bottleneck=True,
    )
    return assemble_delta_latent(
        config,
        frame,
        latent,
        delta,
        full=_listed(own, frame.num_layers) or (lambda index: index > 0 and index % PERIOD == 0),
        intermediate_size=9216,
        moe_intermediate_size=1024,
        num_experts=256,
        first_k_dense_replace=1,
    )


def _listed(own: Config, num_layers: int) -> Callable[[int], bool] | None:
    """The rule of the two lists, which must name every layer once; None where either is missing."""
    full = own.integers("full_attn_layers", minimum=1, maximum=num_layers)
    linear = own.integers("kda_layers", minimum=1, maximum=num_layers)
    if full is None or linear is None:
        return None
    if sorted((*full, *linear)) != list(range(1, num_layers + 1)):
        own.broken_rule("kda_layers", linear, f"full_attn_layers + kda_layers == 1..{num_layers}")
    attending = frozenset(full)
    return lambda index: index + 1 in attending
