"""From the metadata and the tensor table of a GGUF file to an architecture, as llama.cpp would run it.

Windows, states and shared caches are those that llama.cpp applies (`gguf_rules.table`), so the same weights may
be described differently here and from their config.json. Parameters come from the file's own tensor table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from capienza.architecture.gguf_rules import blocks as kept
from capienza.architecture.gguf_rules.table import INDEXED, NOT_GENERATING, PARTS, RULES, Rule
from capienza.architecture.gguf_rules.tensors import (
    Shapes,
    as_parameter,
    block_shapes,
    is_buffer,
    is_stored,
    mlp_of,
)
from capienza.architecture.model import Architecture, Attention, Layer
from capienza.architecture.positions import stretched_context
from capienza.architecture.reading import MAX_EXPERTS, Config
from capienza.artifacts.gguf_values import LongValue
from capienza.errors import Message, template
from capienza.formats.tensor import Tensor

MAX_BLOCKS = 512
"""The largest number of blocks that llama.cpp loads."""
TOKENS = "tokenizer.ggml.tokens"

UNKNOWN = template(
    "architecture.gguf-unknown",
    "the GGUF architecture {found} is not known; known names near it: {accepted}. Nothing is guessed: plain attention"
    " counts too much cache for windowed, shared or latent blocks, and too little for recurrent states and indexers",
    "The weights can still be counted from the tensor table of the file; the cache cannot.",
)
INDEXER = template(
    "architecture.gguf-indexer",
    "the GGUF architecture {found} keeps an indexer or compressed cache beside K and V, which is not described;"
    " a figure without it would be too low",
    "The weights can still be counted from the tensor table of the file; the cache cannot.",
)
NOT_A_GENERATOR = template(
    "architecture.gguf-not-causal",
    "the GGUF architecture {found} is no causal language model: it keeps no cache while it generates",
    "Give the file of a causal language model.",
)
A_PART = template(
    "architecture.gguf-part",
    "a GGUF file of {found} is a part that runs beside a language model, not a model of its own",
    "Give the file of the language model.",
)
INCOMPLETE = template(
    "architecture.gguf-incomplete",
    "the tensor table has nothing for {found}; a whole model is needed",
    "Give all the parts of a split file together, starting from the first.",
)
PREDICTION_BLOCKS = template(
    "architecture.gguf-prediction-blocks",
    "the last {count} blocks of the file predict further tokens: their weights are counted, and their cache is not,"
    " since they keep one only with speculative decoding",
    "Add the cache of a draft when the engine is started with one.",
)


def describe_gguf(metadata: Mapping[str, Any], tensors: Sequence[Tensor], file: str) -> Architecture:
    """What the model in a GGUF file is.

    `metadata` holds the keys as they are stored, of all its parts together; `tensors` the whole tensor table.
    Rotary tables and quantisation scales are neither parameters nor buffers.
    Raises `InputError` for an architecture that is not known or no causal language model, and for a key or a tensor
    that is missing, of another type, out of bounds or in contradiction with the others.
    """
    name, rule = _rule_of(metadata, file)
    start = f"{name}."
    own = {key.removeprefix(start): value for key, value in metadata.items() if key.startswith(start)}
    config = Config(own, file, prefix=start)
    blocks = config.integer("block_count", maximum=MAX_BLOCKS)
    trunk = blocks - (config.optional("nextn_predict_layers", minimum=0, maximum=blocks - 1) or 0)
    if trunk < blocks:
        config.notes.append(PREDICTION_BLOCKS(count=blocks - trunk))
    hidden = config.integer("embedding_length")
    shapes = block_shapes(tensors, file)
    by_name = {tensor.name: tensor.shape for tensor in tensors}
    layers = _layers(config, rule, blocks, trunk, hidden, shapes)
    recurrent = {layer.index for layer in layers if layer.state and not layer.attention}
    stored = [as_parameter(tensor, recurrent) for tensor in tensors if is_stored(tensor.name)]
    context = config.optional("context_length")
    return Architecture(
        model_type=name,
        hidden_size=hidden,
        vocab_size=_vocabulary(config, metadata, by_name.get("token_embd.weight"), hidden),
        max_position_embeddings=context,
        stretched_positions=stretched_context(config, context),
        tied_head="output.weight" not in by_name,
        layers=layers,
        parameters=tuple(parameter for parameter in stored if not is_buffer(parameter)),
        buffers=tuple(parameter for parameter in stored if is_buffer(parameter)),
        notes=tuple(config.notes),
    )


def _rule_of(metadata: Mapping[str, Any], file: str) -> tuple[str, Rule]:
    """The architecture's name and its row of the table."""
    general = Config(metadata, file)
    kind = general.text("general.type", "model")
    if kind != "model":
        general.refuse("general.type", A_PART(found=repr(kind[:80])))
    name = general.text("general.architecture")
    rule = RULES.get(name)
    if rule is None:
        general.refuse("general.architecture", _refusal(name))
    return name, rule


