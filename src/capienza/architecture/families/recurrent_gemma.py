"""RecurrentGemma: two gated linear recurrences, then one windowed attention; the MLP has half the stated width.

transformers keeps the states in the modules themselves: of the convolution exactly the inputs that the next step
sees, and the recurrence in fp32.
"""

from __future__ import annotations

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import Frame
from capienza.architecture.heads import Heads, read_heads
from capienza.architecture.mixers import RECURRENT_DTYPE, Mixer, convolution
from capienza.architecture.model import Architecture, Mlp, State, StatePart
from capienza.architecture.pieces import Piece, gated_mlp, linear, norm
from capienza.architecture.reading import MAX_LAYERS, Config
from capienza.errors import phrase

KINDS = ("recurrent", "attention")
REPEATS = 100
"""The class repeats `block_types` so often, and no model has more layers than that."""


def build(config: Config) -> Architecture:
    """The kinds of `block_types` in turn."""
    config = config.with_aliases(attention_window_size="sliding_window")
    frame = Frame(
        hidden_size=config.dimension("hidden_size", 2560),
        num_layers=config.dimension("num_hidden_layers", 26, maximum=MAX_LAYERS),
        vocab_size=config.dimension("vocab_size", 256_000),
        max_positions=None,
        tied_head=config.flag("tie_word_embeddings", default=True),
    )
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=10)
    window = config.integer("attention_window_size", 2048)
    width = config.dimension("intermediate_size", 7680) // 2
    if not width:
        config.broken_rule("intermediate_size", 1, "intermediate_size >= 2")
    mixer = _mixer(config, hidden, heads.num_attention_heads)
    common = [
        *norm("temporal_pre_norm", hidden),
        *norm("channel_pre_norm", hidden),
        *gated_mlp(hidden, width, bias=True, name="mlp_block"),
    ]
    mlp = Mlp(kind="dense", intermediate_size=width)
    attending = Block(
        attention=heads.attention("sliding", window), mlp=mlp, pieces=[*common, *_attention(config, heads, hidden)]
    )
    recurrent = Block(state=mixer.state, mlp=mlp, pieces=[*common, *mixer.pieces])
    kinds = _kinds(config, frame.num_layers)
    return assemble(
        config,
        frame,
        [recurrent if kind == "recurrent" else attending for kind in kinds],
        after=norm("model.final_norm", hidden),
    )


def _kinds(config: Config, num_layers: int) -> list[str]:
    """The kind of every layer."""
    stated = config.texts("block_types") or ("recurrent", "recurrent", "attention")
    for index, kind in enumerate(stated):
        if kind not in KINDS:
            direction = phrase("another kind of layer may keep less cache, or a state of its own")
            config.not_understood(f"block_types[{index}]", kind, ", ".join(KINDS), direction)
    if num_layers > REPEATS * len(stated):
        config.broken_rule("num_hidden_layers", num_layers, f"num_hidden_layers <= {REPEATS * len(stated)}")
    return [stated[index % len(stated)] for index in range(num_layers)]


def _attention(config: Config, heads: Heads, hidden: int) -> list[Piece]:
    """Attention whose output always has a bias."""
    bias = config.flag("attention_bias", default=False)
    name = "temporal_block"
    return [
        *linear(f"{name}.q_proj", heads.query_width, hidden, "attention", bias),
        *linear(f"{name}.k_proj", heads.key_width, hidden, "attention", bias),
        *linear(f"{name}.v_proj", heads.key_width, hidden, "attention", bias),
        *linear(f"{name}.o_proj", hidden, heads.query_width, "attention", bias=True),
    ]


def _mixer(config: Config, hidden: int, heads: int) -> Mixer:
    """Two branches, a convolution, and a recurrence whose gates are square blocks, one for each head."""
    width = config.optional("lru_width") or hidden
    if width % heads:
        config.broken_rule("lru_width", width, f"lru_width % {heads} == 0")
    block, name = width // heads, "temporal_block"
    kernel = config.integer("conv1d_width", 4, minimum=2)
    gates: list[Piece] = []
    for gate in ("input_gate", "recurrent_gate"):
        gates.append((f"{name}.rg_lru.{gate}_weight", (heads, block, block), "state"))
        gates.append((f"{name}.rg_lru.{gate}_bias", (heads, block), "state"))
    pieces: list[Piece] = [
        *linear(f"{name}.linear_y", width, hidden, "state", bias=True),
        *linear(f"{name}.linear_x", width, hidden, "state", bias=True),
        *linear(f"{name}.linear_out", hidden, width, "state", bias=True),
        *convolution(f"{name}.conv_1d", width, kernel, bias=True),
        (f"{name}.rg_lru.recurrent_param", (width,), "state"),
        *gates,
    ]
    parts = (StatePart("history", (kernel - 1, width)), StatePart("recurrent", (width,), RECURRENT_DTYPE))
    return Mixer(pieces, State("lru", parts))
