"""What Apertus and Apertus 1.5 share: heads with norms, an MLP without a gate, and an activation with weights."""

from __future__ import annotations

from collections.abc import Sequence

from capienza.architecture.frame import read_frame
from capienza.architecture.heads import full_attention, read_heads
from capienza.architecture.layer_stack import assemble_stack, plain_part
from capienza.architecture.model import Architecture
from capienza.architecture.pieces import Piece, attention_pieces, norm, plain_mlp
from capienza.architecture.reading import Config


def apertus_model(config: Config, *, vocab_size: int, pruned_head: bool = False) -> Architecture:
    """All layers alike, with full attention; with `pruned_head` the head may have fewer rows than the embedding."""
    frame = read_frame(
        config, hidden_size=4096, num_hidden_layers=32, vocab_size=vocab_size, max_position_embeddings=65536
    )
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=32)
    bias = config.flag("attention_bias", default=False)
    width = config.dimension("intermediate_size", 14336)
    learned = config.text("hidden_act", "xielu") == "xielu"
    activation: list[Piece] = [(f"mlp.act_fn.{part}", (1,), "mlp") for part in ("alpha_p", "alpha_n")]
    constants: list[Piece] = [(f"mlp.act_fn.{part}", (), "mlp") for part in ("beta", "eps")]
    forward = plain_part(
        width,
        [
            *plain_mlp(hidden, width, up="mlp.up_proj", down="mlp.down_proj", bias=False),
            *(activation if learned else []),
        ],
        constants if learned else (),
    )
    common = [
        *attention_pieces(heads, hidden, bias=bias, output_bias=bias, head_norm=True),
        *norm("attention_layernorm", hidden),
        *norm("feedforward_layernorm", hidden),
    ]
    return assemble_stack(
        config,
        frame,
        [full_attention(config, heads, frame.num_layers)] * frame.num_layers,
        common,
        [forward] * frame.num_layers,
        head=_head(config, hidden, frame.vocab_size) if pruned_head else None,
    )


def _head(config: Config, hidden: int, vocab: int) -> Sequence[Piece]:
    """The rows that are kept of the head."""
    rows = config.optional("output_vocab_size") or vocab
    if rows > vocab:
        config.broken_rule("output_vocab_size", rows, f"output_vocab_size <= vocab_size == {vocab}")
    return [("lm_head.weight", (rows, hidden), "head")]