def _refusal(name: str) -> Message:
    """Why an architecture cannot be described."""
    found = repr(name[:80])
    for names, why in ((INDEXED, INDEXER), (NOT_GENERATING, NOT_A_GENERATOR), (PARTS, A_PART)):
        if name in names:
            return why(found=found)
    import difflib

    near = difflib.get_close_matches(name[:80].lower(), RULES, n=5, cutoff=0.4)
    return UNKNOWN(found=found, accepted=", ".join(near) or "-")


def _layers(config: Config, rule: Rule, blocks: int, trunk: int, hidden: int, shapes: Shapes) -> tuple[Layer, ...]:
    """Every block of the trunk with what it keeps."""
    widths = kept.read_widths(config, blocks, hidden, rule)
    window, windowed = kept.windowed_blocks(config, rule, blocks, trunk)
    shares = kept.sharing(config, rule, blocks, windowed)
    latent = kept.is_latent(config, rule)
    recurrence, state, recurrent = rule.recurrence, None, [False] * blocks
    if recurrence:
        recurrent = kept.recurrent_blocks(config, recurrence, blocks, widths.kv_heads)
        state = kept.state_of(config, recurrence, hidden, widths)
    used = kept.per_block(config, "expert_used_count", blocks, 0)
    shared_experts = config.optional("expert_shared_count", minimum=0, maximum=MAX_EXPERTS)
    layers = []
    for index in range(trunk):
        if index not in shapes:
            config.refuse("block_count", INCOMPLETE(found=f"blk.{index}.*"))
        attention = None
        if not recurrent[index] or (recurrence and recurrence.beside_attention):
            attention = kept.attention_of(
                widths,
                index,
                windows=rule.windows,
                window=window if windowed[index] else None,
                latent=latent,
                shares=shares[index],
            )
        if attention:
            _check_widths(config, index, attention, shapes[index])
        mlp = mlp_of(shapes[index], used[index], shared_experts)
        if mlp and mlp.kind == "experts" and not 0 < used[index] <= mlp.num_experts:
            config.broken_rule("expert_used_count", used[index], f"1 <= expert_used_count <= {mlp.num_experts}")
        layers.append(Layer(index=index, attention=attention, state=state if recurrent[index] else None, mlp=mlp))
    return tuple(layers)


def _check_widths(config: Config, index: int, attention: Attention, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """The metadata must agree with the projections that fill the cache, where these stand apart."""
    if attention.kind == "latent":
        if "attn_kv_b.weight" in shapes and "attn_k_b.weight" not in shapes:
            rule = f"blk.{index}.attn_k_b.weight + blk.{index}.attn_v_b.weight"
            config.broken_rule("attention.key_length_mla", f"blk.{index}.attn_kv_b.weight", rule)
        return
    for letter, name, head_dim in (
        ("k", "key_length", attention.key_head_dim),
        ("v", "value_length", attention.value_head_dim),
    ):
        shape = shapes.get(f"attn_{letter}.weight")
        width = attention.num_key_value_heads * head_dim
        if shape is not None and shape[0] != width:
            rule = f"head_count_kv * {name} == {shape[0]} (blk.{index}.attn_{letter}.weight)"
            config.broken_rule(f"attention.{name}", width, rule)


def _vocabulary(config: Config, metadata: Mapping[str, Any], embedding: tuple[int, ...] | None, hidden: int) -> int:
    """Number of tokens, as the embedding has rows; the tokenizer's list, or else the stated number, must agree."""
    if embedding is None or len(embedding) != 2:
        config.refuse("embedding_length", INCOMPLETE(found="token_embd.weight"))
    rows, columns = embedding
    if columns != hidden:
        config.broken_rule("embedding_length", hidden, f"embedding_length == {columns} (token_embd.weight)")
    tokens = metadata.get(TOKENS)
    if isinstance(tokens, LongValue):  # of a long list the reader keeps the length
        stated: int | None = tokens.length
    else:
        stated = len(tokens) if isinstance(tokens, list) else config.optional("vocab_size")
    if stated not in (None, rows):
        config.broken_rule("vocab_size", stated, f"vocab_size == {rows} (token_embd.weight)")
    return rows
