"""Mixers that keep a constant-size state instead of a cache: Mamba, Mamba-2, gated delta rule, short convolution.

Legend: inner the channels of the mixer; state the elements each channel or head pair remembers; groups share B
and C; kernel the taps of the causal convolution; rank the width that makes the time step depend on the input.
State of one layer for one sequence, which no token makes longer:
    conv       (kernel - 1) x convolved channels, in the model's type: the inputs that the next step still sees
    recurrent  Mamba inner x state; Mamba-2 heads x head_dim x state; gated delta heads x key x value; always fp32
Conventions. vLLM, SGLang and llama.cpp keep kernel - 1 columns, as here; transformers 5.24 keeps kernel, one
column more. Its recurrent part is fp32 whatever the model's type (read from its cache after a decode step); an
engine may be told otherwise (vLLM `mamba_ssm_cache_dtype`). Qwen3-Next's published 0.072 GiB a sequence is this
convention: 36 layers x (3 x 8192 x 2 B + 32 x 128 x 128 x 4 B) = 77 266 944 B.
Names and shapes of tensors: transformers 5.24, modules `*Mixer`, `*GatedDeltaNet` and `*ShortConv`.
"""

from __future__ import annotations

import msgspec

from capienza.architecture.model import State, StateKind, StatePart
from capienza.architecture.pieces import Piece, linear, norm
from capienza.architecture.reading import Config

RECURRENT_DTYPE = "fp32"


class Mixer(msgspec.Struct, frozen=True):
    """The tensors of one mixer and the state it keeps."""

    pieces: list[Piece]
    state: State


def convolution_state(channels: int, kernel: int) -> StatePart:
    """The inputs a causal convolution still sees: kernel - 1 columns."""
    return StatePart("conv", (kernel - 1, channels))


def kept_state(kind: StateKind, channels: int, kernel: int, recurrent: tuple[int, ...]) -> State:
    """A convolution's history beside a recurrent state."""
    return State(kind, (convolution_state(channels, kernel), StatePart("recurrent", recurrent, RECURRENT_DTYPE)))


def convolution(name: str, channels: int, kernel: int, bias: bool) -> list[Piece]:
    """A causal convolution of each channel on its own."""
    weight: Piece = (f"{name}.weight", (channels, 1, kernel), "state")
    return [weight, (f"{name}.bias", (channels,), "state")] if bias else [weight]


class Mamba(msgspec.Struct, frozen=True, kw_only=True):
    """Dimensions of a Mamba mixer."""

    hidden: int
    inner: int
    state: int
    rank: int
    kernel: int
    bias: bool
    convolution_bias: bool
    inner_norms: bool = False

    def mixer(self, name: str) -> Mixer:
        """Its tensors and state; `inner_norms` normalise the time step, B and C."""
        pieces: list[Piece] = [
            (f"{name}.A_log", (self.inner, self.state), "state"),
            (f"{name}.D", (self.inner,), "state"),
            *convolution(f"{name}.conv1d", self.inner, self.kernel, self.convolution_bias),
            *linear(f"{name}.in_proj", 2 * self.inner, self.hidden, "state", self.bias),
            *linear(f"{name}.x_proj", self.rank + 2 * self.state, self.inner, "state"),
            *linear(f"{name}.dt_proj", self.inner, self.rank, "state", bias=True),
            *linear(f"{name}.out_proj", self.hidden, self.inner, "state", self.bias),
        ]
        if self.inner_norms:
            for part, width in (("dt", self.rank), ("b", self.state), ("c", self.state)):
                pieces += norm(f"{name}.{part}_layernorm", width)
        return Mixer(pieces, kept_state("mamba", self.inner, self.kernel, (self.inner, self.state)))


class Mamba2(msgspec.Struct, frozen=True, kw_only=True):
    """Dimensions of a Mamba-2 mixer; the convolution runs over the inner channels and B and C of every group."""

    hidden: int
    heads: int
    head_dim: int
    groups: int
    state: int
    kernel: int
    bias: bool
    convolution_bias: bool
    output_bias: bool | None = None
    gated_norm: bool = True

    def mixer(self, name: str) -> Mixer:
        """Its tensors and state; the output has the input's bias unless `output_bias` differs."""
        inner = self.heads * self.head_dim
        channels = inner + 2 * self.groups * self.state
        output_bias = self.bias if self.output_bias is None else self.output_bias
        pieces: list[Piece] = [
            *((f"{name}.{part}", (self.heads,), "state") for part in ("dt_bias", "A_log", "D")),
            *convolution(f"{name}.conv1d", channels, self.kernel, self.convolution_bias),
            *linear(f"{name}.in_proj", inner + channels + self.heads, self.hidden, "state", self.bias),
            *(norm(f"{name}.norm", inner) if self.gated_norm else []),
            *linear(f"{name}.out_proj", self.hidden, inner, "state", output_bias),
        ]
        recurrent = (self.heads, self.head_dim, self.state)
        return Mixer(pieces, kept_state("mamba2", channels, self.kernel, recurrent))


