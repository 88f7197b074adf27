"""What a model is: a list of layers, and the parameters that make them up.

Legend: head_dim elements of one head; width elements kept for each token; window tokens a layer can look
back to. Every predictor walks `Architecture.layers`; nothing else in the project knows model names.
Parameter names and shapes are those of transformers' own modules (experts fused into one tensor).
"""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from capienza.errors import Message

AttentionKind = Literal["full", "sliding", "chunked", "latent", "cross", "uncached"]
StateKind = Literal["mamba", "mamba2", "gated_delta", "conv", "rwkv", "linear", "lru", "mlstm", "prompt"]
MlpKind = Literal["dense", "experts"]
Role = Literal[
    "embedding", "head", "position", "norm", "attention", "mlp", "expert", "router", "state", "vision", "other"
]  # fmt: skip


class Compression(msgspec.Struct, frozen=True, kw_only=True):
    """A cache that keeps one entry of `width` elements for every `rate` tokens.

    Tokens that no entry holds yet keep `pending` elements each. From the first entry on, `carried` elements of the
    last group wait for the next one, and as many as `carried_fp32` in that type.
    """

    rate: int
    width: int
    pending: int
    carried: int = 0
    carried_fp32: int = 0


class Attention(msgspec.Struct, frozen=True, kw_only=True):
    """Attention of one layer. `latent` keeps one shared vector of `latent_width` for each token instead of K and V.

    An `uncached` layer keeps nothing: its model runs over the whole sequence for every new token.
    `cross` looks at the tokens of another model, an image's for example: a text alone keeps nothing in it.
    `window` is the number of tokens a sliding layer keeps, or the chunk of a chunked one.
    `shares_cache_of` names the earlier layer whose cache this one reads; it then holds none of its own. Draft models
    read those of another model: -1.
    `index_width` is what a sparse layer keeps for each token beside its cache, to choose the tokens it looks at.
    `index_dtype` is the format of that part where the model fixes one, whatever that of the cache.
    `passes` is how many caches the layer keeps: one for each attention in it, and for each time a loop runs it.
    `compressions` are caches of whole groups of tokens, beside that of the window; no head owns them.
    """

    kind: AttentionKind
    num_attention_heads: int
    num_key_value_heads: int
    key_head_dim: int
    value_head_dim: int
    window: int | None = None
    latent_width: int = 0
    shares_cache_of: int | None = None
    index_width: int = 0
    index_dtype: str | None = None
    passes: int = 1
    compressions: tuple[Compression, ...] = ()

    @property
    def cache_width(self) -> int:
        """Elements kept for one token on one device that holds the whole layer."""
        if self.shares_cache_of is not None or self.kind in ("cross", "uncached"):
            return 0
        heads = self.num_key_value_heads * (self.key_head_dim + self.value_head_dim)
        return self.passes * ((self.latent_width if self.kind == "latent" else heads) + self.index_width)

    @property
    def whole_width(self) -> int:
        """The part of `cache_width` that no head owns, so that every tensor-parallel rank holds all of it."""
        return self.cache_width if self.kind == "latent" else min(self.passes * self.index_width, self.cache_width)


class StatePart(msgspec.Struct, frozen=True):
    """One constant-size tensor kept for each sequence; `dtype` None means the model's own."""

    name: str
    shape: tuple[int, ...]
    dtype: str | None = None

    @property
    def elements(self) -> int:
        """Elements for one sequence."""
        return math.prod(self.shape)


class State(msgspec.Struct, frozen=True):
    """Recurrent state of one layer for one sequence: it does not grow with the tokens."""

    kind: StateKind
    parts: tuple[StatePart, ...]


class Mlp(msgspec.Struct, frozen=True, kw_only=True):
    """Feed-forward part of one layer; `num_shared_experts` run for every token."""

    kind: MlpKind
    intermediate_size: int
    num_experts: int = 0
    num_experts_per_token: int = 0
    num_shared_experts: int = 0


class Layer(msgspec.Struct, frozen=True, kw_only=True):
    """One block. A part that the block does not have is None."""

    index: int
    attention: Attention | None = None
    state: State | None = None
    mlp: Mlp | None = None


class Parameter(msgspec.Struct, frozen=True):
    """One trainable tensor of the unquantised model; `layer` is None outside the blocks.

    A matrix is [out, in], fused experts [experts, out, in]; with `transposed` the last two are [in, out].
    """

    name: str
    shape: tuple[int, ...]
    role: Role
    layer: int | None = None
    transposed: bool = False

    @property
    def elements(self) -> int:
        """Number of parameters in the tensor."""
        return math.prod(self.shape)


class Architecture(msgspec.Struct, frozen=True, kw_only=True):
    """A causal language model (or the text side of a wrapper).

    A tied head is not a parameter of its own: it is absent from `parameters`, and `tied_head` is true.
    `parameters` is empty when only a file's own tensor table tells them (GGUF). `buffers` are stored and loaded
    with them but not trained: the routing corrections of some mixtures. `prediction_layers` are stated layers for
    multi-token prediction, which stand after the last in the files and are no part of `layers`. `stretched_positions`
    is the length that the scaling of rotary positions reaches, where that is beyond `max_position_embeddings`.
    """

    model_type: str
    hidden_size: int
    vocab_size: int
    max_position_embeddings: int | None
    tied_head: bool
    layers: tuple[Layer, ...]
    parameters: tuple[Parameter, ...] = ()
    buffers: tuple[Parameter, ...] = ()
    prediction_layers: int = 0
    stretched_positions: int | None = None
    notes: tuple[Message, ...] = ()

    @property
    def num_parameters(self) -> int:
        """Exact number of parameters, a tied head counted once."""
        return sum(parameter.elements for parameter in self.parameters)

    @property
    def num_stored_elements(self) -> int:
        """Elements of an unquantised checkpoint: parameters and buffers."""
        return self.num_parameters + sum(buffer.elements for buffer in self.buffers)
