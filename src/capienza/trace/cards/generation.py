"""A generation as transformers' `generate` runs it: the prompt, then token by token with a cache.

A long output is not run token by token: the first tokens are, and then the last ones, from a cache that already has
the length of all that went before. What the growing cache does to the allocator in between is then not seen.
"""

from __future__ import annotations

from typing import Any

import torch

from capienza.errors import Message, template
from capienza.trace.cards.model import model_of
from capienza.trace.cards.recipe import Recipe
from capienza.trace.run import enter, keep_as_cache

WHOLE_OUTPUT, ENDS = 64, 8
"""Tokens: the longest output that is run whole; what is run of a longer one at its begin and at its end."""

SHORTENED = template(
    "trace.shortened",
    "of {output} tokens the first {ends} and the last {ends} were run: allocated is that of the whole output, "
    "reserved is a lower bound",
)


class Generation:
    """The state of a run."""

    def __init__(self, recipe: Recipe, device: str) -> None:
        self.recipe, self.device = recipe, device
        self.model = model_of(recipe, device).eval()
        self.model.register_forward_pre_hook(_say_phase, with_kwargs=True)

    def generate(self) -> None:
        """Prompt and output for all sequences at once."""
        recipe = self.recipe
        output = recipe.tokens - recipe.prompt
        enter("prefill")
        ids = torch.zeros(recipe.sequences, recipe.prompt, dtype=torch.int64).to(self.device)
        most = output if output <= WHOLE_OUTPUT else ENDS
        with torch.no_grad():
            told = self.model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=most,
                min_new_tokens=most,
                do_sample=False,
                return_dict_in_generate=True,
            )
            if most < output:
                self.last_tokens(told.past_key_values)

    def last_tokens(self, cache: Any) -> None:
        """The end of a long output, from a cache of the length that it has then."""
        recipe = self.recipe
        for layer in cache.layers:
            _lengthen(layer, recipe.tokens - ENDS)
        for _ in range(ENDS):
            token = torch.zeros(recipe.sequences, 1, dtype=torch.int64).to(self.device)
            self.model(token, past_key_values=cache, use_cache=True, logits_to_keep=1)


def _lengthen(layer: Any, tokens: int) -> None:
    """Let a layer's cache be as if it had seen so many tokens; what is no list of keys and values does not grow."""
    keys, values = getattr(layer, "keys", None), getattr(layer, "values", None)
    if not isinstance(keys, torch.Tensor) or not isinstance(values, torch.Tensor) or keys.dim() != 4:
        return
    window = getattr(layer, "sliding_window", None)
    length = min(tokens, window - 1) if window else tokens
    layer.keys = keys.new_empty(*keys.shape[:2], length, keys.shape[3])
    layer.values = values.new_empty(*values.shape[:2], length, values.shape[3])
    if hasattr(layer, "cumulative_length"):
        layer.cumulative_length = tokens
    keep_as_cache(layer.keys, layer.values)


def shortened(recipe: Recipe) -> Message | None:
    """What is to be said of a long output."""
    output = recipe.tokens - recipe.prompt
    return None if output <= WHOLE_OUTPUT else SHORTENED(output=output, ends=ENDS)


def _say_phase(_model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    ids = kwargs.get("input_ids", args[0] if args else None)
    enter("decode" if ids is not None and ids.shape[1] == 1 else "prefill")
