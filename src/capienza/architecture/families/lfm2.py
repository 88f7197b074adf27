"""LFM2: gated short convolutions with full attention at stated layers, and a gated MLP of an adjusted width."""

from __future__ import annotations

from capienza.architecture.assembly import assemble
from capienza.architecture.frame import read_frame
from capienza.architecture.lfm2_blocks import lfm2_blocks, lfm2_mlp
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.pieces import norm
from capienza.architecture.reading import Config, shown
from capienza.errors import template

MAX_MULTIPLIER = 1000
BAD_MULTIPLIER = template(
    "architecture.lfm2-multiplier",
    "found {found}; a number above 0 and up to {maximum} is accepted",
    "Use the config.json published with the model.",
)


def build(config: Config) -> Architecture:
    """Layers as `layer_types` or `full_attn_idxs` say; all attend when neither is stated."""
    config = config.with_aliases(tie_word_embeddings="tie_embedding", intermediate_size="block_ff_dim")
    frame = read_frame(
        config,
        hidden_size=2560,
        num_hidden_layers=32,
        vocab_size=65536,
        max_position_embeddings=128_000,
        tied=True,
    )
    width = _adjusted_width(config)
    attends = config.layer_indices("full_attn_idxs", frame.num_layers)
    attending = set(range(frame.num_layers) if attends is None else attends)
    part = (Mlp(kind="dense", intermediate_size=width), lfm2_mlp(frame.hidden_size, width))
    blocks = lfm2_blocks(
        config, frame, [part] * frame.num_layers, lambda index: "full_attention" if index in attending else "conv"
    )
    return assemble(config, frame, blocks, after=norm("model.embedding_norm", frame.hidden_size))


def _adjusted_width(config: Config) -> int:
    """Two thirds of the stated width, times the multiplier, rounded up to a multiple (class `Lfm2MLP`)."""
    width = config.dimension("intermediate_size", 12288)
    if not config.flag("block_auto_adjust_ff_dim", default=True):
        return width
    width = int(2 * width / 3)
    multiplier = config.raw("block_ffn_dim_multiplier")
    if multiplier is None and config.has("block_ffn_dim_multiplier"):
        return width
    multiplier = 1.0 if multiplier is None else multiplier
    if isinstance(multiplier, bool) or not isinstance(multiplier, int | float) or not 0 < multiplier <= MAX_MULTIPLIER:
        config.refuse("block_ffn_dim_multiplier", BAD_MULTIPLIER(found=shown(multiplier), maximum=MAX_MULTIPLIER))
    multiple = config.integer("block_multiple_of", 256)
    return multiple * -(-int(multiplier * width) // multiple)
