"""What each block of a GGUF model keeps: its attention with the cache width, and its recurrent state.

Legend: block one layer of the file; trunk the blocks without the appended next-token-prediction ones.
State shapes, fp32, one sequence (llama.cpp `n_embd_r` and `n_embd_s`; source: llama-hparams.cpp at 0c1e57098):
    ssm        conv (d_conv - 1) x (d_inner + 2 x n_group x d_state), recurrent d_state x d_inner
    shortconv  conv (l_cache - 1) x embedding, nothing recurrent
    rwkv       token shift x embedding, recurrent head_size x embedding
    kda        conv 3 x (d_conv - 1) x heads x head, recurrent heads x head x head
    lightning  recurrent heads x key length x key length
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from capienza.architecture.gguf_rules.table import Recurrence, Rule, Windows
from capienza.architecture.model import Attention, State, StatePart
from capienza.architecture.reading import LARGEST, MISSING, NOT_A_FLAG, NOT_A_LIST, Config, shown
from capienza.errors import template

MAX_HEADS = 2**20
STATE_DTYPE = "fp32"


UNUSED_WINDOW = template(
    "architecture.gguf-unused-window",
    "the file states a window of {window} tokens, which llama.cpp does not apply to this model: every block is counted"
    " in full, so an engine that does use the window keeps less",
    "Compare with the cache that the engine prints when it starts.",
)


class Widths(msgspec.Struct, frozen=True, kw_only=True):
    """The heads of every block, and the elements of one key and one value head, windowed or not."""

    heads: tuple[int, ...]
    kv_heads: tuple[int, ...]
    key: int
    value: int
    windowed_key: int
    windowed_value: int


def per_block(
    config: Config, key: str, blocks: int, default: int | None = None, maximum: int = LARGEST
) -> tuple[int, ...]:
    """One number for each block: a list as it stands, one number repeated, or the default."""
    value = config.raw(key)
    if value is None and default is not None:
        return (default,) * blocks
    if not isinstance(value, list | tuple):
        return (config.integer(key, minimum=0, maximum=maximum),) * blocks
    numbers = config.integers(key, maximum=maximum) or ()
    check_length(config, key, numbers, blocks)
    return numbers


def check_length(config: Config, key: str, values: Sequence[int], blocks: int) -> None:
    """A list must have one value for each block."""
    if len(values) != blocks:
        config.broken_rule(key, values, f"len({key}) == block_count == {blocks}")


def flags(config: Config, key: str, blocks: int) -> tuple[bool, ...]:
    """One yes or no for each block, stored as true and false or as 1 and 0."""
    values = config.raw(key)
    if values is None:
        config.refuse(key, MISSING(key=key))
    if not isinstance(values, list | tuple):
        config.refuse(key, NOT_A_LIST(found=shown(values), key=key))
    for index, value in enumerate(values):
        if not isinstance(value, int):
            config.refuse(f"{key}[{index}]", NOT_A_FLAG(found=shown(value), key=f"{key}[{index}]"))
    check_length(config, key, values, blocks)
    return tuple(bool(value) for value in values)


def read_widths(config: Config, blocks: int, hidden: int, rule: Rule) -> Widths:
    """Heads and head sizes; without stated sizes the heads share out the embedding."""
    heads = per_block(config, "attention.head_count", blocks, 0 if rule.never_attends else None, MAX_HEADS)
    kv_heads = heads
    if config.has("attention.head_count_kv"):
        kv_heads = per_block(config, "attention.head_count_kv", blocks, maximum=MAX_HEADS)
    shared = hidden // next((count for count in heads if count), hidden)
    key = config.optional("attention.key_length") or shared
    value = config.optional("attention.value_length") or shared
    if any(kv_heads) and not (key and value):
        config.broken_rule("attention.head_count", max(heads), f"attention.head_count <= embedding_length == {hidden}")
    return Widths(
        heads=heads,
        kv_heads=kv_heads,
        key=key,
        value=value,
        windowed_key=config.optional("attention.key_length_swa") or key,
        windowed_value=config.optional("attention.value_length_swa") or value,
    )


def windowed_blocks(config: Config, rule: Rule, blocks: int, trunk: int) -> tuple[int, tuple[bool, ...]]:
    """The window, and which blocks of the trunk have it."""
    windows = rule.windows
    nothing = (0, (False,) * trunk)
    if windows is None or (windows.only_blocks is not None and trunk != windows.only_blocks):
        stated = config.optional("attention.sliding_window", minimum=0)
        if stated:
            config.notes.append(UNUSED_WINDOW(window=stated))
        return nothing
    window = _window(config, windows)
    if window == 0:
        return nothing
    pattern = config.raw("attention.sliding_window_pattern")
    if windows.full_every is None or isinstance(pattern, list | tuple):
        return window, flags(config, "attention.sliding_window_pattern", blocks)[:trunk]
    every = windows.full_every if pattern is None else config.integer("attention.sliding_window_pattern", minimum=0)
    full_at = 0 if windows.full_first else every - 1
    return window, tuple(every == 0 or index % every != full_at for index in range(trunk))


def _window(config: Config, windows: Windows) -> int:
    """Tokens a windowed block looks back to; 0 when nothing is windowed."""
    key = "attention.sliding_window"
    if config.raw(key) is None and windows.absent is not None:
        window = windows.absent
    else:
        window = config.integer(key, minimum=0 if windows.zero_is_full else 1)
    return windows.always if window and windows.always else window


def recurrent_blocks(config: Config, recurrence: Recurrence, blocks: int, kv_heads: tuple[int, ...]) -> list[bool]:
    """Which blocks keep a recurrent state."""
    if recurrence.where == "all":
        return [True] * blocks
    if recurrence.where == "without_kv":
        return [heads == 0 for heads in kv_heads]
    if recurrence.where == "without_both":
        forward = per_block(config, "feed_forward_length", blocks)
        return [heads == 0 and width == 0 for heads, width in zip(kv_heads, forward, strict=True)]
    if config.has("attention.recurrent_layers"):
        return list(flags(config, "attention.recurrent_layers", blocks))
    every = config.optional("full_attention_interval") or recurrence.full_every
    return [(index + 1) % every != 0 for index in range(blocks)]


def state_of(config: Config, recurrence: Recurrence, hidden: int, widths: Widths) -> State:
    """The state of one recurrent block for one sequence, in the shapes of this module's legend."""

    def part(name: str, *shape: int) -> StatePart:
        return StatePart(name, shape, STATE_DTYPE)

    if recurrence.shape == "shortconv":
        parts = [part("conv", config.integer("shortconv.l_cache") - 1, hidden)]
    elif recurrence.shape == "rwkv":
        shift = config.optional("token_shift_count") or 2
        parts = [part("conv", shift, hidden), part("recurrent", config.integer("wkv.head_size"), hidden)]
    elif recurrence.shape == "kda":
        head, heads = config.integer("kda.head_dim"), widths.heads[0]
        kernel = config.integer("ssm.conv_kernel")
        parts = [part("conv", kernel - 1, 3 * heads * head), part("recurrent", heads, head, head)]
    elif recurrence.shape == "lightning":
        parts = [part("recurrent", widths.heads[0], widths.key, widths.key)]
    else:
        inner, size = config.integer("ssm.inner_size"), config.integer("ssm.state_size")
        groups = config.optional("ssm.group_count", minimum=0) or 0
        kernel = config.integer("ssm.conv_kernel")
        parts = [part("conv", kernel - 1, inner + 2 * groups * size), part("recurrent", size, inner)]
    return State(recurrence.kind, tuple(parts))


