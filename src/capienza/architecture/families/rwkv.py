"""RWKV 4: time mixing and channel mixing, a state of five vectors in each layer and no cache."""

from __future__ import annotations

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import Frame
from capienza.architecture.model import Architecture, Mlp, State, StatePart
from capienza.architecture.pieces import Piece, linear, norm
from capienza.architecture.reading import MAX_LAYERS, Config

SUMS = ("numerator", "denominator", "maximum")
"""What the weighted average keeps, in fp32; the last inputs of both mixings follow the model's type."""


def build(config: Config) -> Architecture:
    """All layers alike, but the first has a norm of its own over the embedding."""
    config = config.with_aliases(context_length="max_position_embeddings")
    hidden = config.dimension("hidden_size", 4096)
    frame = Frame(
        hidden_size=hidden,
        num_layers=config.dimension("num_hidden_layers", 32, maximum=MAX_LAYERS),
        vocab_size=config.dimension("vocab_size", 50277),
        max_positions=config.integer("context_length", 1024),
        tied_head=config.flag("tie_word_embeddings", False),
    )
    width = config.optional("attention_hidden_size") or hidden
    if width != hidden:  # transformers keeps its sums as wide as the hidden size
        config.broken_rule("attention_hidden_size", width, f"attention_hidden_size == hidden_size == {hidden}")
    intermediate = config.optional("intermediate_size") or 4 * hidden
    state = State(
        "rwkv",
        (
            StatePart("time mix", (hidden,)),
            StatePart("channel mix", (hidden,)),
            *(StatePart(name, (hidden,), "fp32") for name in SUMS),
        ),
    )
    pieces = [*norm("ln1", hidden, bias=True), *norm("ln2", hidden, bias=True), *_mixings(hidden, intermediate)]
    mlp = Mlp(kind="dense", intermediate_size=intermediate)
    first = Block(state=state, mlp=mlp, pieces=[*norm("pre_ln", hidden, bias=True), *pieces])
    later = Block(state=state, mlp=mlp, pieces=pieces)
    return assemble(
        config,
        frame,
        [first] + [later] * (frame.num_layers - 1),
        before=[("rwkv.embeddings.weight", (frame.vocab_size, hidden), "embedding")],
        after=norm("rwkv.ln_out", hidden, bias=True),
        head=linear("head", frame.vocab_size, hidden, "head"),
        blocks_at="rwkv.blocks",
    )


def _mixings(hidden: int, intermediate: int) -> list[Piece]:
    """The tensors of both mixings; each mixes an input with the one before it by a learned weight."""
    return [
        ("attention.time_decay", (hidden,), "state"),
        ("attention.time_first", (hidden,), "state"),
        *((f"attention.time_mix_{part}", (1, 1, hidden), "state") for part in ("key", "value", "receptance")),
        *(
            piece
            for part in ("key", "value", "receptance", "output")
            for piece in linear(f"attention.{part}", hidden, hidden, "state")
        ),
        *((f"feed_forward.time_mix_{part}", (1, 1, hidden), "state") for part in ("key", "receptance")),
        *linear("feed_forward.key", intermediate, hidden, "mlp"),
        *linear("feed_forward.receptance", hidden, hidden, "mlp"),
        *linear("feed_forward.value", hidden, intermediate, "mlp"),
    ]
