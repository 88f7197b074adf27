"""What the Inkling text models share: full and windowed layers, each with four short convolutions.

Every layer keeps a cache and four histories: of its keys, of its values, and of the outputs of attention and MLP.
The convolutions run in fp32, so that is the type of the histories whatever the model's own.
"""

from __future__ import annotations

import msgspec

from capienza.architecture.frame import Frame
from capienza.architecture.heads import Heads, layer_types
from capienza.architecture.mixers import convolution_state
from capienza.architecture.model import State, StatePart
from capienza.architecture.pieces import Piece, norm
from capienza.architecture.reading import MAX_LAYERS, Config

SLIDING, FULL = "hybrid_sliding", "hybrid"
LAYER_TYPES = frozenset({SLIDING, FULL})
PERIOD = 6
OLDER_NAMES = {
    "sliding_window_size": "sliding_window",
    "n_routed_experts": "num_local_experts",
    "conv_kernel_size": "sconv_kernel_size",
    "max_position_embeddings": "model_max_length",
}


class LayerKind(msgspec.Struct, frozen=True):
    """The heads of a full or a windowed layer, its window, and the reach of its relative positions."""

    heads: Heads
    window: int | None
    reach: int


def read_inkling_frame(config: Config, *, hidden_size: int, num_hidden_layers: int, max_positions: int) -> Frame:
    """The frame, never tied; the numbers are the class defaults."""
    return Frame(
        hidden_size=config.dimension("hidden_size", hidden_size),
        num_layers=config.dimension("num_hidden_layers", num_hidden_layers, maximum=MAX_LAYERS),
        vocab_size=config.dimension("vocab_size", 201_024),
        max_positions=config.integer("max_position_embeddings", max_positions),
        tied_head=False,
    )


def read_kinds(
    config: Config, *, num_attention_heads: int, swa_num_key_value_heads: int, window: int
) -> list[LayerKind]:
    """The full and the windowed kind; the numbers are the class defaults."""
    full = _heads(config, "", num_attention_heads, 8)
    sliding = _heads(config, "swa_", num_attention_heads, swa_num_key_value_heads)
    size = config.integer("sliding_window_size", window)
    return [LayerKind(full, None, config.integer("rel_extent", 1024)), LayerKind(sliding, size, size)]


def _heads(config: Config, prefix: str, heads: int, kv_heads: int) -> Heads:
    key = f"{prefix}num_key_value_heads"
    read = Heads(
        config.integer(f"{prefix}num_attention_heads", heads),
        config.integer(key, kv_heads),
        config.integer(f"{prefix}head_dim", 128),
    )
    if read.num_attention_heads % read.num_key_value_heads:
        config.broken_rule(key, read.num_key_value_heads, f"{read.num_attention_heads} % {key} == 0")
    return read


def sliding_flags(config: Config, num_layers: int, *, listed: bool = False) -> list[bool]:
    """Which layers are windowed: as `layer_types` says, else all but every sixth.

    With `listed` the class knows the older list of their numbers.
    """
    local = config.integers("local_layer_ids") if listed else None
    windowed = {index for index in range(num_layers) if (index + 1) % PERIOD} if local is None else set(local)
    kinds = layer_types(config, num_layers, lambda index: SLIDING if index in windowed else FULL, LAYER_TYPES)
    return [kind == SLIDING for kind in kinds]


def histories(kind: LayerKind, hidden: int, kernel: int, passes: int = 1) -> State:
    """The four histories of a layer, once for each pass of a loop."""
    widths = (kind.heads.key_width, kind.heads.key_width, hidden, hidden)
    parts = [convolution_state(width, kernel) for width in widths]
    return State("conv", tuple(StatePart(part.name, part.shape, "fp32") for part in parts) * passes)


def embedding(frame: Frame) -> list[Piece]:
    """The embedding, and the norm that follows it."""
    return [
        ("model.embed_tokens.weight", (frame.vocab_size, frame.hidden_size), "embedding"),
        *norm("model.embed_tokens.embed_norm", frame.hidden_size),
    ]
