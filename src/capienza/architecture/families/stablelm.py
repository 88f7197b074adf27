"""StableLM: layer norms, and where asked a norm of its own for each head of Q and K."""

from __future__ import annotations

from capienza.architecture.assembly import assemble
from capienza.architecture.forward_parts import dense_forward, layer_block
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import Heads, full_attention, read_heads
from capienza.architecture.model import Architecture
from capienza.architecture.pieces import Piece, attention_pieces, layer_norms, norm
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers alike, with full attention."""
    frame = read_frame(config, hidden_size=2560, num_hidden_layers=32, vocab_size=50304, max_position_embeddings=4096)
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=32, num_key_value_heads=32, shared_out=True)
    mixing = attention_pieces(heads, hidden, bias=config.flag("use_qkv_bias", default=False))
    if config.flag("qk_layernorm", default=False):
        mixing += _head_norms(heads)
    parallel = config.flag("use_parallel_residual", default=False)
    block = layer_block(
        hidden,
        dense_forward(hidden, config.dimension("intermediate_size", 6912)),
        mixing,
        attention=full_attention(config, heads, frame.num_layers),
        norms=norm("input_layernorm", hidden, bias=True) if parallel else layer_norms(hidden, bias=True),
    )
    return assemble(config, frame, [block] * frame.num_layers, after=norm("model.norm", hidden, bias=True))


def _head_norms(heads: Heads) -> list[Piece]:
    """One norm without a bias for each head."""
    counts = {"q": heads.num_attention_heads, "k": heads.num_key_value_heads}
    return [
        piece
        for part, count in counts.items()
        for head in range(count)
        for piece in norm(f"self_attn.{part}_layernorm.norms.{head}", heads.head_dim)
    ]
