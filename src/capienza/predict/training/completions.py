"""Completions of reinforcement learning on the GPU that trains: by the model itself, or by an engine beside it.

Legend: R rows of one update (microbatch x accumulation), which TRL writes at once; P and C tokens of prompt and
completion, V vocabulary.
    prefill   the prompts through the model without gradients, and of each row the last logits
    logits    of the last token R V: in 16 bits, in fp32 where outputs leave in it, a copy in fp32, and probabilities
    cache     keys and values of R (P + C) tokens at the end of decode
    widening  each new token's keys are joined to those of a layer, and with a mask keys and values are repeated for
              every head: one layer at a time
Sources: trl trainer/grpo_trainer.py (generation_batch_size, _generate_single_turn), transformers 5.24
generation/utils.py (_sample), cache_utils.py (DynamicLayer.update), integrations/sdpa_attention.py; for an engine that
sleeps `rollout`.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from capienza.architecture.model import Architecture
from capienza.errors import InputError
from capienza.ledger.entry import Entry
from capienza.ledger.phase import Phase
from capienza.predict.cache import TRANSFORMERS_RULE, cache_need
from capienza.predict.training import texts
from capienza.predict.training.blocks.decoder import Decoder, stack
from capienza.predict.training.blocks.linear import linear
from capienza.predict.training.entries import AFTER_LOAD, ROLLOUT, Phases, expected, unknown
from capienza.predict.training.operations import FP32, cast
from capienza.predict.training.rollout import outside_bytes
from capienza.predict.training.tape import LOGITS, Event, Tape
from capienza.predict.training.trained import BYTES
from capienza.recipe.recipe import Checkpointing, Preference, Recipe

LENGTHS = ("training.prompt_tokens", "training.completion_tokens")
TRL = "trl grpo_trainer.py (generation_batch_size)"
ATTENTION = "transformers cache_utils.py (DynamicLayer.update), integrations/sdpa_attention.py (repeat_kv)"
DURING_UPDATES: Phases = tuple(phase for phase in AFTER_LOAD if phase not in ROLLOUT)


def written_rows(recipe: Recipe) -> int:
    """Completions that are written at once."""
    return recipe.microbatch * recipe.accumulation


def prompt_rows_tokens(recipe: Recipe) -> int:
    """Tokens of all prompts of an update; 0 where their length is not known."""
    prompt = recipe.preference.prompt_tokens if recipe.preference is not None else None
    return written_rows(recipe) * (prompt or 0)


def of_prompts(recipe: Recipe) -> Recipe | None:
    """The recipe of the pass that reads the prompts; None where the model writes none, or they are of any length."""
    preference = recipe.preference
    if preference is None or preference.rollout != "transformers" or preference.prompt_tokens is None:
        return None
    return msgspec.structs.replace(
        recipe,
        tokens=preference.prompt_tokens,
        microbatch=written_rows(recipe),
        checkpointing=Checkpointing(kind="none"),
    )


def prompt_events(model: Decoder, asked: Recipe) -> list[Event]:
    """Prompts through the model, to the probabilities of each row's next token."""
    tape = Tape(BYTES[asked.precision.autocast] if asked.precision.autocast else None)
    tape.is_training = False
    tape.segment(("forward", "entry"))
    with tape.no_grad():
        with tape.autocasting():
            rows = stack(tape, model)
            tape.segment(("forward", "loss"))
            tape.kind = LOGITS
            last = tape.new(model.batch * model.head.module.weight.columns, rows.item)
            logits = linear(tape, last, model.head.module)
            del last, rows
            tape.segment(("forward", "exit"))
        if asked.precision.widens_outputs:
            logits = cast(tape, logits, FP32)
        copied = tape.new(logits.elements, FP32)
        chances = tape.new(logits.elements, FP32)
        del logits, copied, chances
    return list(tape.events)


def completions(architecture: Architecture, recipe: Recipe, preference: Preference, device: str) -> Iterator[Entry]:
    """What writing the completions of one update holds beside the model, when `transformers` does it."""
    prompt, completion = preference.prompt_tokens, preference.completion_tokens
    if prompt is None or completion is None:
        yield unknown("kv_cache", ROLLOUT, device, LENGTHS)
        return
    dtype, rows = recipe.precision.base, written_rows(recipe)
    for phase, tokens in ((Phase.PREFILL, prompt), (Phase.DECODE, prompt + completion)):
        need = cache_need(architecture, tokens, dtype, dtype, TRANSFORMERS_RULE)
        total = rows * (need.windowed_bytes + need.state_bytes)
        formula = texts.ROLLOUT_CACHE(rows=rows, layers=need.formula, total=total)
        yield expected("kv_cache", (phase,), device, total, formula, TRL)
    vocabulary = architecture.vocab_size
    size = BYTES[dtype] + FP32 * (3 if recipe.precision.widens_outputs else 2)
    formula = texts.SAMPLED(rows=rows, vocabulary=vocabulary, size=size, total=rows * vocabulary * size)
    yield expected("sampling", (Phase.DECODE,), device, rows * vocabulary * size, formula, "transformers _sample")
    widest = _widening_bytes(architecture, rows * (prompt + completion), BYTES[dtype])
    formula = texts.CACHE_WIDENING(rows=rows, tokens=prompt + completion, total=widest)
    yield expected("pass_temporaries", (Phase.DECODE,), device, widest, formula, ATTENTION)


def _widening_bytes(architecture: Architecture, tokens: int, item: int) -> int:
    """The most of one layer: keys joined anew, keys and values repeated for every head."""
    most = 0
    for layer in architecture.layers:
        shape = layer.attention
        if shape is not None:
            joined = shape.num_key_value_heads * shape.key_head_dim
            spread = shape.num_attention_heads * shape.key_head_dim
            is_grouped = shape.num_attention_heads != shape.num_key_value_heads
            most = max(most, joined, 2 * spread if is_grouped else 0)
    return tokens * most * item


def engine_beside(preference: Preference, device: str, gpu_name: str, cuda_total_bytes: int | None) -> Iterator[Entry]:
    """An engine on the same GPU: its share while it writes, or all the time; what a sleeping one does not give back."""
    phases = ROLLOUT if preference.sleeps else AFTER_LOAD
    share = preference.rollout_share
    if share is None or cuda_total_bytes is None:
        yield unknown("rollout_engine", phases, device, ("--gpu",) if share is not None else ("rollout_share",))
    else:
        formula = texts.ROLLOUT(share=str(share), total_bytes=cuda_total_bytes)
        yield expected("rollout_engine", phases, device, int(share * cuda_total_bytes), formula, "vllm")
    if preference.sleeps:
        yield _asleep(device, gpu_name)


def _asleep(device: str, gpu_name: str) -> Entry:
    try:
        held = outside_bytes(gpu_name, is_asleep=True, with_context=False)
    except InputError:
        return unknown("rollout_residue", DURING_UPDATES, device, ("a reading on the card",), texts.READING())
    formula = texts.ASLEEP(total=held)
    return expected("rollout_residue", DURING_UPDATES, device, held, formula, "AgileRL 2.8 memory profiles, NVML")
