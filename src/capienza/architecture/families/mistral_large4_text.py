"""The text side of Mistral Large 4: latent attention with indexers; some layers may read the latents of another."""

from __future__ import annotations

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.forward_parts import dense_forward, late_experts, layer_block, sparse_flags, sparse_forward
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import layer_types
from capienza.architecture.indexer import INDEXED, Indexer
from capienza.architecture.latent import Latent, read_latent
from capienza.architecture.mistral_large4_caches import LayerCaches, layer_caches
from capienza.architecture.model import Architecture, Attention
from capienza.architecture.pieces import Piece, gated_mlp, linear, norm, read_experts
from capienza.architecture.reading import MAX_EXPERTS, Config


def build(config: Config) -> Architecture:
    """Experts as `mlp_layer_types` says, else from `first_k_dense_replace` on."""
    config = config.with_aliases(n_routed_experts=("num_local_experts", "num_experts"))
    frame = read_frame(
        config, hidden_size=6144, num_hidden_layers=72, vocab_size=204_800, max_position_embeddings=1_048_576
    )
    hidden = frame.hidden_size
    latent = _latent(config)
    layer_types(config, frame.num_layers, lambda _: INDEXED, {INDEXED})
    indexer = Indexer(config.integer("index_n_heads", 32), config.integer("index_head_dim", 128))
    if indexer.head_dim < latent.rope:
        rule = f"index_head_dim >= qk_rope_head_dim == {latent.rope}"
        config.broken_rule("index_head_dim", indexer.head_dim, rule)
    width = config.dimension("moe_intermediate_size", 6144)
    experts, chosen = read_experts(config, "n_routed_experts", 128, per_token=4)
    shared = config.integer("n_shared_experts", 1, minimum=0, maximum=MAX_EXPERTS)
    beside = gated_mlp(hidden, shared * width, name="mlp.shared_experts")
    sparse = sparse_forward(hidden, width, experts, chosen, shared=shared, shared_pieces=beside)
    dense = dense_forward(hidden, config.dimension("intermediate_size", 24576))
    flags = sparse_flags(config, frame.num_layers, late_experts(config, first=1))
    bias = config.flag("attention_bias", default=False)
    made: dict[tuple[LayerCaches, bool], Block] = {}
    blocks = []
    for flag, caches in zip(flags, layer_caches(config, frame.num_layers), strict=True):
        if (caches, flag) not in made:
            mixing = _mixing(latent, indexer, caches, hidden, bias)
            attention = _attention(latent, indexer, caches)
            made[caches, flag] = layer_block(hidden, sparse if flag else dense, mixing, attention=attention)
        blocks.append(made[caches, flag])
    turning: Piece = ("model.rotary_emb.alpha", (-(-latent.rope // 2),), "position")
    return assemble(config, frame, blocks, after=[*norm("model.norm", hidden), turning])


def _latent(config: Config) -> Latent:
    """The sizes of latent attention; queries are never compressed."""
    stated = config.optional("q_lora_rank")
    if stated is not None:
        config.contradiction("q_lora_rank", stated, "null")
    return read_latent(config, num_attention_heads=64, query_rank=None, rank=512, nope=64)


def _attention(latent: Latent, indexer: Indexer, caches: LayerCaches) -> Attention:
    """What a layer keeps: a latent with or without its rotary part unless it reads another's, and indexer keys."""
    own = latent.rank + (latent.rope if caches.rotary else 0)
    unshared = caches.source is None
    return Attention(
        kind="latent",
        num_attention_heads=latent.num_heads,
        num_key_value_heads=latent.num_key_value_heads,
        key_head_dim=latent.nope + latent.rope,
        value_head_dim=latent.value,
        latent_width=own if unshared else 0,
        shares_cache_of=None if unshared or caches.indexed else caches.source,
        index_width=indexer.head_dim if caches.indexed else 0,
    )


def _mixing(latent: Latent, indexer: Indexer, caches: LayerCaches, hidden: int, bias: bool) -> list[Piece]:
    """The tensors that attend; a layer that reads another's latent makes none."""
    name = "self_attn"
    heads, rope = latent.num_heads, latent.rope if caches.rotary else 0
    nope = latent.nope + latent.rope - rope
    pieces = [
        *linear(f"{name}.q_proj", heads * (latent.nope + latent.rope), hidden, "attention"),
        *linear(f"{name}.kv_b_proj", heads * (nope + latent.value), latent.rank, "attention"),
        *linear(f"{name}.o_proj", hidden, heads * latent.value, "attention", bias),
        *_scaling(name, heads),
    ]
    if caches.source is None:
        pieces += linear(f"{name}.kv_a_proj_with_mqa", latent.rank + rope, hidden, "attention", bias)
        pieces += norm(f"{name}.kv_a_layernorm", latent.rank)
    if caches.indexed:
        pieces += indexer.pieces(hidden, hidden)
        pieces += norm(f"{name}.indexer.q_input_norm", hidden, bias=True)
        pieces += _scaling(f"{name}.indexer", indexer.heads)
    return pieces


def _scaling(name: str, heads: int) -> list[Piece]:
    """What sharpens the softmax of each head as the sequence grows."""
    return [(f"{name}.softmax_scaling.{part}", (heads,), "attention") for part in ("scale", "bias")]
