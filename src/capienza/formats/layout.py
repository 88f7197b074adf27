"""How one weight matrix is held in memory, and the words every quantisation method shares.

Legend: a matrix has `rows` output features and `columns` input features, as in y = W x. A part is one tensor
that a method keeps for the matrix: packed words, scales, zero points, code tables. Fused experts are `experts`
such matrices in one parameter; each part then gains a leading dimension.
"""

from __future__ import annotations

from typing import Literal, Protocol

import msgspec

from capienza.errors import InputError, Place, template

PARTIAL_GROUP = template(
    "formats.partial-group",
    "{count} features cannot be stored as {method}, which packs a multiple of {group}",
    "keep this module unquantised, or choose a format without groups, such as fp8",
)

LINEAR_ROLES = ("attention", "mlp", "expert", "state", "vision", "other")
"""Roles whose matrices are plain linear modules. Routers are not: transformers 5 makes them bare parameters."""

DECODER_ROLES = ("attention", "mlp", "expert", "state")
"""Roles inside the decoder's blocks: all that GPTQ and AWQ look at."""

Style = Literal["module", "target", "glob", "regex", "suffix"]


class Part(msgspec.Struct, frozen=True):
    """One tensor that a layout keeps for a matrix; `suffix` takes the place of "weight" in the name."""

    suffix: str
    shape: tuple[int, ...]
    dtype: str


class Matrix(msgspec.Struct, frozen=True):
    """One weight matrix. `halves` is 2 when two projections (gate and up) are fused along the rows.

    `dtype` is the format of the model's unquantised weights, which some methods give their scales.
    """

    name: str
    rows: int
    columns: int
    dtype: str
    halves: int = 1

    def groups(self, size: int, method: str, count: int | None = None) -> int:
        """Whole groups of `size` among `count` features (the columns unless given).

        Raises `InputError` when a group would be cut, naming the parameter.
        """
        features = self.columns if count is None else count
        if features % size:
            raise InputError(PARTIAL_GROUP(count=features, method=method, group=size), Place(key=self.name))
        return features // size

    @property
    def scalar(self) -> tuple[int, ...]:
        """Shape of one number for each projection fused in the matrix."""
        return (self.halves,) if self.halves > 1 else ()

    @property
    def vector(self) -> tuple[int]:
        """The same numbers where a method stores a single one with one dimension."""
        return (self.halves,)


class Layout(Protocol):
    """What a method does to one matrix."""

    def parts(self, matrix: Matrix) -> tuple[Part, ...]:
        """The tensors that hold the matrix. Raises `InputError` when it cannot be packed."""
        ...


class Rule(msgspec.Struct, frozen=True):
    """The modules whose names match `patterns` are held in `layout`; None means left unquantised."""

    style: Style
    patterns: tuple[str, ...]
    layout: Layout | None = None


class Scheme(msgspec.Struct, frozen=True, kw_only=True):
    """How a whole model is held: the first rule that matches a module decides, else its role does.

    `method` names the library's method and `name` the format for people. Matrices whose role is in `roles` take
    `layout`. `fused_experts` is false when the method leaves experts fused into one tensor unquantised, `conv1d`
    true when it also takes GPT-2's transposed modules.
    `dtype` overrides the model's own format for everything unquantised (plain formats). `computed` says how
    matrices are multiplied where the method alone does not tell it: one word a group, "w8a8-fp8".
    """

    method: str
    name: str
    layout: Layout | None = None
    roles: tuple[str, ...] = LINEAR_ROLES
    rules: tuple[Rule, ...] = ()
    fused_experts: bool = True
    conv1d: bool = False
    dtype: str | None = None
    computed: tuple[str, ...] = ()


def ceil_div(count: int, size: int) -> int:
    """Blocks of `size` that cover `count`, the last one possibly partial."""
    return -(-count // size)