class GatedDelta(msgspec.Struct, frozen=True, kw_only=True):
    """Dimensions of a gated delta mixer (Qwen3-Next and later): Q and K of the key heads, V of the value heads."""

    hidden: int
    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    kernel: int

    def mixer(self, name: str, *, fused: bool) -> Mixer:
        """Its tensors and state; `fused` inputs are two projections, else there are four."""
        keys, values = self.key_heads * self.key_dim, self.value_heads * self.value_dim
        channels = 2 * keys + values
        inputs = (
            {"in_proj_qkvz": channels + values, "in_proj_ba": 2 * self.value_heads}
            if fused
            else {
                "in_proj_qkv": channels,
                "in_proj_z": values,
                "in_proj_b": self.value_heads,
                "in_proj_a": self.value_heads,
            }
        )
        pieces: list[Piece] = [
            *((f"{name}.{part}", (self.value_heads,), "state") for part in ("dt_bias", "A_log")),
            *convolution(f"{name}.conv1d", channels, self.kernel, bias=False),
            *(piece for part, rows in inputs.items() for piece in linear(f"{name}.{part}", rows, self.hidden, "state")),
            *norm(f"{name}.norm", self.value_dim),
            *linear(f"{name}.out_proj", self.hidden, values, "state"),
        ]
        recurrent = (self.value_heads, self.key_dim, self.value_dim)
        return Mixer(pieces, kept_state("gated_delta", channels, self.kernel, recurrent))


def short_convolution(name: str, hidden: int, kernel: int, bias: bool) -> Mixer:
    """The gated short convolution of LFM2: it keeps its history and no recurrent state."""
    pieces = [
        *convolution(f"{name}.conv", hidden, kernel, bias),
        *linear(f"{name}.in_proj", 3 * hidden, hidden, "state", bias),
        *linear(f"{name}.out_proj", hidden, hidden, "state", bias),
    ]
    return Mixer(pieces, State("conv", (convolution_state(hidden, kernel),)))


# --- reading ---------------------------------------------------------------------------------------------------


def time_step_rank(config: Config, key: str, hidden: int) -> int:
    """The rank of the time step; "auto" or nothing is a sixteenth of the hidden size, rounded up."""
    return -(-hidden // 16) if config.raw(key) in (None, "auto") else config.integer(key)


def read_mamba2(
    config: Config, hidden: int, *, inner: int | None = None, output_bias: bool | None = None, gated_norm: bool = True
) -> Mamba2:
    """The `mamba_*` keys that Bamba, Falcon-H1 and Granite hybrids share; `inner` replaces expand x hidden."""
    inner = inner or config.integer("mamba_expand", 2) * hidden
    heads = config.integer("mamba_n_heads", 128)
    automatic = config.raw("mamba_d_head") in (None, "auto")
    head_dim = inner // heads if automatic else config.integer("mamba_d_head")
    if heads * head_dim != inner:
        config.broken_rule("mamba_n_heads", heads, f"mamba_n_heads * {head_dim} == {inner}")
    return Mamba2(
        hidden=hidden,
        heads=heads,
        head_dim=head_dim,
        groups=config.integer("mamba_n_groups", 1),
        state=config.integer("mamba_d_state", 256),
        kernel=config.integer("mamba_d_conv", 4),
        bias=config.flag("mamba_proj_bias", default=False),
        convolution_bias=config.flag("mamba_conv_bias", default=True),
        output_bias=output_bias,
        gated_norm=gated_norm,
    )


def read_gated_delta(config: Config, hidden: int, *, key_heads: int = 16, value_heads: int = 32) -> GatedDelta:
    """The `linear_*` keys of Qwen3-Next and later; the key heads must divide the value heads.

    The numbers of heads are the class defaults.
    """
    key_heads = config.integer("linear_num_key_heads", key_heads)
    value_heads = config.integer("linear_num_value_heads", value_heads)
    if value_heads % key_heads:
        config.broken_rule("linear_num_key_heads", key_heads, f"{value_heads} % linear_num_key_heads == 0")
    return GatedDelta(
        hidden=hidden,
        key_heads=key_heads,
        value_heads=value_heads,
        key_dim=config.integer("linear_key_head_dim", 128),
        value_dim=config.integer("linear_value_head_dim", 128),
        kernel=config.integer("linear_conv_kernel_dim", 4),
    )
