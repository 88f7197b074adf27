"""A GPU as the drivers report it, and the capacities that follow (DESIGN rule 3).

Legend: nominal the seller's number, text only; reported the driver's MiB; CUDA total what
`cudaMemGetInfo` gives. An unknown figure is None. Reported memory of one name may differ by ECC.
"""

from __future__ import annotations

import msgspec

from capienza.errors import Message


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU model. Sizes are bytes of one GPU; `sources` say where each figure was seen."""

    key: str
    name: str
    vendor: str
    product_class: str = ""
    nominal_gb: str
    devices_per_board: int = 1
    """Devices that appear when one board is sold under this name (A16: 4, MI250: 2); sizes are of one device."""
    reported_bytes: int | None = None
    reported_ecc: str | None = None
    largest_bytes: int
    """The most memory a GPU of this name can report (ECC off): what *exclude* compares with."""
    largest_basis: Message
    smallest_bytes: int | None = None
    """The least it can report (ECC on): what *fit* compares with. None: nothing was ever reported."""
    smallest_basis: Message
    cuda_total_bytes: int | None = None
    cuda_total_basis: Message | None = None
    compute_capability: tuple[int, int] | None = None
    gfx_arch: str | None = None
    memory_type: str | None = None
    notes: str = ""
    sources: str = ""
