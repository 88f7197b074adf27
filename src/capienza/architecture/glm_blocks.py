"""GLM's dense block: gate and up in one projection, and four norms in a layer."""

from __future__ import annotations

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import Frame
from capienza.architecture.heads import Heads, full_attention
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.pieces import attention_pieces, linear, norm
from capienza.architecture.reading import Config

NORMS = ("input_layernorm", "post_attention_layernorm", "post_self_attn_layernorm", "post_mlp_layernorm")


def assemble_glm(config: Config, frame: Frame, heads: Heads, *, intermediate_size: int, bias: bool) -> Architecture:
    """All layers alike, with full attention; `bias` is that of Q, K and V, `intermediate_size` the class default."""
    hidden = frame.hidden_size
    intermediate = config.dimension("intermediate_size", intermediate_size)
    block = Block(
        attention=full_attention(config, heads, frame.num_layers),
        mlp=Mlp(kind="dense", intermediate_size=intermediate),
        pieces=[
            *attention_pieces(heads, hidden, bias=bias),
            *linear("mlp.gate_up_proj", 2 * intermediate, hidden, "mlp"),
            *linear("mlp.down_proj", hidden, intermediate, "mlp"),
            *(piece for name in NORMS for piece in norm(name, hidden)),
        ],
    )
    return assemble(config, frame, [block] * frame.num_layers)
