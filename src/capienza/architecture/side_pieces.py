"""Tensors that the encoders beside a text model share: layers with biases, convolutions, layer norms."""

from __future__ import annotations

from capienza.architecture.pieces import Piece, linear, norm


def side_linear(name: str, rows: int, columns: int, bias: bool = True) -> list[Piece]:
    """A linear layer of an encoder."""
    return linear(name, rows, columns, "vision", bias)


def side_norm(name: str, width: int) -> list[Piece]:
    """A layer norm."""
    return norm(name, width, bias=True)


def side_convolution(name: str, out: int, *inner: int) -> list[Piece]:
    """A convolution with a bias; `inner` are its input channels of one group and the sizes of its kernel."""
    return [(f"{name}.weight", (out, *inner), "vision"), (f"{name}.bias", (out,), "vision")]


def numbered(name: str, count: int, pieces: list[Piece]) -> list[Piece]:
    """The same tensors for each layer of a list."""
    return [(f"{name}.{index}.{piece}", shape, role) for index in range(count) for piece, shape, role in pieces]


def prefixed(name: str, pieces: list[Piece]) -> list[Piece]:
    """The same tensors inside a module."""
    return [(f"{name}.{piece}", shape, role) for piece, shape, role in pieces]
