"""A GPU that somebody names, as opposed to one that somebody sells."""

from __future__ import annotations

from capienza.catalog.names import MIG_PROFILE, names_mig, resolve
from capienza.catalog.offer import GpuClaim


def claim_of(name: str) -> GpuClaim:
    """The claim of a bare name, which may hold a memory size or a MIG profile.

    Raises `InputError` for a name that is not known.
    """
    profile = MIG_PROFILE.search(name)
    return GpuClaim(
        name_raw=name,
        candidates=resolve(name).candidates,
        share="mig" if names_mig(name) else None,
        mig_profile=profile[0].lower() if profile else None,
    )
