"""MiniMax Text 01: lightning attention with a state of constant size and full attention in turn, experts.

The decays of lightning attention are stored with the weights: for each head, a block x block matrix among them.
"""

from __future__ import annotations

from capienza.architecture.assembly import assemble
from capienza.architecture.forward_parts import layer_block, sparse_forward
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import UNUSED_WINDOW, Heads, layer_types, read_heads
from capienza.architecture.model import Architecture, State, StatePart
from capienza.architecture.pieces import Piece, attention_pieces, linear, norm, read_experts
from capienza.architecture.reading import Config

LAYER_TYPES = frozenset({"full_attention", "linear_attention"})


def build(config: Config) -> Architecture:
    """Full and linear layers in turn, unless `layer_types` says otherwise."""
    config = config.with_aliases(num_local_experts="num_experts")
    frame = read_frame(
        config, hidden_size=4096, num_hidden_layers=32, vocab_size=32000, max_position_embeddings=131_072
    )
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=32, num_key_value_heads=8)
    experts, chosen = read_experts(config, "num_local_experts", 8, per_token=2)
    sparse = sparse_forward(hidden, config.dimension("intermediate_size", 14336), experts, chosen)
    window = config.optional("sliding_window")
    if window is not None:  # it limits the mask, while the class's own cache keeps every token
        config.notes.append(UNUSED_WINDOW(window=window, model_type=config.text("model_type")))
    types = layer_types(
        config, frame.num_layers, lambda index: "linear_attention" if index % 2 else "full_attention", LAYER_TYPES
    )
    state = State("linear", (StatePart("recurrent", (heads.num_attention_heads, heads.head_dim, heads.head_dim)),))
    buffers = _decays(heads, config.integer("block_size", 256))
    full = layer_block(hidden, sparse, attention_pieces(heads, hidden), attention=heads.attention())
    lightning = layer_block(hidden, sparse, _lightning(heads, hidden), state=state, buffers=buffers)
    return assemble(config, frame, [full if kind == "full_attention" else lightning for kind in types])


def _lightning(heads: Heads, hidden: int) -> list[Piece]:
    """Q, K and V in one projection, a norm over all of the output, and its gate."""
    width = heads.query_width
    return [
        *norm("self_attn.norm", width),
        *linear("self_attn.qkv_proj", 3 * width, hidden, "attention"),
        *linear("self_attn.out_proj", hidden, width, "attention"),
        *linear("self_attn.output_gate", width, hidden, "attention"),
    ]


def _decays(heads: Heads, block: int) -> list[Piece]:
    """The stored decays of every head within a block."""
    count = heads.num_attention_heads
    return [
        ("self_attn.slope_rate", (count, 1, 1), "state"),
        ("self_attn.query_decay", (count, block, 1), "state"),
        ("self_attn.key_decay", (count, block, 1), "state"),
        ("self_attn.diagonal_decay", (1, count, block, block), "state"),
    ]
