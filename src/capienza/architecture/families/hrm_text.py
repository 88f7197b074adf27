"""HRM-Text: two stacks of layers that a loop runs again and again, with norms that have no parameters.

Every pass through a stack keeps a cache of its own: layer i stands for the two layers i of the lower and of the
upper stack, and keeps as many caches as passes run through both.
"""

from __future__ import annotations

import msgspec

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import Frame
from capienza.architecture.heads import Heads, full_attention, share_out
from capienza.architecture.model import Architecture, Mlp, Parameter
from capienza.architecture.pieces import attention_pieces, gated_mlp, linear
from capienza.architecture.reading import MAX_LAYERS, Config

STACKS = ("L_module", "H_module")


def build(config: Config) -> Architecture:
    """All layers alike, with full attention."""
    config.flag("prefix_lm", default=True)
    passes = config.integer("H_cycles", 2, maximum=MAX_LAYERS) * (config.integer("L_cycles", 3, maximum=MAX_LAYERS) + 1)
    frame = Frame(
        hidden_size=config.dimension("hidden_size", 1536),
        num_layers=_stack_layers(config, passes),
        vocab_size=config.dimension("vocab_size", 151_808),
        max_positions=config.integer("max_position_embeddings", 2048),
        tied_head=config.flag("tie_word_embeddings", default=False),
    )
    hidden = frame.hidden_size
    count = config.dimension("num_attention_heads", 12)
    share_out(config, hidden, count)
    heads = Heads(count, count, config.integer("head_dim", 128))
    bias = config.flag("attention_bias", default=False)
    width = config.dimension("intermediate_size", 4096)
    pieces = [
        *attention_pieces(heads, hidden, bias=bias, output_bias=bias),
        *linear("self_attn.gate_proj", heads.query_width, hidden, "attention", bias),
        *gated_mlp(hidden, width, bias=config.flag("mlp_bias", default=False)),
    ]
    attention = msgspec.structs.replace(full_attention(config, heads, frame.num_layers), passes=passes)
    both = [(f"{stack}.{name}", shape, role) for stack in STACKS for name, shape, role in pieces]
    block = Block(attention=attention, mlp=Mlp(kind="dense", intermediate_size=width), pieces=both)
    architecture = assemble(
        config,
        frame,
        [block] * frame.num_layers,
        before=[
            ("model.embed_tokens.weight", (frame.vocab_size, hidden), "embedding"),
            ("model.z_L_init", (hidden,), "other"),
        ],
        after=(),
        blocks_at="",
    )
    return msgspec.structs.replace(architecture, parameters=tuple(map(_in_its_stack, architecture.parameters)))


def _stack_layers(config: Config, passes: int) -> int:
    """Layers of one stack; `num_hidden_layers` counts every pass where the stack's own key is written."""
    total = config.dimension("num_hidden_layers", 16)
    stack = config.optional("num_layers_per_stack", maximum=MAX_LAYERS)
    if stack is not None and stack * passes != total:
        config.broken_rule("num_hidden_layers", total, f"num_hidden_layers == {stack} * {passes}")
    if stack is None and total > MAX_LAYERS:
        return config.dimension("num_hidden_layers", 16, maximum=MAX_LAYERS)
    return stack or total


def _in_its_stack(parameter: Parameter) -> Parameter:
    """The name with the stack before the number of the layer."""
    if parameter.layer is None:
        return parameter
    _, index, stack, name = parameter.name.split(".", 3)
    return msgspec.structs.replace(parameter, name=f"model.{stack}.layers.{index}.{name}")
