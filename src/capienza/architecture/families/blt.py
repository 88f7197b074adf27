"""Byte Latent Transformer: bytes are encoded, cut into patches, and decoded again."""

from __future__ import annotations

from capienza.architecture.byte_stacks import Stack, read_stack
from capienza.architecture.model import Architecture, Layer, Mlp, Parameter
from capienza.architecture.pieces import linear
from capienza.architecture.reading import Config
from capienza.errors import template

UNCACHED = template(
    "architecture.uncached-parts",
    "transformers keeps no keys and values for {parts} of {model_type}, and runs them anew at every step",
    "An engine that keeps them needs more cache than this.",
)
GROUP_SIZES = 6
"""How many sizes of byte groups are hashed where the file states none."""


def build(config: Config) -> Architecture:
    """Only the stacks that read bytes keep keys and values: one for every byte."""
    encoder_part, decoder_part = _part(config, "encoder_config"), _part(config, "decoder_config")
    encoder = read_stack(encoder_part, "local_encoder", hidden_size=1024, num_layers=1, num_heads=16, width=None)
    patches = read_stack(
        _part(config, "global_config"), "global_transformer", hidden_size=2048, num_layers=25, num_heads=16, width=5632
    )
    decoder = read_stack(decoder_part, "local_decoder", hidden_size=1024, num_layers=9, num_heads=16, width=2816)
    vocab = config.dimension("vocab_size", 260)
    tied = config.flag("tie_word_embeddings", default=False)
    if tied and (encoder.hidden, _bytes_known(encoder_part)) != (decoder.hidden, vocab):
        rule = f"encoder_config.vocab_size == {vocab}, encoder_config.hidden_size == {decoder.hidden}"
        config.broken_rule("tie_word_embeddings", tied, rule)
    stacks = [encoder, patches, decoder]
    parameters = [
        *_encoder(encoder, encoder_part),
        *_patches(config, encoder, patches),
        *_decoder(decoder, decoder_part),
        Parameter("model.encoder_hash_tok_embedding.weight", (_hash_rows(config), encoder.hidden), "embedding"),
    ]
    if config.flag("patch_in_forward", default=True):
        stacks.append(patcher := _read_patcher(config))
        parameters += _patcher(patcher, _part(config, "patcher_config"))
    if not tied:
        parameters.append(Parameter("lm_head.weight", (vocab, decoder.hidden), "head"))
    config.notes.append(UNCACHED(parts="global_transformer, patcher", model_type=config.text("model_type")))
    return Architecture(
        model_type=config.text("model_type"),
        hidden_size=decoder.hidden,
        vocab_size=vocab,
        max_position_embeddings=config.integer("max_position_embeddings", 4096),
        tied_head=tied,
        layers=_layers(stacks, caching={encoder.name, decoder.name}),
        parameters=tuple(parameters),
    )


def _part(config: Config, key: str) -> Config:
    """A part of the file; one that is missing has the defaults of its class."""
    return config.section(key) or Config({}, config.file, prefix=f"{config.prefix}{key}.", parent=config)


def _layers(stacks: list[Stack], caching: set[str]) -> tuple[Layer, ...]:
    kinds = [
        (stack.heads.attention() if stack.name in caching else None, Mlp(kind="dense", intermediate_size=stack.width))
        for stack in stacks
        for _ in range(stack.num_layers)
    ]
    return tuple(Layer(index=index, attention=attention, mlp=mlp) for index, (attention, mlp) in enumerate(kinds))


def _bytes_known(part: Config) -> int:
    return part.integer("vocab_size", 260)


def _crossing(stack: Stack, part: Config, *, everywhere: bool) -> int:
    """Layers that cross to the patches: beside every block, or one."""
    return stack.num_layers if part.flag("cross_attn_all_layers", everywhere) else 1


def _encoder(stack: Stack, part: Config) -> list[Parameter]:
    patch = part.integer("cross_attn_k", 2) * stack.hidden
    return [
        *stack.parameters(_crossing(stack, part, everywhere=False)),
        *stack.outside(
            *linear("patch_embedding_projection", patch, stack.hidden, "other"),
            ("embed_tokens.weight", (_bytes_known(part), stack.hidden), "embedding"),
        ),
    ]


def _patches(config: Config, encoder: Stack, stack: Stack) -> list[Parameter]:
    """The transformer of patches, with a projection where patches come in another width."""
    incoming = encoder.hidden * config.integer("cross_attn_k", 2)
    projection = linear("token_embedding_projection", stack.hidden, incoming, "other")
    return [*stack.parameters(), *(stack.outside(*projection) if incoming != stack.hidden else [])]


def _decoder(stack: Stack, part: Config) -> list[Parameter]:
    patch = part.integer("cross_attn_k", 2) * stack.hidden
    return [
        *stack.parameters(_crossing(stack, part, everywhere=True)),
        *stack.outside(
            *linear("patch_embedding_projection", patch, part.integer("hidden_size_global", 2048), "other"),
            ("norm.weight", (stack.hidden,), "norm"),
        ),
    ]


def _read_patcher(config: Config) -> Stack:
    part = _part(config, "patcher_config")
    return read_stack(part, "patcher", hidden_size=768, num_layers=14, num_heads=12, width=2048)


def _patcher(stack: Stack, part: Config) -> list[Parameter]:
    """A small language model of its own, which tells where a patch ends."""
    vocab = _bytes_known(part)
    return [
        *stack.parameters(),
        *stack.outside(
            ("embed_tokens.weight", (vocab, stack.hidden), "embedding"),
            ("norm.weight", (stack.hidden,), "norm"),
            ("lm_head.weight", (vocab, stack.hidden), "head"),
        ),
    ]


def _hash_rows(config: Config) -> int:
    """Rows of the table of hashed byte groups: one part for every function and size of groups."""
    sizes = len(config.integers("encoder_hash_byte_group_size", minimum=1) or ()) or GROUP_SIZES
    functions = config.integer("encoder_hash_byte_group_nb_functions", 1)
    return functions * sizes * config.integer("encoder_hash_byte_group_vocab", 500_002)
