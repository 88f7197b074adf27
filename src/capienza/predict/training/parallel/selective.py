"""Selective checkpointing: of a recomputed call, the results of some operations are kept.

torchtitan's policy "op" keeps what scaled_dot_product_attention makes and every other matrix product, beginning with
the first (torchtitan/parallelisms/parallelize_llama.py, `_get_custom_policy`); torch/utils/checkpoint.py hands them out
again when the call is run for the second time.
"""

from __future__ import annotations

from collections.abc import Callable

from capienza.predict.training.tape import Region, Tape, Tensor


class Kept:
    """Results that wait for the second run, in their order."""

    __slots__ = ("products", "results", "taken")

    def __init__(self) -> None:
        self.products = self.taken = 0
        self.results: list[Tensor | None] = []


class SelectiveRegion(Region):
    """A checkpointed call that keeps some results."""

    __slots__ = ("results",)

    def __init__(self) -> None:
        super().__init__()
        self.results = Kept()


def checkpoint_selectively(tape: Tape, call: Callable[[Tensor], Tensor], rows: Tensor) -> Tensor:
    """Run a call of which the input and the results of `kept` operations are kept."""
    region = SelectiveRegion()
    results = region.results

    def again() -> Tensor:
        results.products = results.taken = 0
        return call(rows)

    region.call = again
    before, tape.region = tape.region, region
    try:
        return call(rows)
    finally:
        tape.region = before


def kept(tape: Tape, elements: int, item: int, *, is_product: bool) -> Tensor:
    """An operation's result: a new block, or the one that was kept when the call ran first."""
    region = tape.region
    if not isinstance(region, SelectiveRegion):
        return tape.new(elements, item)
    results = region.results
    results.products += is_product
    if is_product and results.products % 2 == 0:
        return tape.new(elements, item)
    if not tape.is_recomputing:
        made = tape.new(elements, item)
        results.results.append(Tensor(elements, item, made.block))
        return made
    found = results.results[results.taken]
    results.results[results.taken] = None
    results.taken += 1
    assert found is not None
    return Tensor(elements, item, found.block)
