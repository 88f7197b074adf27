"""The parts of a Byte Latent Transformer: stacks of like blocks, and attention that crosses from one to another.

Legend: a stack is an encoder of bytes, a transformer of patches, a decoder of bytes, or the patcher that cuts
bytes into patches. Each has a part of the file of its own.
"""

from __future__ import annotations

import msgspec

from capienza.architecture.heads import Heads, read_heads
from capienza.architecture.model import Parameter
from capienza.architecture.pieces import Piece, attention_pieces, gated_mlp, layer_norms, norm
from capienza.architecture.reading import MAX_LAYERS, Config


class Stack(msgspec.Struct, frozen=True, kw_only=True):
    """The dimensions of one stack; `name` is that of its module."""

    name: str
    hidden: int
    num_layers: int
    heads: Heads
    width: int

    def parameters(self, crossing: int = 0) -> list[Parameter]:
        """Its blocks, and as many layers that cross to another stack; each numbered within the stack."""
        block = [
            *attention_pieces(self.heads, self.hidden),
            *gated_mlp(self.hidden, self.width),
            *layer_norms(self.hidden),
        ]
        cross = [
            *attention_pieces(self.heads, self.hidden, name="cross"),
            *norm("cross.q_norm", self.hidden),
            *norm("cross.k_norm", self.hidden),
        ]
        made = [
            self._named(f"layers.{index}.{name}", shape, role, index)
            for index in range(self.num_layers)
            for name, shape, role in block
        ]
        return made + [
            self._named(f"cross_attn_layers.{index}.{name.removeprefix('cross.')}", shape, role, index)
            for index in range(crossing)
            for name, shape, role in cross
        ]

    def outside(self, *pieces: Piece) -> list[Parameter]:
        """Tensors of the stack outside its blocks."""
        return [self._named(*piece) for piece in pieces]

    def _named(self, name: str, *rest: object) -> Parameter:
        return Parameter(f"model.{self.name}.{name}", *rest)  # type: ignore[arg-type]


def read_stack(
    part: Config, name: str, *, hidden_size: int, num_layers: int, num_heads: int, width: int | None
) -> Stack:
    """One stack from its part of the file; the numbers are the defaults of its class."""
    hidden = part.integer("hidden_size", hidden_size)
    return Stack(
        name=name,
        hidden=hidden,
        num_layers=part.integer("num_hidden_layers", num_layers, maximum=MAX_LAYERS),
        heads=read_heads(part, hidden, num_attention_heads=num_heads, shared_out=True),
        width=part.optional("intermediate_size", width) or 8 * hidden // 3,
    )
