"""Preferences: tie-breaks among equals, never a reason to admit or to exclude."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from capienza.catalog.offer import Offer
from capienza.errors import Message, template

FIELDS = ("provider", "region", "country", "gpu", "gpu_link", "interruptible", "cancellable")

PREFERENCE_UNKNOWN = template(
    "decide.preference-unknown",
    "the preference {field} is not one an offer answers; accepted: {accepted}",
    "remove it from preferences, or write one of the accepted words",
)


def preferences_met(preferences: Sequence[Mapping[str, str]], offer: Offer) -> tuple[bool | None, ...]:
    """Does the offer meet each preference? None: the offer does not say, or nobody can."""
    return tuple(
        _met(_offered(field, offer), wanted) for preference in preferences for field, wanted in preference.items()
    )


def unknown_preferences(preferences: Sequence[Mapping[str, str]]) -> tuple[Message, ...]:
    """A note for each preference that no offer can answer."""
    return tuple(
        PREFERENCE_UNKNOWN(field=field, accepted=FIELDS)
        for preference in preferences
        for field in preference
        if field not in FIELDS
    )


def _offered(field: str, offer: Offer) -> tuple[str, ...]:
    if field == "gpu":
        return offer.gpu.candidates or (offer.gpu.name_raw,)
    if field in ("interruptible", "cancellable"):
        flag = getattr(offer.price, field)
        return () if flag is None else ("true" if flag else "false",)
    value = getattr(offer, field) if field in FIELDS else None
    return () if value is None else (str(value),)


def _met(offered: tuple[str, ...], wanted: str) -> bool | None:
    """Equal, or a part of it: `eu` is met by `eu-west-1`."""
    if not offered:
        return None
    word = str(wanted).casefold()
    return all(one.casefold() == word or one.casefold().startswith(f"{word}-") for one in offered)
