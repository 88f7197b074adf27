"""XLM: BERT-like layers kept in lists by kind, learned or computed positions, a table of languages."""

from __future__ import annotations

from capienza.architecture.frame import Frame
from capienza.architecture.heads import Heads, full_attention, share_out
from capienza.architecture.model import Architecture, Layer, Mlp, Parameter
from capienza.architecture.pieces import Piece, linear, norm, plain_mlp
from capienza.architecture.reading import MAX_LAYERS, Config
from capienza.errors import phrase

ROOT = "transformer"


def build(config: Config) -> Architecture:
    """All layers alike, with full attention: generation keeps K and V of every token."""
    config = config.with_aliases(
        emb_dim="hidden_size", n_layers="num_hidden_layers", n_heads="num_attention_heads", vocab_size="n_words"
    )
    hidden = config.dimension("emb_dim", 2048)
    positions = config.integer("max_position_embeddings", 512)
    frame = Frame(
        hidden_size=hidden,
        num_layers=config.dimension("n_layers", 12, maximum=MAX_LAYERS),
        vocab_size=config.dimension("vocab_size", 30145),
        max_positions=positions,
        tied_head=config.flag("tie_word_embeddings", True),
    )
    if config.flag("asm", False):
        direction = phrase("the head would come out too large")
        config.not_understood("asm", True, "false", direction)
    if not config.flag("is_encoder", True):
        direction = phrase("transformers builds no such model")
        config.not_understood("is_encoder", False, "true", direction)
    count = config.dimension("n_heads", 16)
    heads = Heads(count, count, share_out(config, hidden, count, "n_heads"))
    words: Piece = (f"{ROOT}.embeddings.weight", (frame.vocab_size, hidden), "embedding")
    before: list[Piece] = [words, (f"{ROOT}.position_embeddings.weight", (positions, hidden), "position")]
    languages = config.integer("n_langs", 1)
    if languages > 1 and config.flag("use_lang_emb", True):
        before.append((f"{ROOT}.lang_embeddings.weight", (languages, hidden), "position"))
    before += norm(f"{ROOT}.layer_norm_emb", hidden, bias=True)
    head = linear("pred_layer.proj", frame.vocab_size, hidden, "head", bias=True)
    parameters = [Parameter(*piece) for piece in before]
    for index in range(frame.num_layers):
        parameters += [Parameter(*piece, index) for piece in _layer(index, hidden)]
    parameters += [Parameter(*piece) for piece in (head[1:] if frame.tied_head else head)]
    attention = full_attention(config, heads, frame.num_layers)
    mlp = Mlp(kind="dense", intermediate_size=4 * hidden)
    return Architecture(
        model_type=config.text("model_type"),
        hidden_size=hidden,
        vocab_size=frame.vocab_size,
        max_position_embeddings=positions,
        tied_head=frame.tied_head,
        layers=tuple(Layer(index=index, attention=attention, mlp=mlp) for index in range(frame.num_layers)),
        parameters=tuple(parameters),
    )


def _layer(index: int, hidden: int) -> list[Piece]:
    """One layer: its attention, its MLP of four times the hidden size, and the norms after both."""
    attention = f"{ROOT}.attentions.{index}"
    mlp = f"{ROOT}.ffns.{index}"
    return [
        *(
            piece
            for part in ("q_lin", "k_lin", "v_lin", "out_lin")
            for piece in linear(f"{attention}.{part}", hidden, hidden, "attention", bias=True)
        ),
        *norm(f"{ROOT}.layer_norm1.{index}", hidden, bias=True),
        *plain_mlp(hidden, 4 * hidden, up=f"{mlp}.lin1", down=f"{mlp}.lin2"),
        *norm(f"{ROOT}.layer_norm2.{index}", hidden, bias=True),
    ]
