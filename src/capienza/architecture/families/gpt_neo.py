"""GPT-Neo: learned positions, layers that look at everything and layers that look back a window."""

from __future__ import annotations

from typing import Any

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import Frame
from capienza.architecture.heads import Heads, full_attention, share_out
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.pieces import linear, norm, plain_mlp
from capienza.architecture.reading import MAX_LAYERS, Config, shown
from capienza.errors import phrase, template

LOCAL_LAYERS = template(
    "architecture.local-layers-in-full",
    "{count} layer(s) look back {window} tokens only, but transformers keeps K and V of every token for them too, and"
    " they are counted in full",
    "An engine that keeps the window alone needs less.",
)
KINDS = ("global", "local")


def build(config: Config) -> Architecture:
    """All layers hold the same tensors and the same cache."""
    config = config.with_aliases(num_layers="num_hidden_layers", num_heads="num_attention_heads")
    hidden = config.dimension("hidden_size", 2048)
    positions = config.integer("max_position_embeddings", 2048)
    frame = Frame(
        hidden_size=hidden,
        num_layers=config.dimension("num_layers", 24, maximum=MAX_LAYERS),
        vocab_size=config.dimension("vocab_size", 50257),
        max_positions=positions,
        tied_head=config.flag("tie_word_embeddings", True),
    )
    count = config.dimension("num_heads", 16)
    heads = Heads(count, count, share_out(config, hidden, count, "num_heads"))
    intermediate = config.optional("intermediate_size") or 4 * hidden
    local = _kinds(config, frame.num_layers).count("local")
    if local:
        config.notes.append(LOCAL_LAYERS(count=local, window=config.integer("window_size", 256)))
    name = "attn.attention"
    block = Block(
        attention=full_attention(config, heads, frame.num_layers),
        mlp=Mlp(kind="dense", intermediate_size=intermediate),
        pieces=[
            *norm("ln_1", hidden, bias=True),
            *(
                piece
                for part in ("k_proj", "v_proj", "q_proj")
                for piece in linear(f"{name}.{part}", hidden, hidden, "attention")
            ),
            *linear(f"{name}.out_proj", hidden, hidden, "attention", bias=True),
            *norm("ln_2", hidden, bias=True),
            *plain_mlp(hidden, intermediate, up="mlp.c_fc", down="mlp.c_proj"),
        ],
    )
    return assemble(
        config,
        frame,
        [block] * frame.num_layers,
        before=[
            ("transformer.wte.weight", (frame.vocab_size, hidden), "embedding"),
            ("transformer.wpe.weight", (positions, hidden), "position"),
        ],
        after=norm("transformer.ln_f", hidden, bias=True),
        blocks_at="transformer.h",
    )


def _kinds(config: Config, num_layers: int) -> list[str]:
    """The kind of each layer: groups of kinds, each with the number of its repetitions."""
    groups: Any = config.raw("attention_types")
    if groups is None:
        groups = [[["global", "local"], 12]]
    kinds: list[str] = []
    for group in groups if isinstance(groups, list | tuple) else [None]:
        pair = group if isinstance(group, list | tuple) and len(group) == 2 else (None, None)
        names, repeats = pair
        if not isinstance(names, list | tuple) or isinstance(repeats, bool) or not isinstance(repeats, int):
            config.wrong_type("attention_types", groups, '[[["global", "local"], 12]]')
        if not 0 <= repeats <= MAX_LAYERS or len(names) > MAX_LAYERS:
            config.broken_rule("attention_types", groups, f"0 <= repetitions <= {MAX_LAYERS}")
        if len(kinds) + repeats * len(names) > num_layers:
            config.broken_rule("attention_types", groups, f"{num_layers} layers")
        for name in names:
            if name not in KINDS:
                direction = phrase("another kind of layer may keep less cache, or a state of its own")
                config.not_understood("attention_types", shown(name), ", ".join(KINDS), direction)
        kinds += list(names) * repeats
    if len(kinds) != num_layers:
        config.broken_rule("attention_types", groups, f"{num_layers} layers")
    return kinds
