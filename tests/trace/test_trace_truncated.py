"""Truncated random numbers: how often they are drawn again is told by their distribution, as PyTorch draws them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from capienza.trace import predict_peak  # noqa: E402
from capienza.trace.truncated import CERTAIN, DRAWN_AGAIN, draws_again, refused  # noqa: E402

pytestmark = pytest.mark.oracle

SPREADS = {
    "within twenty deviations": (0.0, 0.1, -2.0, 2.0),
    "cut at three deviations": (0.0, 0.02, -0.06, 0.06),
    "cut at one deviation": (0.0, 1.0, -1.0, 1.0),
    "little inside": (0.0, 1.0, 1.0, 2.0),
    "nearly even": (0.0, 10.0, -1.0, 1.0),
}


class Asked(TorchDispatchMode):
    """Counts the questions whether any number is refused."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += func is torch.ops.aten.any.default
        return func(*args, **(kwargs or {}))


SHARES = {
    "within twenty deviations": 5.507e-89,
    "cut at three deviations": 0.0026998,
    "cut at one deviation": 0.3173105,
    "little inside": 1 - 0.1359051 / 0.2419707,  # what lies between 1 and 2, over the density at 1
}
"""From tables of the normal distribution."""


@pytest.mark.parametrize("spread", SHARES)
def test_the_share_that_is_refused(spread: str) -> None:
    assert refused(*SPREADS[spread]) == pytest.approx(SHARES[spread], rel=1e-4)


@pytest.mark.parametrize("values", [(0.0, 0.0, -1.0, 1.0), (0.0, 1.0, 3.0, 3.0), (0.0, 1e-9, 1.0, 2.0)])
def test_no_distribution_no_share(values: tuple[float, float, float, float]) -> None:
    assert math.isnan(refused(*values))


@given(st.integers(1, 10**10), st.floats(0, 1))
def test_the_three_chances_are_one(count: int, share: float) -> None:
    draws, other = draws_again(count, share)
    assert draws in (0, 1, 2)
    assert 0 <= other <= 2 / 3 + 1e-9


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("count", [20, 4096])
def test_pytorch_draws_as_often(spread: str, count: int) -> None:
    """Against PyTorch's own draws: where it is certain always, and else within the chance that was told."""
    torch.manual_seed(6)
    draws, other = draws_again(count, refused(*SPREADS[spread]))
    tries = 40
    differs = 0
    for _ in range(tries):
        with Asked() as asked:
            torch.nn.init.trunc_normal_(torch.empty(count), *SPREADS[spread])
        differs += min(asked.count - 1, 2) != draws
    if other < CERTAIN:
        assert differs == 0
    assert differs <= tries * other + 4 * math.sqrt(tries * other * (1 - other)) + 1e-9


@pytest.mark.parametrize(("count", "tells"), [(16, True), (1 << 20, False)])
def test_a_trace_asks_nobody_and_says_what_is_chance(count: int, tells: bool) -> None:
    """Cut at three deviations: of a million numbers thousands are drawn again, of sixteen perhaps one."""

    def step(_state: object) -> None:
        torch.nn.init.trunc_normal_(torch.empty(count, device="cuda"), *SPREADS["cut at three deviations"])

    found = predict_peak(lambda: None, step, steps=1, device="H100 SXM")
    assert found.guesses == ()
    assert (DRAWN_AGAIN() in found.assumed) is tells
    if not tells:  # the weight, what was drawn before, what is drawn now, and what is kept of both
        assert found.allocated_bytes >= 4 * 4 * count
