"""The plain decoder that most families share: separate Q, K, V and output, a gated MLP, RMS norms."""

from __future__ import annotations

from collections.abc import Sequence

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import Frame
from capienza.architecture.heads import Heads
from capienza.architecture.model import Architecture, Attention, Mlp
from capienza.architecture.pieces import attention_pieces, gated_mlp, norm
from capienza.architecture.reading import Config

TWO_NORMS = ("input_layernorm", "post_attention_layernorm")
FOUR_NORMS = (*TWO_NORMS, "pre_feedforward_layernorm", "post_feedforward_layernorm")


def assemble_plain(
    config: Config,
    frame: Frame,
    heads: Heads,
    attentions: Sequence[Attention],
    *,
    intermediate_size: int,
    bias: bool = False,
    output_bias: bool = False,
    mlp_bias: bool = False,
    head_norm: bool = False,
    norms: Sequence[str] = TWO_NORMS,
) -> Architecture:
    """A model whose layers differ in their attention only; `intermediate_size` is the class default.

    `bias` is that of Q, K and V; `norms` names the norms of a layer.
    """
    hidden = frame.hidden_size
    intermediate = config.dimension("intermediate_size", intermediate_size)
    mlp = Mlp(kind="dense", intermediate_size=intermediate)
    pieces = [
        *attention_pieces(heads, hidden, bias=bias, output_bias=output_bias, head_norm=head_norm),
        *gated_mlp(hidden, intermediate, bias=mlp_bias),
        *(piece for name in norms for piece in norm(name, hidden)),
    ]
    return assemble(config, frame, [Block(attention=attention, mlp=mlp, pieces=pieces) for attention in attentions])
