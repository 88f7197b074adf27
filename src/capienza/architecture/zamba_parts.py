"""What Zamba and Zamba 2 share: a mixer in every layer, and in the hybrid ones a block of attention and MLP before it.

That block reads the stream beside the embeddings, so its input is twice as wide. Its weights are shared: only the
first layers that use it hold them, but every layer that uses it keeps a cache of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import Frame
from capienza.architecture.heads import Heads, layer_types, share_out
from capienza.architecture.mixers import Mixer
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.pieces import Piece, linear, norm
from capienza.architecture.reading import Config

HYBRID = "hybrid"
LAYER_TYPES = frozenset({"linear_attention", HYBRID})


def hybrid_flags(config: Config, num_layers: int, default: Sequence[bool]) -> list[bool]:
    """Which layers hold the shared block, as `layers_block_type` says; `default` is the rule of the class."""
    if config.raw("layer_types") is None and len(default) != num_layers:
        config.broken_rule(
            "num_hidden_layers", num_layers, f"num_hidden_layers == {len(default)}, or layers_block_type"
        )
    kinds = layer_types(config, num_layers, lambda index: HYBRID if default[index] else "linear_attention", LAYER_TYPES)
    return [kind == HYBRID for kind in kinds]


def held_blocks(frame: Frame, shared: int, hybrids: int) -> int:
    """How many layers hold a block: transformers shares them only where the head is tied as well."""
    return shared if frame.tied_head else hybrids


def read_wide_heads(config: Config, hidden: int, *, num_attention_heads: int, num_key_value_heads: int | None) -> Heads:
    """Heads that share out twice the hidden size, unless their own size is stated; the numbers are defaults."""
    wide = config.optional("attention_hidden_size")
    if wide not in (None, 2 * hidden):
        config.broken_rule("attention_hidden_size", wide, f"attention_hidden_size == 2 * {hidden}")
    heads = config.dimension("num_attention_heads", num_attention_heads)
    kv_heads = config.optional("num_key_value_heads", num_key_value_heads) or heads
    if heads % kv_heads:
        config.broken_rule("num_key_value_heads", kv_heads, f"{heads} % num_key_value_heads == 0")
    size = config.optional("attention_head_dim")
    return Heads(heads, kv_heads, size or share_out(config, 2 * hidden, heads))


def wide_attention(heads: Heads, hidden: int, name: str) -> list[Piece]:
    """Projections from twice the hidden size, to the hidden size."""
    return [
        *linear(f"{name}.q_proj", heads.query_width, 2 * hidden, "attention"),
        *linear(f"{name}.k_proj", heads.key_width, 2 * hidden, "attention"),
        *linear(f"{name}.v_proj", heads.key_width, 2 * hidden, "attention"),
        *linear(f"{name}.o_proj", hidden, heads.query_width, "attention"),
    ]


def assemble_zamba(
    config: Config,
    frame: Frame,
    heads: Heads,
    mixer: Mixer,
    intermediate: int,
    flags: Sequence[bool],
    shared: Sequence[Sequence[Piece]],
) -> Architecture:
    """All layers; the hybrid ones hold in turn the blocks of `shared`, and after the last only the link to them."""
    hidden = frame.hidden_size
    own = [*mixer.pieces, *norm("input_layernorm", hidden)]
    inner = [(f"mamba_decoder.{name}", shape, role) for name, shape, role in own]
    blocks = []
    used = 0
    for hybrid in flags:
        if not hybrid:
            blocks.append(Block(state=mixer.state, pieces=own))
            continue
        held = shared[used] if used < len(shared) else ()
        used += 1
        blocks.append(
            Block(
                attention=heads.attention(),
                state=mixer.state,
                mlp=Mlp(kind="dense", intermediate_size=intermediate),
                pieces=[*held, *linear("linear", hidden, hidden, "other"), *inner],
            )
        )
    return assemble(config, frame, blocks, after=norm("model.final_layernorm", hidden))
