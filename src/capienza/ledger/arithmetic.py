"""The plain calculator: parameters times bits, plus a reserve that somebody chose.

Legend: P parameters, b bits per parameter. Weights only = P * b / 8 bytes, rounded up to a whole byte; dense
arithmetic, no hidden multiplier, for training neither. Indicative envelope = weights only + chosen reserve.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, Decimal

import msgspec

USUAL_BITS = (Decimal(32), Decimal(16), Decimal(8), Decimal(4))


class PlainRow(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the calculator. The envelope is None when no reserve was chosen."""

    parameters: int
    bits: Decimal
    weights_only_bytes: int
    indicative_envelope_bytes: int | None = None


def plain_weights_bytes(parameters: int, bits: Decimal) -> int:
    """Weights only, in bytes."""
    return int((Decimal(parameters) * bits / 8).to_integral_value(ROUND_CEILING))


def plain_row(parameters: int, bits: Decimal, reserve_bytes: int | None = None) -> PlainRow:
    """Weights only, and with a chosen reserve the indicative envelope."""
    weights = plain_weights_bytes(parameters, bits)
    return PlainRow(
        parameters=parameters,
        bits=bits,
        weights_only_bytes=weights,
        indicative_envelope_bytes=None if reserve_bytes is None else weights + reserve_bytes,
    )
