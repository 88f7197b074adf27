"""OLMo Hybrid: gated delta layers with one layer of full attention in four.

A full layer has its norms after attention and MLP, as in OLMo 2; a delta layer has them before.
"""

from __future__ import annotations

from capienza.architecture.assembly import assemble
from capienza.architecture.forward_parts import dense_forward, layer_block
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import layer_types, read_heads
from capienza.architecture.mixers import GatedDelta, Mixer, convolution
from capienza.architecture.model import Architecture
from capienza.architecture.pieces import Piece, attention_pieces, linear, norm
from capienza.architecture.reading import Config

LAYER_TYPES = frozenset({"full_attention", "linear_attention"})
PERIOD = 4


def build(config: Config) -> Architecture:
    """Every fourth layer attends, or else the last, unless `layer_types` says otherwise."""
    frame = read_frame(
        config, hidden_size=3840, num_hidden_layers=32, vocab_size=100_352, max_position_embeddings=65536
    )
    hidden, layers = frame.hidden_size, frame.num_layers
    heads = read_heads(config, hidden, num_attention_heads=30)
    attends = set(range(PERIOD - 1, layers, PERIOD)) or {layers - 1}
    types = layer_types(
        config,
        layers,
        lambda index: "full_attention" if index in attends else "linear_attention",
        LAYER_TYPES,
    )
    bias = config.flag("attention_bias", default=False)
    attending = [
        *attention_pieces(heads, hidden, bias=bias, output_bias=bias),
        *norm("self_attn.q_norm", heads.query_width),
        *norm("self_attn.k_norm", heads.key_width),
        *norm("post_attention_layernorm", hidden),
        *norm("post_feedforward_layernorm", hidden),
    ]
    delta = _mixer(config, hidden, heads.num_attention_heads)
    dense = dense_forward(hidden, config.dimension("intermediate_size", 11008))
    full = layer_block(hidden, dense, attending, attention=heads.attention(), norms=())
    linear_layer = layer_block(hidden, dense, delta.pieces, state=delta.state)
    return assemble(config, frame, [full if kind == "full_attention" else linear_layer for kind in types])


def _mixer(config: Config, hidden: int, heads: int) -> Mixer:
    """A gated delta mixer with a projection of its own for each part, under attention's names."""
    key_heads = config.optional("linear_num_key_heads") or heads
    value_heads = config.optional("linear_num_value_heads") or heads
    if value_heads % key_heads:
        config.broken_rule("linear_num_key_heads", key_heads, f"{value_heads} % linear_num_key_heads == 0")
    key_dim = config.optional("linear_key_head_dim") or 3 * hidden // (4 * key_heads)
    if not key_dim:
        config.broken_rule("linear_key_head_dim", key_dim, "linear_key_head_dim >= 1")
    delta = GatedDelta(
        hidden=hidden,
        key_heads=key_heads,
        value_heads=value_heads,
        key_dim=key_dim,
        value_dim=config.optional("linear_value_head_dim") or 2 * key_dim,
        kernel=config.integer("linear_conv_kernel_dim", 4),
    )
    name = "linear_attn"
    keys, values = key_heads * key_dim, value_heads * delta.value_dim
    rows = {"q": keys, "k": keys, "v": values, "a": value_heads, "b": value_heads, "g": values}
    pieces: list[Piece] = [
        *((f"{name}.{part}", (value_heads,), "state") for part in ("dt_bias", "A_log")),
        *(piece for part, width in rows.items() for piece in linear(f"{name}.{part}_proj", width, hidden, "state")),
        *convolution(f"{name}.conv1d", 2 * keys + values, delta.kernel, bias=False),
        *norm(f"{name}.o_norm", delta.value_dim),
        *linear(f"{name}.o_proj", hidden, values, "state"),
    ]
    return Mixer(pieces, delta.mixer(name, fused=False).state)
