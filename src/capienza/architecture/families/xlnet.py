"""XLNet: relative positions in every layer, and hidden states kept in place of K and V."""

from __future__ import annotations

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.decoder_notes import uncached_attention
from capienza.architecture.frame import Frame
from capienza.architecture.heads import Heads, share_out
from capienza.architecture.model import Architecture, Attention, Mlp
from capienza.architecture.pieces import Piece, linear, norm
from capienza.architecture.reading import MAX_LAYERS, Config
from capienza.errors import phrase


def build(config: Config) -> Architecture:
    """All layers alike; any length is possible."""
    config = config.with_aliases(
        d_model="hidden_size", n_layer="num_hidden_layers", n_head="num_attention_heads", vocab_size="n_token"
    )
    hidden = config.dimension("d_model", 1024)
    frame = Frame(
        hidden_size=hidden,
        num_layers=config.dimension("n_layer", 24, maximum=MAX_LAYERS),
        vocab_size=config.dimension("vocab_size", 32000),
        max_positions=None,
        tied_head=config.flag("tie_word_embeddings", True),
    )
    count = config.dimension("n_head", 16)
    heads = Heads(count, count, share_out(config, hidden, count, "n_head"))
    stated = config.optional("d_head")
    if stated not in (None, heads.head_dim):
        config.broken_rule("d_head", stated, f"d_head == d_model / n_head == {hidden} / {count}")
    intermediate = config.dimension("d_inner", 4096)
    matrix = (hidden, count, heads.head_dim)
    vectors = (count, heads.head_dim)
    pieces: list[Piece] = [
        *((f"rel_attn.{part}", matrix, "attention") for part in ("q", "k", "v", "o", "r")),
        *((f"rel_attn.{part}", vectors, "attention") for part in ("r_r_bias", "r_s_bias", "r_w_bias")),
        ("rel_attn.seg_embed", (2, *vectors), "attention"),
        *norm("rel_attn.layer_norm", hidden, bias=True),
        *norm("ff.layer_norm", hidden, bias=True),
        *linear("ff.layer_1", intermediate, hidden, "mlp", bias=True),
        *linear("ff.layer_2", hidden, intermediate, "mlp", bias=True),
    ]
    block = Block(
        attention=_memory(config, heads, hidden),
        mlp=Mlp(kind="dense", intermediate_size=intermediate),
        pieces=pieces,
    )
    return assemble(
        config,
        frame,
        [block] * frame.num_layers,
        before=[
            ("transformer.mask_emb", (1, 1, hidden), "other"),
            ("transformer.word_embedding.weight", (frame.vocab_size, hidden), "embedding"),
        ],
        after=[],
        head=linear("lm_loss", frame.vocab_size, hidden, "head", bias=True),
        blocks_at="transformer.layer",
    )


def _memory(config: Config, heads: Heads, hidden: int) -> Attention:
    """One hidden state for each of the last `mem_len` tokens; of all of them where it is null or 0."""
    if config.optional("reuse_len", minimum=0):
        direction = phrase("the memory kept would come out too large")
        config.not_understood("reuse_len", config.raw("reuse_len"), "null, 0", direction)
    if not config.flag("use_mems_eval", True):
        return uncached_attention(config, heads)
    kept = config.optional("mem_len", 512, minimum=0)
    return Attention(
        kind="latent",
        num_attention_heads=heads.num_attention_heads,
        num_key_value_heads=heads.num_key_value_heads,
        key_head_dim=heads.head_dim,
        value_head_dim=heads.head_dim,
        window=kept + 1 if kept else None,  # a token looks back to the memory and to itself
        latent_width=hidden,
    )
