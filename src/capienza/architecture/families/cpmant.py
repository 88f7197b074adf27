"""CPM-Ant: learned prompts before every sequence, one table of relative positions for all layers."""

from __future__ import annotations

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import Frame
from capienza.architecture.heads import Heads, full_attention
from capienza.architecture.model import Architecture, Mlp, State, StatePart
from capienza.architecture.pieces import linear, norm
from capienza.architecture.reading import MAX_LAYERS, Config


def build(config: Config) -> Architecture:
    """All layers alike, with full attention; the head is never tied.

    The prompt's K and V are kept beside those of the tokens: a part of each sequence that does not grow.
    """
    hidden = config.dimension("hidden_size", 4096)
    frame = Frame(
        hidden_size=hidden,
        num_layers=config.dimension("num_hidden_layers", 48, maximum=MAX_LAYERS),
        vocab_size=config.dimension("vocab_size", 30720),
        max_positions=None,
        tied_head=False,
    )
    count = config.dimension("num_attention_heads", 32)
    heads = Heads(count, count, config.dimension("dim_head", 128))
    intermediate = config.dimension("dim_ff", 10240)
    prompt = config.integer("prompt_length", 32, minimum=0)
    words = frame.vocab_size + config.integer("prompt_types", 32, minimum=0) * prompt
    segments = config.integer("segment_types", 32)
    name = "self_att.self_attention"
    kept = State("prompt", (StatePart("prompt", (2, count, prompt, heads.head_dim)),)) if prompt else None
    block = Block(
        attention=full_attention(config, heads, frame.num_layers),
        state=kept,
        mlp=Mlp(kind="dense", intermediate_size=intermediate),
        pieces=[
            *norm("self_att.layernorm_before_attention", hidden),
            *(
                piece
                for part in ("project_q", "project_k", "project_v")
                for piece in linear(f"{name}.{part}", heads.query_width, hidden, "attention")
            ),
            *linear(f"{name}.attention_out", hidden, heads.query_width, "attention"),
            *norm("ffn.layernorm_before_ffn", hidden),
            *linear("ffn.ffn.w_in.w_0", intermediate, hidden, "mlp"),
            *linear("ffn.ffn.w_in.w_1", intermediate, hidden, "mlp"),
            *linear("ffn.ffn.w_out", hidden, intermediate, "mlp"),
        ],
    )
    buckets = segments * segments + config.integer("position_bias_num_buckets", 512)
    return assemble(
        config,
        frame,
        [block] * frame.num_layers,
        before=[
            ("cpmant.segment_embedding.weight", (segments, hidden), "position"),
            ("cpmant.input_embedding.weight", (words, hidden), "embedding"),
            ("cpmant.position_bias.relative_attention_bias", (buckets, count), "position"),
        ],
        after=norm("cpmant.encoder.output_layernorm", hidden),
        blocks_at="cpmant.encoder.layers",
    )
