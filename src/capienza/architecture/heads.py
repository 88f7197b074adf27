"""Attention heads, and the kind of attention of each layer.

Legend: head_dim elements of one head; kv heads the heads of K and V; window tokens a sliding layer looks back to.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import msgspec

from capienza.architecture.model import Attention, AttentionKind
from capienza.architecture.reading import Config
from capienza.errors import phrase, template

UNUSED_WINDOW = template(
    "architecture.unused-window",
    "sliding_window = {window} is stated, but {model_type} has no windowed layers in transformers: every layer is"
    " counted in full, so an engine that does use the window keeps less cache",
    "Remove sliding_window if the model does not use it.",
)

# Names of older files, as transformers itself translates them.
OLDER_TYPES = {
    "attention": "full_attention",
    "mamba": "linear_attention",
    "deepseek_sparse_attention": "indexed_attention",
    "qwen_sparse_attention": "indexed_attention",
}
FULL_OR_SLIDING = frozenset({"full_attention", "sliding_attention"})


class Heads(msgspec.Struct, frozen=True):
    """The attention heads of a layer; every head of Q, K and V has `head_dim` elements."""

    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int

    @property
    def query_width(self) -> int:
        """Elements of all query heads."""
        return self.num_attention_heads * self.head_dim

    @property
    def key_width(self) -> int:
        """Elements of all key heads; the same for the values."""
        return self.num_key_value_heads * self.head_dim

    def attention(self, kind: AttentionKind = "full", window: int | None = None) -> Attention:
        """The attention of one layer with these heads."""
        return Attention(
            kind=kind,
            num_attention_heads=self.num_attention_heads,
            num_key_value_heads=self.num_key_value_heads,
            key_head_dim=self.head_dim,
            value_head_dim=self.head_dim,
            window=window,
        )


def read_heads(
    config: Config,
    hidden_size: int,
    *,
    num_attention_heads: int,
    num_key_value_heads: int | None = None,
    head_dim: int | None = None,
    shared_out: bool = False,
) -> Heads:
    """The heads of a model; the arguments are the defaults of its config class.

    Without a stated head size, the heads share out the hidden size and must divide it; with `shared_out` they
    always do, and another head size is an error.
    """
    heads = config.dimension("num_attention_heads", num_attention_heads)
    kv_heads = config.optional("num_key_value_heads", num_key_value_heads) or heads
    if heads % kv_heads:
        config.broken_rule("num_key_value_heads", kv_heads, f"{heads} % num_key_value_heads == 0")
    size = config.optional("head_dim", head_dim) or share_out(config, hidden_size, heads)
    if shared_out and size * heads != hidden_size:
        config.broken_rule(
            "head_dim", size, f"head_dim == hidden_size / num_attention_heads == {hidden_size} / {heads}"
        )
    return Heads(heads, kv_heads, size)


def share_out(config: Config, hidden_size: int, heads: int, key: str = "num_attention_heads") -> int:
    """Elements of one head when the heads share out the hidden size. Raises `InputError` when they cannot."""
    if hidden_size % heads:
        config.broken_rule(key, heads, f"{hidden_size} % {key} == 0")
    return hidden_size // heads


def layer_types(
    config: Config, num_layers: int, default: Callable[[int], str], accepted: Collection[str] = FULL_OR_SLIDING
) -> tuple[str, ...]:
    """The type of each layer as stated in `layer_types`, or by the rule of the config class."""
    stated = config.texts("layer_types")
    if stated is None:
        return tuple(default(index) for index in range(num_layers))
    if len(stated) != num_layers:
        config.broken_rule("layer_types", stated, f"len(layer_types) == {num_layers}")
    types = tuple(OLDER_TYPES.get(kind, kind) for kind in stated)
    for index, kind in enumerate(types):
        if kind not in accepted:
            direction = phrase("another kind of layer may keep less cache, or a state of its own")
            config.not_understood(f"layer_types[{index}]", kind, ", ".join(sorted(accepted)), direction)
    return types


def attentions(
    config: Config, heads: Heads, types: Sequence[str], window: int | None, window_key: str = "sliding_window"
) -> list[Attention]:
    """The attention of each layer from its type; a sliding or chunked layer needs a window."""
    kinds: dict[str, AttentionKind] = {"sliding_attention": "sliding", "chunked_attention": "chunked"}
    made = {}
    for kind in set(types):
        if kind in kinds and window is None:
            config.broken_rule(window_key, None, f"{window_key} >= 1 ({kind})")
        made[kind] = heads.attention(kinds[kind], window) if kind in kinds else heads.attention()
    return [made[kind] for kind in types]


def uniform_attention(config: Config, heads: Heads, num_layers: int, window: int | None = None) -> Attention:
    """The attention of a model whose layers are all alike: all sliding when there is a window, else all full."""
    kind = "full_attention" if window is None else "sliding_attention"
    types = layer_types(config, num_layers, lambda _: kind)
    for index, stated in enumerate(types):
        if stated != kind:
            config.broken_rule(f"layer_types[{index}]", stated, kind)
    return attentions(config, heads, [kind], window)[0]


def full_attention(config: Config, heads: Heads, num_layers: int) -> Attention:
    """The attention of a model that knows no window."""
    window = config.optional("sliding_window")
    if window is not None:
        config.notes.append(UNUSED_WINDOW(window=window, model_type=config.text("model_type")))
    return uniform_attention(config, heads, num_layers)


def late_window(config: Config, heads: Heads, num_layers: int, *, max_window_layers: int) -> list[Attention]:
    """Qwen's window: only with `use_sliding_window`, and then from layer `max_window_layers` on."""
    used = config.flag("use_sliding_window", False)
    window = config.optional("sliding_window", 4096) if used else None
    first = num_layers if window is None else config.integer("max_window_layers", max_window_layers, minimum=0)
    types = layer_types(config, num_layers, lambda index: "sliding_attention" if index >= first else "full_attention")
    return attentions(config, heads, types, window)


def sparse_full_types(config: Config, num_layers: int, *, pattern: int) -> tuple[str, ...]:
    """Every `sliding_window_pattern`-th layer is full, the others slide, unless `layer_types` says otherwise."""
    stated = config.optional("sliding_window_pattern") or pattern
    return layer_types(
        config, num_layers, lambda index: "sliding_attention" if (index + 1) % stated else "full_attention"
    )


def rotary_layers(config: Config, num_layers: int) -> tuple[int, ...]:
    """1 for each layer with rotary positions, 0 for the others; the key is named for its zeros."""
    stated = config.integers("no_rope_layers", maximum=1)
    if stated:
        if len(stated) != num_layers:
            config.broken_rule("no_rope_layers", stated, f"len(no_rope_layers) == {num_layers}")
        return stated
    interval = config.optional("no_rope_layer_interval") or 4
    return tuple(int((index + 1) % interval != 0) for index in range(num_layers))
