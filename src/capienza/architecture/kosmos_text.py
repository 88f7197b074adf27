"""The text side of Kosmos 2 and 2.5: a pre-norm decoder with biases everywhere and a norm inside the MLP."""

from __future__ import annotations

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.decoder_notes import note_cross_attention
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import Heads, full_attention, share_out
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.pieces import Piece, linear, norm, plain_mlp
from capienza.architecture.reading import Config


def build_kosmos_text(
    config: Config,
    *,
    vocab_size: int,
    max_position_embeddings: int,
    embed_dim: int,
    ffn_dim: int,
    attention_heads: int,
    inner_norm: bool,
    segments: int = 0,
) -> Architecture:
    """All layers alike; positions are computed. The numbers are class defaults, `segments` the rows of a table.

    `inner_norm` lies before the output of attention; only the class that has it may also attend to an encoder.
    """
    config = config.with_aliases(
        hidden_size="embed_dim", num_hidden_layers="layers", num_attention_heads="attention_heads"
    )
    frame = read_frame(
        config,
        hidden_size=embed_dim,
        num_hidden_layers=24,
        vocab_size=vocab_size,
        max_position_embeddings=max_position_embeddings,
        tied=True,
    )
    hidden = frame.hidden_size
    count = config.dimension("num_attention_heads", attention_heads)
    heads = Heads(count, count, share_out(config, hidden, count))
    width = config.dimension("ffn_dim", ffn_dim)
    pieces = [
        *_attention("self_attn", hidden),
        *(norm("self_attn.inner_attn_ln", hidden, bias=True) if inner_norm else []),
        *plain_mlp(hidden, width, up="ffn.fc1", down="ffn.fc2"),
        *norm("ffn.ffn_layernorm", width, bias=True),
        *norm("final_layer_norm", hidden, bias=True),
    ]
    if inner_norm and config.flag("add_cross_attention", default=False):
        pieces += _attention("encoder_attn", hidden)
        note_cross_attention(config, heads, frame.num_layers)
    block = Block(
        attention=full_attention(config, heads, frame.num_layers),
        mlp=Mlp(kind="dense", intermediate_size=width),
        pieces=pieces,
    )
    before: list[Piece] = [("model.embed_tokens.weight", (frame.vocab_size, hidden), "embedding")]
    if segments:
        before.append(("model.segment_emb.weight", (segments, hidden), "position"))
    return assemble(
        config,
        frame,
        [block] * frame.num_layers,
        before=before,
        after=norm("model.layer_norm", hidden, bias=True),
    )


def _attention(name: str, hidden: int) -> list[Piece]:
    """One attention and the norm before it."""
    return [
        *(
            piece
            for part in ("k_proj", "v_proj", "q_proj", "out_proj")
            for piece in linear(f"{name}.{part}", hidden, hidden, "attention", bias=True)
        ),
        *norm(f"{name}_layer_norm", hidden, bias=True),
    ]
