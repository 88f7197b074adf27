"""The tensors that blocks are made of, by name, shape and role.

Legend: a piece is (name within its block, shape, role); rows x columns is the shape of a linear weight,
[out, in] as PyTorch keeps it; hidden the width of the residual stream. Names, shapes and fusions are those of
the modules of transformers 5.24; the tests compare them tensor by tensor.
"""

from __future__ import annotations

from capienza.architecture.heads import Heads
from capienza.architecture.model import Role
from capienza.architecture.reading import MAX_EXPERTS, Config

Piece = tuple[str, tuple[int, ...], Role]


def linear(name: str, rows: int, columns: int, role: Role, bias: bool = False) -> list[Piece]:
    """A linear layer [out, in], with its bias when it has one."""
    weight: Piece = (f"{name}.weight", (rows, columns), role)
    return [weight, (f"{name}.bias", (rows,), role)] if bias else [weight]


def norm(name: str, width: int, bias: bool = False) -> list[Piece]:
    """A normalisation; with a bias it is a layer norm, without one an RMS norm."""
    weight: Piece = (f"{name}.weight", (width,), "norm")
    return [weight, (f"{name}.bias", (width,), "norm")] if bias else [weight]


def layer_norms(hidden: int, bias: bool = False) -> list[Piece]:
    """The norms before attention and before the MLP, under their usual names."""
    return [*norm("input_layernorm", hidden, bias), *norm("post_attention_layernorm", hidden, bias)]


def attention_pieces(
    heads: Heads,
    hidden: int,
    *,
    bias: bool = False,
    output_bias: bool = False,
    head_norm: bool = False,
    name: str = "self_attn",
    output: str = "o_proj",
) -> list[Piece]:
    """Separate projections of Q, K, V and the output; `head_norm` adds a norm over each head of Q and K."""
    pieces = [
        *linear(f"{name}.q_proj", heads.query_width, hidden, "attention", bias),
        *linear(f"{name}.k_proj", heads.key_width, hidden, "attention", bias),
        *linear(f"{name}.v_proj", heads.key_width, hidden, "attention", bias),
        *linear(f"{name}.{output}", hidden, heads.query_width, "attention", output_bias),
    ]
    if head_norm:
        pieces += [*norm(f"{name}.q_norm", heads.head_dim), *norm(f"{name}.k_norm", heads.head_dim)]
    return pieces


def sinks(heads: Heads) -> list[Piece]:
    """A learned logit for each head, which takes part in the softmax as a token would."""
    return [("self_attn.sinks", (heads.num_attention_heads,), "attention")]


def gated_mlp(hidden: int, intermediate: int, *, bias: bool = False, name: str = "mlp") -> list[Piece]:
    """Gate, up and down projections."""
    return [
        *linear(f"{name}.gate_proj", intermediate, hidden, "mlp", bias),
        *linear(f"{name}.up_proj", intermediate, hidden, "mlp", bias),
        *linear(f"{name}.down_proj", hidden, intermediate, "mlp", bias),
    ]


def plain_mlp(hidden: int, intermediate: int, *, up: str, down: str, bias: bool = True) -> list[Piece]:
    """Two projections without a gate, by their full names."""
    return [
        *linear(up, intermediate, hidden, "mlp", bias),
        *linear(down, hidden, intermediate, "mlp", bias),
    ]


def fused_experts(experts: int, hidden: int, intermediate: int, *, name: str = "mlp.experts") -> list[Piece]:
    """All experts of a layer in two tensors: gate and up together, and down."""
    return [
        (f"{name}.gate_up_proj", (experts, 2 * intermediate, hidden), "expert"),
        (f"{name}.down_proj", (experts, hidden, intermediate), "expert"),
    ]


def read_experts(config: Config, key: str, default: int, *, per_token: int | None, minimum: int = 1) -> tuple[int, int]:
    """Number of experts, and how many of them each token takes; the arguments are the class defaults."""
    experts = config.dimension(key, default, minimum=minimum, maximum=MAX_EXPERTS)
    chosen = config.integer("num_experts_per_tok", per_token, maximum=MAX_EXPERTS)
    if experts and chosen > experts:
        config.broken_rule("num_experts_per_tok", chosen, f"num_experts_per_tok <= {key} == {experts}")
    return experts, chosen


def sparse_layers(config: Config, num_layers: int, experts: int) -> list[bool]:
    """Which layers of a Qwen mixture hold experts: every `decoder_sparse_step`-th but those of `mlp_only_layers`."""
    dense = set(config.layer_indices("mlp_only_layers", num_layers) or ())
    step = config.integer("decoder_sparse_step", 1)
    return [experts > 0 and index not in dense and (index + 1) % step == 0 for index in range(num_layers)]
