"""Questions about values that nobody knows, and what is assumed instead. Each answer that was given is kept.

`all` is taken to hold and `any` not to, `not` turns that around, a number is 0: a program that asks "is every value
finite?" goes on as it does when all is well. No generated token is an end token, so a generation runs to its limit.
Of a mask that came from routing tokens to experts as many places are taken as hold when every expert gets the same
number (`balanced`), or all of them (`worst`); of any other mask, all of them.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Literal, NamedTuple

import msgspec
import torch

from capienza.trace import shadow

aten = torch.ops.aten
Routing = Literal["balanced", "worst"]
HOLDS = frozenset({aten.all.default, aten.all.dim, aten.all.dims, aten._is_all_true.default})
HOLDS_NOT = frozenset({aten.any.default, aten.any.dim, aten.any.dims, aten._is_any_true.default})
TURNS = frozenset({aten.logical_not.default, aten.bitwise_not.default})
KEEPS = frozenset(
    {
        aten.permute.default, aten.transpose.int, aten.select.int, aten.view.default, aten.slice.Tensor,
        aten.squeeze.dim, aten.squeeze.default, aten.unsqueeze.default, aten._to_copy.default, aten.clone.default,
        aten.reshape.default, aten._unsafe_view.default, aten.expand.default, aten.t.default, aten.alias.default,
        aten.detach.default, aten.ne.Scalar, aten.gt.Scalar, aten.index.Tensor, aten.unbind.int,
    }
)  # fmt: skip
"""They hand a mask's share of taken places on."""
MARKS = frozenset({aten.scatter.value, aten.scatter_.value})
"""They take places in a mask, as many as there are indices: so routing says which token goes to which expert."""
SAME = aten.eq.Tensor
"""Compared with the numbers of all experts it is such a mask too."""
CHOICES = frozenset({aten.topk.default})
SORTS = frozenset({aten.sort.default, aten.sort.stable})
IS = aten.eq.Scalar
"""Set against the places that a sort gives, each of which is there once, it takes one place of each row."""
TELLING = MARKS | CHOICES | SORTS | {SAME}
"""They tell something of their results whatever they are given."""
HANDED_ON = ("_capienza_routed", "_capienza_below")
COUNTS = frozenset({aten.sum.dim_IntList, aten.sum.default, aten.count_nonzero.dim_IntList})
NO_END_TOKEN = "no generated token is an end token"


class Routed(NamedTuple):
    """A mask that says which token goes to which class: `total` places are taken in all of its `classes`.

    Only the first `hit` classes can be: the numbers come from a choice among so many.
    """

    total: int
    classes: int
    hit: int
    places: int
    """Of the whole mask."""


class Guess(msgspec.Struct, frozen=True):
    """One kind of answer that was assumed: where it was asked for, what was answered, how often."""

    op: str
    module: str
    answer: str
    count: int


class Guesses:
    """The answers of one trace."""

    def __init__(self, routing: Routing) -> None:
        self.routing = routing
        self.likely: list[bool] = []
        """What the next questions are answered, where the distribution of the numbers says so."""
        self._given: Counter[tuple[str, str, str]] = Counter()

    def note(self, op: str, module: str, answer: object) -> None:
        """Keep that this was assumed."""
        self._given[op, module, str(answer)] += 1

    def all(self) -> tuple[Guess, ...]:
        """Every kind of answer, in the order in which it was first given."""
        return tuple(Guess(*told, count) for told, count in self._given.items())

    def taken(self, mask: torch.Tensor) -> int:
        """How many places of a mask are taken: of the whole, or of the slice of one class."""
        routed: Routed | None = getattr(mask, "_capienza_routed", None)
        places = mask.numel()
        if routed is None or self.routing == "worst":
            return places
        if places == routed.places:
            return routed.total
        share = routed.hit if places * routed.classes == routed.places else routed.classes
        return max(1, round(places * routed.total / (routed.places / routed.classes) / share))

    def shared_out(self, mask: torch.Tensor, groups: int) -> list[int] | None:
        """How many places of a mask fall to each of so many groups; None where it did not come from routing."""
        routed: Routed | None = getattr(mask, "_capienza_routed", None)
        if routed is None or groups == 0 or mask.numel() != routed.places:
            return None
        hit = min(groups, routed.hit)
        if self.routing == "balanced":
            counts = [routed.total // hit + (group < routed.total % hit) for group in range(hit)]
        else:
            most = mask.numel() // groups
            counts = [max(0, min(most, routed.total - group * most)) for group in range(hit)]
        return counts + [0] * (groups - hit)


def exactly(mask: torch.Tensor) -> int | None:
    """How many places of a mask are taken whatever its values are; None where that depends on them."""
    count: int | None = getattr(mask, "_capienza_exactly", None)
    return count


def truth(tensor: torch.Tensor) -> bool | int | float:
    """What is answered when a value is read that nobody knows."""
    assumed: bool | None = getattr(tensor, "_capienza_assumed", None)
    if assumed is not None:
        return assumed
    if tensor.dtype == torch.bool:
        return False
    return 0.0 if tensor.dtype.is_floating_point else 0


def _are_numbers(value: torch.Tensor, count: int) -> bool:
    """Is it 0, 1, 2, ... up to a count?"""
    if value.numel() != count or count < 2:
        return False
    with torch._C._DisableTorchDispatch():
        return bool(torch.equal(value.flatten(), torch.arange(count)))


def hand_on(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
    """Keep what an unknown result is assumed to be, from the operation that made it."""
    if func in HOLDS:
        out._capienza_assumed = True
    elif func in HOLDS_NOT:
        out._capienza_assumed = False
    elif func in TURNS:
        assumed = getattr(args[0], "_capienza_assumed", None)
        if assumed is not None:
            out._capienza_assumed = not assumed
    elif func in MARKS:
        _route(out, args[2].numel(), args[2])
    elif func is SAME:
        _compare(args, out)
    elif func in CHOICES:
        out[1]._capienza_below = args[0].shape[args[2] if len(args) > 2 else -1]
    elif func in SORTS:
        rows, dim = args[0], args[1] if len(args) > 1 else kwargs.get("dim", -1)
        out[1]._capienza_sorted = rows.shape[dim] if rows.dim() else 1
    elif func is IS and hasattr(args[0], "_capienza_sorted"):
        length = args[0]._capienza_sorted
        out._capienza_exactly = out.numel() // length if length and 0 <= args[1] < length else 0
    elif func in KEEPS:
        for name in HANDED_ON:
            value = getattr(args[0], name, None)
            if value is not None:
                for one in out if isinstance(out, list | tuple) else (out,):
                    setattr(one, name, value)


def _compare(args: tuple[Any, ...], out: torch.Tensor) -> None:
    """Numbers of classes set against the list of all classes: the mask of a `one_hot`."""
    for one, other in (args[:2], args[1::-1]):
        found = shadow.of(other) if isinstance(other, torch.Tensor) else None
        if found is not None and _are_numbers(found, out.shape[-1]):
            _route(out, out.numel() // out.shape[-1], one)


def _route(out: torch.Tensor, total: int, chosen: torch.Tensor) -> None:
    classes = max(1, out.shape[-1])
    below = getattr(chosen, "_capienza_below", classes)
    out._capienza_routed = Routed(min(total, out.numel()), classes, max(1, min(classes, below)), out.numel())  # type: ignore[attr-defined]
