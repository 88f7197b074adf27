"""`rules`: which rules of compatibility there are, and what they say on a GPU."""

from __future__ import annotations

from capienza.predict.ruled import Ruled, ruled


def rules(
    engine: str | None = None,
    *,
    version: str | None = None,
    gpu: str | None = None,
    weights: str | None = None,
    cache: str | None = None,
) -> Ruled:
    """The rules of compatibility that speak of an engine, its version, and formats of weights and cache.

    With `gpu` each is judged on every GPU that the name may mean; without formats, those of all formats are.
    Raises `UsageError` for an engine or a format that no rule knows, `InputError` for a GPU that is not known.
    """
    return ruled(engine, version, gpu, weights, cache)
