"""ModernBERT as a decoder: most layers slide, the first has no norm before attention, a head with a transform."""

from __future__ import annotations

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import Heads, attentions, layer_types, share_out
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.pieces import Piece, linear, norm
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """Every third layer is full, the others see half of `local_attention`, unless `layer_types` says otherwise."""
    frame = read_frame(
        config,
        hidden_size=768,
        num_hidden_layers=22,
        vocab_size=50368,
        max_position_embeddings=8192,
        tied=True,
    )
    hidden = frame.hidden_size
    count = config.dimension("num_attention_heads", 12)
    heads = Heads(count, count, share_out(config, hidden, count))
    intermediate = config.dimension("intermediate_size", 1152)
    types = layer_types(config, frame.num_layers, lambda index: _default_type(config, index))
    around = config.optional("local_attention", 128, minimum=0)  # both sides of a token, of which a decoder sees one
    window = around // 2 if around else None
    if window is not None and window < 2:  # between steps nothing would be left of it
        config.broken_rule("local_attention", around, "local_attention >= 4")
    norm_bias = config.flag("norm_bias", False)
    bias = config.flag("attention_bias", False)
    mlp_bias = config.flag("mlp_bias", False)
    pieces: list[Piece] = [
        *(piece for part in ("q_proj", "k_proj", "v_proj", "Wo") for piece in _square(f"attn.{part}", hidden, bias)),
        *norm("mlp_norm", hidden, norm_bias),
        *linear("mlp.Wi", 2 * intermediate, hidden, "mlp", mlp_bias),
        *linear("mlp.Wo", hidden, intermediate, "mlp", mlp_bias),
    ]
    blocks = [
        Block(
            attention=attention,
            mlp=Mlp(kind="dense", intermediate_size=intermediate),
            pieces=[*(norm("attn_norm", hidden, norm_bias) if index else ()), *pieces],
        )
        for index, attention in enumerate(attentions(config, heads, types, window, "local_attention"))
    ]
    return assemble(
        config,
        frame,
        blocks,
        before=[
            ("model.embeddings.tok_embeddings.weight", (frame.vocab_size, hidden), "embedding"),
            *norm("model.embeddings.norm", hidden, norm_bias),
        ],
        after=[
            *norm("model.final_norm", hidden, norm_bias),
            *linear("lm_head.dense", hidden, hidden, "other", config.flag("classifier_bias", False)),
            *norm("lm_head.norm", hidden, norm_bias),
        ],
        head=linear("decoder", frame.vocab_size, hidden, "head", config.flag("decoder_bias", True)),
    )


def _default_type(config: Config, index: int) -> str:
    """The type of a layer where `layer_types` is not stated: the first of each group is full."""
    return "sliding_attention" if index % config.integer("global_attn_every_n_layers", 3) else "full_attention"


def _square(name: str, hidden: int, bias: bool) -> list[Piece]:
    """A projection of attention, as wide as the hidden size."""
    return linear(name, hidden, hidden, "attention", bias)
