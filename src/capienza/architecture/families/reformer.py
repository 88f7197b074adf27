"""Reformer: local and hashed attention, axial positions, hidden states kept in place of K and V."""

from __future__ import annotations

from collections.abc import Sequence

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import Frame
from capienza.architecture.heads import Heads
from capienza.architecture.model import Architecture, Attention, Mlp
from capienza.architecture.pieces import Piece, linear, norm
from capienza.architecture.reading import MAX_LAYERS, Config
from capienza.errors import phrase, template

BUCKETS = template(
    "architecture.hash-buckets",
    "the hash buckets of {count} layer(s), {per_token} B for each token of a long sequence, are not counted in the"
    " cache, which is at least this",
    "Multiply by the tokens of all sequences, and add it.",
)
PROJECTIONS = {"local": ("query", "key", "value"), "lsh": ("query_key", "value")}


def build(config: Config) -> Architecture:
    """Two kinds of layer with the same cache; a reversible model, so its last norm sees both of its streams."""
    if not config.flag("is_decoder", False):
        config.broken_rule("is_decoder", False, "is_decoder == true")
    kinds = _kinds(config)
    hidden = config.dimension("hidden_size", 256)
    frame = Frame(
        hidden_size=hidden,
        num_layers=len(kinds),
        vocab_size=config.dimension("vocab_size", 320),
        max_positions=config.integer("max_position_embeddings", 4096),
        tied_head=False,
    )
    count = config.dimension("num_attention_heads", 12)
    heads = Heads(count, count, config.integer("attention_head_size", 64))
    intermediate = config.integer("feed_forward_size", 512)
    hashed = kinds.count("lsh")
    if hashed:
        per_token = 8 * count * config.integer("num_hashes", 1) * hashed
        config.notes.append(BUCKETS(count=hashed, per_token=per_token))
    attention = Attention(
        kind="latent",
        num_attention_heads=count,
        num_key_value_heads=count,
        key_head_dim=heads.head_dim,
        value_head_dim=heads.head_dim,
        latent_width=hidden,
    )
    blocks = {
        kind: Block(
            attention=attention,
            mlp=Mlp(kind="dense", intermediate_size=intermediate),
            pieces=_pieces(PROJECTIONS[kind], heads, hidden, intermediate),
        )
        for kind in set(kinds)
    }
    vocab = frame.vocab_size
    return assemble(
        config,
        frame,
        [blocks[kind] for kind in kinds],
        before=[
            ("reformer.embeddings.word_embeddings.weight", (vocab, hidden), "embedding"),
            *_positions(config, hidden),
        ],
        after=norm("reformer.encoder.layer_norm", 2 * hidden, bias=True),
        head=[("lm_head.bias", (vocab,), "head"), *linear("lm_head.decoder", vocab, 2 * hidden, "head", bias=True)],
        blocks_at="reformer.encoder.layers",
    )


def _kinds(config: Config) -> tuple[str, ...]:
    """The attention of each layer; the list is also their number."""
    kinds = config.texts("attn_layers")
    if kinds is None:
        kinds = ("local", "lsh") * 3
    if not 0 < len(kinds) <= MAX_LAYERS:
        config.broken_rule("attn_layers", kinds, f"1 <= len(attn_layers) <= {MAX_LAYERS}")
    for index, kind in enumerate(kinds):
        if kind not in PROJECTIONS:
            direction = phrase("another kind of layer may keep less cache, or a state of its own")
            config.not_understood(f"attn_layers[{index}]", kind, ", ".join(PROJECTIONS), direction)
    return kinds


def _pieces(projections: Sequence[str], heads: Heads, hidden: int, intermediate: int) -> list[Piece]:
    """One layer; hashed attention has one matrix for Q and K."""
    return [
        *norm("attention.layer_norm", hidden, bias=True),
        *(
            piece
            for part in projections
            for piece in linear(f"attention.self_attention.{part}", heads.query_width, hidden, "attention")
        ),
        *linear("attention.output.dense", hidden, heads.query_width, "attention"),
        *norm("feed_forward.layer_norm", hidden, bias=True),
        *linear("feed_forward.dense.dense", intermediate, hidden, "mlp", bias=True),
        *linear("feed_forward.output.dense", hidden, intermediate, "mlp", bias=True),
    ]


def _positions(config: Config, hidden: int) -> list[Piece]:
    """One table, or the two axes whose vectors are joined."""
    name = "reformer.embeddings.position_embeddings"
    if not config.flag("axial_pos_embds", True):
        positions = config.integer("max_position_embeddings", 4096)
        return [(f"{name}.embedding.weight", (positions, hidden), "position")]
    shape = config.integers("axial_pos_shape", minimum=1) or (64, 64)
    widths = config.integers("axial_pos_embds_dim", minimum=1) or (64, 192)
    if len(shape) != 2 or len(widths) != 2:
        config.broken_rule("axial_pos_shape", shape, "len(axial_pos_shape) == len(axial_pos_embds_dim) == 2")
    if sum(widths) != hidden:
        config.broken_rule("axial_pos_embds_dim", sum(widths), f"sum(axial_pos_embds_dim) == {hidden}")
    return [
        (f"{name}.weights.0", (shape[0], 1, widths[0]), "position"),
        (f"{name}.weights.1", (1, shape[1], widths[1]), "position"),
    ]
