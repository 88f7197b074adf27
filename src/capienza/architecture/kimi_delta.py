"""Kimi's delta attention: a gated delta rule whose forget gate has a value for each channel.

Legend: rank the width of a bottleneck, one head here. State of one layer for one sequence: the last inputs of the
convolution over Q, K and V together, and one head_dim x head_dim matrix of each head, always fp32.
"""

from __future__ import annotations

import msgspec

from capienza.architecture.mixers import Mixer, convolution, kept_state
from capienza.architecture.pieces import Piece, linear, norm


class KimiDelta(msgspec.Struct, frozen=True, kw_only=True):
    """Dimensions of a Kimi delta mixer; `bottleneck` gates come through one head's width (Kimi Linear).

    Kimi Linear alone keeps the decay of its heads in four dimensions; `flat_decay` is one.
    """

    hidden: int
    heads: int
    head_dim: int
    kernel: int
    bottleneck: bool
    flat_decay: bool = False

    def mixer(self, name: str) -> Mixer:
        """Its tensors and state."""
        width = self.heads * self.head_dim
        decay = (1, 1, self.heads, 1) if self.bottleneck and not self.flat_decay else (self.heads,)
        pieces: list[Piece] = [
            *(piece for part in "qkv" for piece in linear(f"{name}.{part}_proj", width, self.hidden, "state")),
            *convolution(f"{name}.conv1d", 3 * width, self.kernel, bias=False),
            (f"{name}.forget_gate.A_log", decay, "state"),
            (f"{name}.forget_gate.dt_bias", (width,), "state"),
            *self._gate(f"{name}.forget_gate.f", width),
            *linear(f"{name}.b_proj", self.heads, self.hidden, "state"),
            *self._gate(f"{name}.g", width),
            *norm(f"{name}.o_norm", self.head_dim),
            *linear(f"{name}.o_proj", self.hidden, width, "state"),
        ]
        recurrent = (self.heads, self.head_dim, self.head_dim)
        return Mixer(pieces, kept_state("gated_delta", 3 * width, self.kernel, recurrent))

    def _gate(self, name: str, width: int) -> list[Piece]:
        if not self.bottleneck:
            return linear(f"{name}_proj", width, self.hidden, "state")
        return [
            *linear(f"{name}_a_proj", self.head_dim, self.hidden, "state"),
            *linear(f"{name}_b_proj", width, self.head_dim, "state"),
        ]
