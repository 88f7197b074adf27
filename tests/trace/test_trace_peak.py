"""A traced program against sums worked out by hand, and against what must always hold."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capienza.errors import InputError, UsageError

torch = pytest.importorskip("torch")
from capienza.trace import phase, predict_peak  # noqa: E402
from capienza.trace.peak import Prediction  # noqa: E402

pytestmark = pytest.mark.oracle
WIDTH, ROWS, FLOAT = 256, 64, 4
H100_WORKSPACE, A100_WORKSPACE = 32 << 20, 2 * (4096 << 10) + 8 * (16 << 10)
"""What cuBLAS keeps for each thread that multiplied matrices: the program's and autograd's."""
MATRIX, ROW_BLOCK = WIDTH * WIDTH * FLOAT, ROWS * WIDTH * FLOAT


def layers(count: int, width: int = WIDTH) -> torch.nn.Sequential:
    with torch.device("cuda"):
        return torch.nn.Sequential(*(torch.nn.Linear(width, width, bias=False) for _ in range(count)))


def training(count: int = 2, rows: int = ROWS, optimizer: type = torch.optim.AdamW) -> Prediction:
    def build():
        model = layers(count)
        return model, optimizer(model.parameters(), lr=1e-3)

    def step(state) -> None:
        model, update = state
        model(torch.randn(rows, WIDTH, device="cuda")).sum().backward()
        update.step()
        update.zero_grad()

    return predict_peak(build, step, device="H100 SXM")


def phases(found: Prediction) -> dict[str, int]:
    return {one.phase: one.requested_bytes for one in found.gpus[0].phases}


def test_a_training_holds_what_is_worked_out_by_hand() -> None:
    found = phases(training())
    assert found["load"] == 2 * MATRIX
    # Steady forward: weights, two moments each, the input and the first layer's output, the second's, the sum. The
    # steps of AdamW lie on the host.
    steady = 2 * MATRIX + 4 * MATRIX + 2 * H100_WORKSPACE
    assert found["forward"] == steady + 3 * ROW_BLOCK + FLOAT
    # Both gradients at the end of the backward pass, and what the first layer's gradient came from.
    assert found["backward"] >= steady + 2 * MATRIX
    # foreach AdamW: one list of temporaries as large as the parameters.
    assert found["optimizer_step_steady"] == steady + 2 * MATRIX + 2 * MATRIX
    assert list(found) == ["load", "forward", "backward", "optimizer_step_first", "optimizer_step_steady"]


def test_sgd_keeps_no_states() -> None:
    assert (
        phases(training(optimizer=torch.optim.SGD))["forward"]
        == 2 * MATRIX + 3 * ROW_BLOCK + FLOAT + 2 * H100_WORKSPACE
    )


def test_the_ledger_of_a_phase_adds_up_to_what_is_reserved() -> None:
    found = training()
    gpu = found.gpus[0]
    for one in gpu.phases:
        entries = [entry for entry in found.ledger.entries if one.phase in entry.phases and entry.amount is not None]
        assert sum(entry.amount.expected for entry in entries) == one.reserved_bytes
        assert found.ledger.peak(one.phase, gpu.gpu).missing == ("context",)


def test_the_holders_add_up_to_the_peak_and_name_their_modules() -> None:
    gpu = training().gpus[0]
    alive = sum(one.size_bytes for one in gpu.holders)
    assert alive <= gpu.allocated_bytes
    assert alive > 0.99 * gpu.allocated_bytes
    gradients = {one.module for one in gpu.holders if one.category == "gradients"}
    assert gradients == {"0", "1"}
    assert {one.category for one in gpu.holders} >= {"weights", "gradients", "optimizer_states"}


def test_four_figures_stand_in_their_order() -> None:
    gpu = training().gpus[0]
    assert gpu.requested_bytes <= gpu.allocated_bytes <= gpu.smallest_capacity_bytes <= gpu.reserved_bytes


@settings(max_examples=12)
@given(st.integers(1, 4), st.integers(1, 96))
def test_more_layers_and_more_rows_never_hold_less(count: int, rows: int) -> None:
    base = training(count, rows).allocated_bytes
    assert training(count + 1, rows).allocated_bytes > base
    assert training(count, rows + 32).allocated_bytes >= base


def test_a_program_says_its_own_phases() -> None:
    def step(model) -> None:
        with phase("eval"), torch.no_grad():
            model(torch.randn(ROWS, WIDTH, device="cuda"))

    found = phases(predict_peak(lambda: layers(1), step, device="A100 80GB SXM"))
    assert found == {"load": MATRIX, "eval": MATRIX + 2 * ROW_BLOCK + A100_WORKSPACE}


def test_phase_does_nothing_outside_a_trace() -> None:
    with phase("backward"):
        assert torch.ones(1).sum() == 1


def test_an_error_of_the_program_names_module_and_operation() -> None:
    def step(model) -> None:
        model(torch.randn(ROWS, WIDTH + 1, device="cuda"))

    with pytest.raises(InputError) as caught:
        predict_peak(lambda: layers(2), step, device="H100 SXM")
    assert "aten.mm.default" in str(caught.value)
    assert "module 0" in str(caught.value)


def test_a_program_on_the_host_is_told_so() -> None:
    with pytest.raises(UsageError) as caught:
        predict_peak(lambda: torch.nn.Linear(4, 4), lambda model: model(torch.randn(2, 4)), device="H100 SXM")
    assert caught.value.message.code == "trace.nothing-there"


def test_a_program_that_does_not_end_is_stopped_whatever_it_catches() -> None:
    def step(model) -> None:
        while True:
            with contextlib.suppress(Exception):
                model(torch.randn(ROWS, WIDTH, device="cuda"))

    with pytest.raises(InputError) as caught:
        predict_peak(lambda: layers(1), step, device="H100 SXM", most_ops=500)
    assert caught.value.message.code == "trace.limit"


def test_traces_do_not_nest() -> None:
    def step(_state: object) -> None:
        training()

    with pytest.raises(UsageError) as caught:
        predict_peak(lambda: layers(1), step, device="H100 SXM")
    assert caught.value.message.code == "trace.once"


@pytest.mark.parametrize("name", ["RTX 9999", "RTX 4090 and H100"])
def test_an_unknown_card_is_refused(name: str) -> None:
    with pytest.raises((InputError, UsageError)):
        predict_peak(lambda: layers(1), lambda _: None, device=name)


def test_compiling_is_refused_by_name() -> None:
    with pytest.raises(UsageError) as caught:
        predict_peak(lambda: torch.compile(layers(1)), lambda _: None, device="H100 SXM")
    assert "torch.compile" in str(caught.value)


def test_everything_is_put_back() -> None:
    from torch.nn.modules import module
    from torch.optim import optimizer

    def state() -> list[object]:
        return [
            torch.compile, torch.nn.Module.compile, torch.UntypedStorage.resize_, torch.utils.swap_tensors,
            torch.cuda.is_available, torch.cuda.synchronize, torch.cuda.Stream, torch.cuda.empty_cache,
            torch.cuda.amp.common.amp_definitely_not_available, torch.is_autocast_enabled("cuda"),
            list(optimizer._foreach_supported_types), len(module._global_forward_hooks),
            len(module._global_forward_pre_hooks), len(optimizer._global_optimizer_pre_hooks),
            len(optimizer._global_optimizer_post_hooks), torch._C._len_torch_dispatch_stack(),
        ]  # fmt: skip

    import torch.cuda.amp.common

    before = state()
    training()
    with pytest.raises(InputError):
        predict_peak(lambda: layers(1), lambda model: model(torch.randn(2, 2, device="cuda")), device="H100 SXM")
    assert state() == before
    with pytest.raises((AssertionError, RuntimeError)):
        torch.ones(1, device="cuda")


def test_a_program_that_asks_for_a_gpu_gets_one() -> None:
    def build() -> torch.nn.Module:
        device = "cuda" if torch.cuda.is_available() else "cpu"
        return torch.nn.Linear(WIDTH, WIDTH, bias=False).to(device)

    found = predict_peak(build, lambda _: torch.cuda.synchronize(), device="RTX 4090")
    assert found.gpus[0].requested_bytes == MATRIX


def test_memory_given_back_to_the_device_is_taken_again() -> None:
    def step(_state: object) -> None:
        for rows in (3, 5):
            torch.empty(rows << 20, device="cuda")
            torch.cuda.empty_cache()

    gpu = predict_peak(lambda: None, step, steps=1, device="H100 SXM").gpus[0]
    assert gpu.reserved_bytes == 5 << 22
    assert gpu.cuda_mallocs == 2


def test_a_request_that_no_device_serves_is_no_zero() -> None:
    def step(_state: object) -> None:
        torch.empty(1 << 20, 1 << 20, 1 << 20, device="cuda")

    with pytest.raises(InputError) as caught:
        predict_peak(lambda: layers(1), step, steps=1, device="H100 SXM")
    assert caught.value.message.code == "trace.never-fits"