def sharing(config: Config, rule: Rule, blocks: int, windowed: tuple[bool, ...]) -> list[int | None]:
    """For each block, the earlier block whose cache it reads: the last of its own kind before sharing starts."""
    own = rule.own_cache_blocks
    if rule.shared_key:
        own = blocks - (config.optional("attention.shared_kv_layers", minimum=0, maximum=blocks) or 0)
    if own is None or own >= len(windowed):
        return [None] * len(windowed)
    sources = {True: own - 2, False: own - 1}
    for kind, source in sources.items():
        if source < 0 or windowed[source] is not kind:
            key = "attention.sliding_window_pattern"
            config.broken_rule(key, list(windowed), f"{key}[{source}] == {shown(kind)}")
    return [None if index < own else sources[windowed[index]] for index in range(len(windowed))]


def is_latent(config: Config, rule: Rule) -> bool:
    """True when the file is converted for a latent cache: K only, V is read from it."""
    if not rule.may_be_latent:
        return False
    key, value = (config.optional(f"attention.{name}_length_mla", minimum=0) or 0 for name in ("key", "value"))
    if bool(key) is not bool(value):
        rule_text = "(attention.key_length_mla > 0) == (attention.value_length_mla > 0)"
        config.broken_rule("attention.key_length_mla", key, rule_text)
    return bool(key)


def attention_of(
    widths: Widths, index: int, *, windows: Windows | None, window: int | None, latent: bool, shares: int | None
) -> Attention | None:
    """The attention of one block; None when it has no KV heads."""
    heads, kv_heads = widths.heads[index], widths.kv_heads[index]
    if kv_heads == 0:
        return None
    key = widths.windowed_key if window else widths.key
    value = widths.windowed_value if window else widths.value
    return Attention(
        kind="latent" if latent else windows.kind if windows and window else "full",
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        key_head_dim=key,
        value_head_dim=value,
        window=window,
        latent_width=kv_heads * key if latent else 0,
        shares_cache_of=shares,
    )
