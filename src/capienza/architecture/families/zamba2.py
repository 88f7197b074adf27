"""Zamba 2: Mamba-2 mixers, and shared blocks of attention and MLP that take turns, with adapters for each use."""

from __future__ import annotations

from capienza.architecture.frame import read_frame
from capienza.architecture.heads import Heads
from capienza.architecture.mixers import Mamba2, Mixer
from capienza.architecture.model import Architecture
from capienza.architecture.pieces import Piece, linear, norm
from capienza.architecture.reading import Config
from capienza.architecture.zamba_parts import assemble_zamba, held_blocks, hybrid_flags, read_wide_heads, wide_attention

DEFAULT_HYBRIDS = (6, 12, 18, 24, 30, 36, 42, 47, 51)
DEFAULT_LAYERS = 54
SHARED = "shared_transformer"


def build(config: Config) -> Architecture:
    """Layers as `layers_block_type` says, else those of the 2.7B."""
    config = config.with_aliases(layer_types="layers_block_type", attention_head_dim="head_dim")
    frame = read_frame(
        config,
        hidden_size=2560,
        num_hidden_layers=54,
        vocab_size=32000,
        max_position_embeddings=4096,
        tied=True,
    )
    hidden = frame.hidden_size
    heads = read_wide_heads(config, hidden, num_attention_heads=32, num_key_value_heads=None)
    intermediate = config.optional("intermediate_size") or 4 * hidden
    default = [index in DEFAULT_HYBRIDS for index in range(DEFAULT_LAYERS)]
    flags = hybrid_flags(config, frame.num_layers, default)
    hybrids = tuple(index for index, hybrid in enumerate(flags) if hybrid)
    stated = config.integers("hybrid_layer_ids")
    if stated is not None and stated != hybrids:
        config.contradiction("hybrid_layer_ids", stated, ", ".join(map(str, hybrids))[:200])
    count = min(config.integer("num_mem_blocks", 1), len(hybrids))
    shared = [
        _block(config, heads, hidden, intermediate, range(at % count, len(hybrids), count))
        for at in range(held_blocks(frame, count, len(hybrids)))
    ]
    return assemble_zamba(config, frame, heads, _mixer(config, hidden), intermediate, flags, shared)


def _block(config: Config, heads: Heads, hidden: int, intermediate: int, uses: range) -> list[Piece]:
    """One shared block, with the adapters of its uses among all hybrid layers."""
    rank = config.integer("adapter_rank", 128)
    bias = config.flag("add_bias_linear", default=False)
    attention, mlp = f"{SHARED}.self_attn", f"{SHARED}.feed_forward"
    adapters: list[Piece] = []
    for use in uses:
        if config.flag("use_shared_attention_adapter", default=False):
            for part in "qkv":
                adapters += _adapter(f"{attention}.linear_{part}_adapter_list.{use}", rank, 2 * hidden, 2 * hidden)
        adapters += _adapter(f"{mlp}.gate_up_proj_adapter_list.{use}", rank, hidden, 2 * intermediate)
    return [
        *wide_attention(heads, hidden, attention),
        *linear(f"{mlp}.gate_up_proj", 2 * intermediate, hidden, "mlp", bias),
        *linear(f"{mlp}.down_proj", hidden, intermediate, "mlp", bias),
        *adapters,
        *norm(f"{SHARED}.input_layernorm", 2 * hidden),
        *norm(f"{SHARED}.pre_ff_layernorm", hidden),
    ]


def _adapter(name: str, rank: int, width: int, out: int) -> list[Piece]:
    """A low-rank addition to a shared projection."""
    return [*linear(f"{name}.0", rank, width, "other"), *linear(f"{name}.1", out, rank, "other")]


def _mixer(config: Config, hidden: int) -> Mixer:
    """Mamba-2 under Zamba's keys; its convolution always has a bias."""
    inner = config.integer("mamba_expand", 2) * hidden
    heads = config.integer("n_mamba_heads", 8)
    size = config.optional("mamba_headdim") or inner // heads
    if heads * size != inner:
        config.broken_rule("n_mamba_heads", heads, f"n_mamba_heads * {size} == {inner}")
    groups = config.integer("mamba_ngroups", 1)
    if heads % groups or inner % groups:
        config.broken_rule("mamba_ngroups", groups, f"{heads} % mamba_ngroups == 0")
    return Mamba2(
        hidden=hidden,
        heads=heads,
        head_dim=size,
        groups=groups,
        state=config.integer("mamba_d_state", 64),
        kernel=config.integer("mamba_d_conv", 4),
        bias=config.flag("add_bias_linear", default=False),
        convolution_bias=True,
    ).mixer("mamba")
