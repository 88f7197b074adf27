"""Checkpoints in main memory, attention by xformers, and programs of PyTorch's own modules: slopes worked by hand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_training_passes import lora, model, recipe

from capienza.architecture.registry import describe
from capienza.predict.training.passes import passes
from capienza.predict.training.resident import resident_of
from capienza.recipe.recipe import Checkpointing

HIDDEN, TOKENS = 128, 256
GPT = {
    "model_type": "gpt2", "vocab_size": 512, "n_embd": HIDDEN, "n_layer": 3, "n_head": 4, "n_positions": 4096,
    "tie_word_embeddings": False,
}  # fmt: skip


@settings(max_examples=20, deadline=None)
@given(layers=st.integers(1, 6), tokens=st.sampled_from([256, 512, 1024]))
def test_an_offloaded_checkpoint_holds_no_layers_input_at_the_loss(layers: int, tokens: int) -> None:
    """A reentrant one holds 2 B x hidden x tokens of each layer, and nothing else differs before the backward pass."""
    architecture = model(num_hidden_layers=layers)
    held = passes(architecture, lora(tokens=tokens, checkpointing=Checkpointing(kind="full", is_reentrant=True)))
    away = passes(architecture, lora(tokens=tokens, checkpointing=Checkpointing(kind="offload")))
    assert held.forward.where == away.forward.where == "loss"
    # The first layer's input is a leaf, which the graph holds either way.
    assert held.forward.total_bytes - away.forward.total_bytes == 2 * HIDDEN * tokens * (layers - 1)


def test_an_offloaded_layer_more_costs_its_adapters_casts_alone() -> None:
    """Autocast remembers a trained weight's copy of 2 B an element; of the rows nothing stays."""
    asked = lora(checkpointing=Checkpointing(kind="offload"))
    found = [passes(model(num_hidden_layers=layers), asked).forward.total_bytes for layers in (2, 3, 12)]
    elements = sum(one.elements * one.count for one in resident_of(model(num_hidden_layers=1), asked).trained)
    assert found[1] - found[0] == 2 * elements
    assert found[2] - found[1] == 9 * 2 * elements


def test_xformers_repeats_keys_and_values() -> None:
    """Two heads of four are repeated: 2 B x 2 x (4 - 2) heads x 32 x tokens more are kept than flash keeps."""
    flash, repeated = (
        passes(model(num_hidden_layers=layers), recipe(attention=attention)).forward.activations_bytes
        for attention in ("flash_attention_2", "xformers")
        for layers in (5,)
    )
    fewer = [
        passes(model(num_hidden_layers=4), recipe(attention=attention)).forward.activations_bytes
        for attention in ("flash_attention_2", "xformers")
    ]
    more = (repeated - fewer[1]) - (flash - fewer[0])
    assert more == 2 * 2 * (4 - 2) * 32 * TOKENS


@pytest.mark.parametrize(("kernels", "bytes_a_score"), [("transformers", 4 + 2), ("written", 2)])
def test_a_written_out_softmax_keeps_one_copy_of_the_scores(kernels: Any, bytes_a_score: int) -> None:
    """Without dropout; transformers' is made in fp32 (4) and cast (2)."""
    config = GPT | {"attn_pdrop": 0.0, "resid_pdrop": 0.0, "embd_pdrop": 0.0}

    def slope(tokens: int, heads: int) -> int:
        asked = recipe(tokens=tokens, attention="eager", kernels=kernels, microbatch=1)
        found = [
            passes(describe(config | {"n_layer": layers, "n_head": heads}), asked, config).forward.activations_bytes
            for layers in (3, 4)
        ]
        return found[1] - found[0]

    scores = 4 * 1024**2
    assert slope(1024, 8) - slope(1024, 4) == bytes_a_score * scores


def test_layer_norms_of_pytorch_keep_less_than_those_written_out() -> None:
    """Written out: rows less their mean, and that over the root (2 B each), beside the input; two norms a layer."""

    def slope(kernels: Any) -> int:
        asked = recipe(attention="sdpa", kernels=kernels)
        found = [passes(describe(GPT | {"n_layer": layers}), asked, GPT).forward.activations_bytes for layers in (3, 4)]
        return found[1] - found[0]

    assert slope("written") > slope("pytorch") + 2 * 2 * 2 * HIDDEN * TOKENS


def test_a_selective_layer_keeps_every_other_product_and_attention() -> None:
    """Per layer and token, in bf16: the input, products 1, 3, 5 and 7 of q k v o gate up down, and attention with its
    sums: 2 x (128 + 128 + 64 + 256 + 128 + 128) + 4 heads x 4 B, and two seeds of a block."""
    found = [
        passes(
            model(num_hidden_layers=layers),
            recipe(attention="flash_attention_2", checkpointing=Checkpointing(kind="selective")),
        ).forward.activations_bytes
        for layers in (4, 5)
    ]
    kept = 2 * (HIDDEN + HIDDEN + 64 + 256 + HIDDEN + HIDDEN) + 4 * 4
    assert found[1] - found[0] == kept * TOKENS


@settings(max_examples=15, deadline=None)
@given(layers=st.integers(2, 6), tokens=st.sampled_from([256, 512]))
def test_a_selective_checkpoint_lies_between_all_and_nothing(layers: int, tokens: int) -> None:
    architecture = model(num_hidden_layers=layers)
    full, selective, none = (
        passes(architecture, recipe(tokens=tokens, checkpointing=Checkpointing(kind=kind))).forward.activations_bytes
        for kind in ("full", "selective", "none")
    )
    assert full < selective < none
