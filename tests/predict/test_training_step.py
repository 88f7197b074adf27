"""What an optimizer step takes for a moment: worked sums, and the step traced on a card's allocator."""

from __future__ import annotations

import pytest
from fms_rows import architecture_of, fms_rows, recipe_of
from training_cards import FULL, TINY_LLAMA, replaced, with_adapters

from capienza.predict.training.resident import resident_of
from capienza.predict.training.runtime import WORKSPACE_BYTES
from capienza.predict.training.states import states_of
from capienza.predict.training.trained import Trained, block_bytes, trained_tensors
from capienza.predict.training.transient import groups, transient
from capienza.units import NOTHING

SHAPES = ((2048, 512), (500, 512), (1024, 256), (512,))
LARGEST = 2048 * 512


def tensors(size):
    return tuple(Trained(f"t{n}.weight", n, shape, size, "whole", "mlp") for n, shape in enumerate(SHAPES))


def test_the_trainer_steps_norms_and_biases_by_themselves():
    trained = trained_tensors(TINY_LLAMA, FULL)
    first, bare = groups(trained, TINY_LLAMA, FULL)
    assert {one.role for one in bare} == {"norm"}
    assert block_bytes(first) + block_bytes(bare) == block_bytes(trained)
    assert transient(trained, TINY_LLAMA, FULL).expected == block_bytes(first)
    whole = transient(trained, TINY_LLAMA, replaced(framework="torchtune"))
    assert whole.expected == block_bytes(trained)


def test_what_is_not_known_is_not_zero():
    trained = trained_tensors(TINY_LLAMA, FULL)
    assert transient(trained, TINY_LLAMA, replaced(optimizer_family="galore_adamw")) is None
    assert transient(trained, TINY_LLAMA, replaced(optimizer_run="fused")) == NOTHING
    assert transient(trained, TINY_LLAMA, replaced(optimizer_library="bitsandbytes")) == NOTHING


def test_runs_bound_by_the_step_peak_where_they_were_measured(shared):
    """Full training of santacoder and PowerLM with 4 rows: weights, gradients, states, and one list more."""
    found = []
    for row in fms_rows(shared):
        peak = next(one["bytes"] for one in row["measured"] if one["counter_kind"] == "torch_allocated_peak")
        if row["method"] != "full" or row["microbatch"] != 4:
            continue
        resident = resident_of(architecture_of(row), recipe_of(row))
        computed = resident.after_bytes + resident.gradients_bytes + resident.transient.expected
        found.append(peak - computed)
    assert sorted(found) == [0, 0, 2**20, 2**20]  # santacoder: a block that is 1 MiB too large to be split


def traced(make, dtype):
    """What the step takes beyond weights, gradients and states, on a traced A100."""
    torch = pytest.importorskip("torch")
    from capienza.trace.peak import predict_peak
    from capienza.trace.run import enter

    def build():
        made = [torch.nn.Parameter(torch.zeros(one, dtype=dtype, device="cuda")) for one in SHAPES]
        return made, make(made)

    def step(state):
        parameters, optimizer = state
        for parameter in parameters:
            parameter.grad = torch.zeros_like(parameter)
        enter("optimizer_step")
        optimizer.step()
        enter("data")
        optimizer.zero_grad()

    found = predict_peak(build, step, steps=2, device="A100-SXM4-80GB")
    return max(one.allocated_bytes for one in found.gpus[0].phases if one.phase == "optimizer_step")


def _optimizer(name, **words):
    def make(parameters):
        import torch

        return getattr(torch.optim, name)(parameters, **words)

    return make


def _adafactor(parameters):
    from transformers.optimization import Adafactor

    return Adafactor(parameters, scale_parameter=False, relative_step=False, lr=1e-3)


def _muon(parameters):
    """Muon for the matrices alone: the vector has no state then, and no step."""
    import torch

    return torch.optim.Muon([one for one in parameters if one.dim() == 2])


MULTIPLIES = ("adafactor", "muon")
"""Families whose torch version multiplies matrices in the step: cuBLAS then takes its workspace."""
STEPS = [
    (_optimizer("AdamW", foreach=True), {}, 0),
    (_optimizer("AdamW", fused=True), {"run": "fused"}, 0),
    (_optimizer("AdamW", foreach=False), {"run": "loop"}, 0),
    (_optimizer("SGD", lr=0.1, momentum=0.9, foreach=True), {"family": "sgd"}, 0),
    (_optimizer("Adagrad", foreach=True), {"family": "adagrad"}, 0),
    (_optimizer("RMSprop", foreach=True), {"family": "rmsprop", "has_momentum": False}, 0),
    (_optimizer("RMSprop", foreach=False), {"family": "rmsprop", "has_momentum": False, "run": "loop"}, 0.02),
    (_optimizer("Adafactor", foreach=False), {"family": "adafactor", "run": "loop"}, 0.02),
    (_muon, {"family": "muon", "run": "loop"}, 0.02),
    (_adafactor, {"family": "adafactor", "run": "loop", "library": "transformers"}, 0.02),
]
"""An optimizer, its traits, and how far the step may lie beside what is computed, in parts of the whole."""


@pytest.mark.oracle
@pytest.mark.parametrize("dtype, size", [("bfloat16", 2), ("float32", 4)])
@pytest.mark.parametrize("make, traits, share", STEPS)
def test_a_traced_step_takes_what_is_computed(make, traits, share, dtype, size):
    torch = pytest.importorskip("torch")
    recipe = replaced(framework="torchtune", **{f"optimizer_{name}": value for name, value in traits.items()})
    trained = tensors(size)
    computed = (
        2 * block_bytes(trained)
        + states_of(trained, recipe).allocated_bytes
        + transient(trained, TINY_LLAMA, recipe).expected
    )
    real = traced(make, getattr(torch, dtype))
    if recipe.optimizer.family in MULTIPLIES and recipe.optimizer.library == "torch":
        computed += WORKSPACE_BYTES
    # a scalar on the device may stand beside: 512 B
    assert abs(real - computed) <= max(share * real, 1024)


def test_adapters_are_one_group():
    trained = trained_tensors(TINY_LLAMA, with_adapters())
    assert transient(trained, TINY_LLAMA, with_adapters()).expected == block_bytes(trained)
