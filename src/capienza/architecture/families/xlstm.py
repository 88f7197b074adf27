"""xLSTM: matrix memories of constant size in every layer, and a gated MLP.

transformers keeps three states for each head: the memory, its normaliser and a stabiliser, in the model's type.
Source: module xLSTMCache of transformers 5.24.
"""

from __future__ import annotations

import msgspec

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.mamba_model import read_mamba_frame
from capienza.architecture.model import Architecture, Mlp, State, StatePart
from capienza.architecture.pieces import Piece, linear, norm
from capienza.architecture.reading import Config, shown
from capienza.errors import phrase, template

ROUNDING = 64
MAX_FACTOR = 1000
BAD_FACTOR = template(
    "architecture.xlstm-factor",
    "found {found}; a number above 0 and up to {maximum} is accepted",
    "Use the config.json published with the model.",
)


def build(config: Config) -> Architecture:
    """All layers alike. The class ties nothing, whatever the config says."""
    config = config.with_aliases(hidden_size="embedding_dim", num_hidden_layers="num_blocks")
    frame = read_mamba_frame(config, hidden_size=4096, num_hidden_layers=32, vocab_size=50304, tied=False)
    frame = msgspec.structs.replace(frame, tied_head=False)
    hidden = frame.hidden_size
    heads = config.dimension("num_heads", 8)
    bias = config.flag("use_bias", default=False)
    keys, values = _width(config, hidden, "qk_dim_factor", 0.5), _width(config, hidden, "v_dim_factor", 1.0)
    for key, width in {"qk_dim_factor": keys, "v_dim_factor": values}.items():
        if width % ROUNDING or width % heads:  # the class makes room for widths rounded up, which then do not fit
            config.broken_rule(key, width, f"hidden_size * {key} % {ROUNDING} == 0, % {heads} == 0")
    factor = _factor(config, "ffn_proj_factor", 2.667)
    multiple = config.integer("ffn_round_up_to_multiple_of", ROUNDING)
    inner = int((hidden * factor + multiple - 1) // multiple * multiple)
    _refuse_fused(config)
    block = Block(
        state=State(
            "mlstm",
            (
                StatePart("memory", (heads, keys // heads, values // heads)),
                StatePart("normaliser", (heads, keys // heads)),
                StatePart("stabiliser", (heads, 1)),
            ),
        ),
        mlp=Mlp(kind="dense", intermediate_size=inner),
        pieces=[
            *norm("norm_mlstm", hidden, bias),
            *_layer(hidden, heads, keys, values, bias),
            *norm("norm_ffn", hidden, bias),
            *_feed_forward(hidden, inner, bias),
        ],
    )
    return assemble(
        config,
        frame,
        [block] * frame.num_layers,
        before=[("backbone.embeddings.weight", (frame.vocab_size, hidden), "embedding")],
        after=norm("backbone.out_norm", hidden),
        blocks_at="backbone.blocks",
    )


def _factor(config: Config, key: str, default: float) -> float:
    value = config.raw(key)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MAX_FACTOR:
        config.refuse(key, BAD_FACTOR(found=shown(value), maximum=MAX_FACTOR))
    return float(value)


def _width(config: Config, hidden: int, key: str, default: float) -> int:
    return int(hidden * _factor(config, key, default))


def _refuse_fused(config: Config) -> None:
    mode = config.text("weight_mode", "single")
    if mode != "single":
        direction = phrase("another layout may hold other weights")
        config.not_understood("weight_mode", mode, "single", direction)


def _layer(hidden: int, heads: int, keys: int, values: int, bias: bool) -> list[Piece]:
    """Q, K, V and the output gate, the input and forget gates of each head, a norm over all heads."""
    name = "mlstm_layer"
    rows = {"q": keys, "k": keys, "v": values, "ogate_preact": values}
    return [
        *(piece for part, width in rows.items() for piece in linear(f"{name}.{part}", width, hidden, "state", bias)),
        *linear(f"{name}.igate_preact", heads, hidden, "state", bias=True),
        *linear(f"{name}.fgate_preact", heads, hidden, "state", bias=True),
        *norm(f"{name}.multihead_norm", values, bias),
        *linear(f"{name}.out_proj", hidden, values, "state", bias),
    ]


def _feed_forward(hidden: int, inner: int, bias: bool) -> list[Piece]:
    """Gate, up and down."""
    return [
        *linear("ffn.proj_up_gate", inner, hidden, "mlp", bias),
        *linear("ffn.proj_up", inner, hidden, "mlp", bias),
        *linear("ffn.proj_down", hidden, inner, "mlp", bias),
    ]
