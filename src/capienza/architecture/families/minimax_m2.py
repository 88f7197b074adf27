"""MiniMax M2: full attention and experts in every layer, norms over all of Q and of K together."""

from __future__ import annotations

from capienza.architecture.assembly import assemble
from capienza.architecture.forward_parts import layer_block, note_prediction_layers, sparse_forward
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import full_attention, read_heads
from capienza.architecture.model import Architecture
from capienza.architecture.pieces import attention_pieces, norm, read_experts
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers alike."""
    config = config.with_aliases(num_local_experts="num_experts")
    frame = read_frame(
        config, hidden_size=3072, num_hidden_layers=62, vocab_size=200_064, max_position_embeddings=196_608
    )
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=48, num_key_value_heads=8, head_dim=128)
    _refuse_other_members(config)
    experts, chosen = read_experts(config, "num_local_experts", 256, per_token=8)
    width = config.dimension("intermediate_size", 1536)
    sparse = sparse_forward(hidden, width, experts, chosen, correction="mlp.e_score_correction_bias")
    note_prediction_layers(config, "num_mtp_modules")
    mixing = [
        *attention_pieces(heads, hidden),
        *norm("self_attn.q_norm", heads.query_width),
        *norm("self_attn.k_norm", heads.key_width),
    ]
    block = layer_block(hidden, sparse, mixing, attention=full_attention(config, heads, frame.num_layers))
    return assemble(config, frame, [block] * frame.num_layers)


def _refuse_other_members(config: Config) -> None:
    """Published files may carry keys of the other MiniMax models, which this class does not read."""
    for index, kind in enumerate(config.integers("attn_type_list") or ()):
        if kind != 1:
            config.contradiction(f"attn_type_list[{index}]", kind, "1")
    shared = config.optional("shared_intermediate_size", minimum=0)
    if shared:
        config.contradiction("shared_intermediate_size", shared, "0")
