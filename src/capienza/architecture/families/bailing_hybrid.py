"""Ring and Ling 2.5 hybrids: Kimi's delta attention with one layer of gated latent attention in six."""

from __future__ import annotations

from capienza.architecture.delta_latent import assemble_delta_latent, read_untied_frame, with_older_names
from capienza.architecture.kimi_delta import KimiDelta
from capienza.architecture.latent import read_latent
from capienza.architecture.model import Architecture
from capienza.architecture.pieces import linear
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """The last layer of each group attends, unless `layer_types` says otherwise."""
    config = with_older_names(config)
    frame = read_untied_frame(
        config, hidden_size=2560, num_hidden_layers=42, vocab_size=157_184, max_position_embeddings=262_144
    )
    latent = read_latent(config, num_attention_heads=32, query_rank=None)
    delta = KimiDelta(
        hidden=frame.hidden_size,
        heads=config.optional("linear_num_heads") or latent.num_heads,
        head_dim=config.optional("linear_head_dim") or config.integer("head_dim", 128),
        kernel=config.optional("linear_conv_kernel_dim") or config.integer("short_conv_kernel_size", 4),
        bottleneck=False,
    )
    group = config.integer("layer_group_size", 6)
    return assemble_delta_latent(
        config,
        frame,
        latent,
        delta,
        gate=linear("self_attn.g_proj", latent.num_heads, frame.hidden_size, "attention"),
        full=lambda index: (index + 1) % group == 0,
        intermediate_size=6144,
        moe_intermediate_size=768,
        num_experts=512,
        first_k_dense_replace=2,
        prediction_layers=1,
    )
