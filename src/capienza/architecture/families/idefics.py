"""IDEFICS: Llama's block, and gated layers between that look at the image and keep nothing of it."""

from __future__ import annotations

import msgspec

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import Frame, read_frame
from capienza.architecture.heads import Heads, full_attention, share_out
from capienza.architecture.model import Architecture, Mlp, Parameter
from capienza.architecture.pieces import Piece, attention_pieces, gated_mlp, layer_norms, linear, norm
from capienza.architecture.reading import Config
from capienza.architecture.wrapper import TEXT_SIDE
from capienza.errors import phrase

GATED = "model.gated_cross_attn_layers"


def build(config: Config) -> Architecture:
    """The text side, with its looks at the image: one before every `cross_layer_interval`-th layer."""
    frame = read_frame(config, hidden_size=4096, num_hidden_layers=32, vocab_size=32000, max_position_embeddings=2048)
    hidden = frame.hidden_size
    count = config.dimension("num_attention_heads", 32)
    heads = Heads(count, count, share_out(config, hidden, count))
    width = config.dimension("intermediate_size", 11008)
    config.notes.append(TEXT_SIDE(model_type=config.text("model_type")))
    common = [*gated_mlp(hidden, width), *layer_norms(hidden)]
    block = Block(
        attention=full_attention(config, heads, frame.num_layers),
        mlp=Mlp(kind="dense", intermediate_size=width),
        pieces=[*attention_pieces(heads, hidden), *common],
    )
    before, head = _tables(config, frame)
    architecture = assemble(config, frame, [block] * frame.num_layers, before=before, head=head)
    gated = [*_look(config, heads, hidden), *common]
    interval = config.integer("cross_layer_interval", 1)
    if frame.num_layers % interval:
        config.broken_rule("cross_layer_interval", interval, f"{frame.num_layers} % cross_layer_interval == 0")
    looks = [
        Parameter(f"{GATED}.{index}.{name}", shape, role, index * interval)
        for index in range(frame.num_layers // interval)
        for name, shape, role in gated
    ]
    return msgspec.structs.replace(architecture, parameters=(*architecture.parameters, *looks))


def _tables(config: Config, frame: Frame) -> tuple[list[Piece], list[Piece]]:
    """The embedding and the head, each with a second table for the words added to Llama's."""
    vocab, hidden = frame.vocab_size, frame.hidden_size
    before: list[Piece] = [("model.embed_tokens.weight", (vocab, hidden), "embedding")]
    head = linear("lm_head", vocab, hidden, "head")
    added = config.integer("additional_vocab_size", 0, minimum=0)
    if added:
        before.append(("model.embed_tokens.additional_embedding.weight", (added, hidden), "embedding"))
        head += linear("lm_head.additional_fc", added, hidden, "head")
    return before, head


def _look(config: Config, heads: Heads, hidden: int) -> list[Piece]:
    """Attention to the image's vectors, with a gate on it and one on the MLP."""
    part = config.section("vision_config") or Config({}, config.file, prefix="vision_config.", parent=config)
    seen = part.with_aliases(embed_dim="hidden_size").integer("embed_dim", 768)
    name = "cross_attn"
    kind = config.text("alpha_type", "float")
    if kind not in ("float", "vector"):
        config.not_understood("alpha_type", kind, "float, vector", phrase("the gates may have another size"))
    gate = (1, 1, hidden) if kind == "vector" else (1,)
    pieces: list[Piece] = [
        *linear(f"{name}.q_proj", hidden, hidden, "attention"),
        *linear(f"{name}.k_proj", hidden, seen, "attention"),
        *linear(f"{name}.v_proj", hidden, seen, "attention"),
        *linear(f"{name}.o_proj", hidden, hidden, "attention"),
        ("alpha_cross_attn", gate, "attention"),
        ("alpha_dense", gate, "mlp"),
    ]
    if config.flag("qk_layer_norms", default=False):
        pieces += [*norm(f"{name}.q_layer_norm", heads.head_dim), *norm(f"{name}.k_layer_norm", heads.head_dim)]
    return pieces
