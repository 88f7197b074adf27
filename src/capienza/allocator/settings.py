"""What PYTORCH_ALLOC_CONF (before 2.9 PYTORCH_CUDA_ALLOC_CONF) can say, as far as it moves memory.

Source: c10/core/AllocatorConfig.cpp and c10/cuda/CUDAAllocatorConfig.cpp. Where releases differ, the newest counts:
`>` in roundup_power2_divisions begins above the last interval named (older ones changed that interval too).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import msgspec

from capienza.allocator.sizes import DIVISION_INTERVALS, LARGE_SEGMENT, MIB
from capienza.errors import Message, UsageError, template

BAD_TEXT = template(
    "allocator.bad-settings",
    "allocator settings: {found} is not KEY:VALUE",
    "Written as in PYTORCH_ALLOC_CONF: expandable_segments:True,max_split_size_mb:128",
)
UNKNOWN_KEY = template("allocator.unknown-setting", "allocator settings: {key} is not known", "Accepted: {accepted}.")
BAD_VALUE = template("allocator.bad-setting", "allocator settings: {key} cannot be {found}", "Accepted: {accepted}.")
NOT_MODELLED = template(
    "allocator.setting-not-modelled",
    "allocator settings: the replay does not model {setting}",
    "Leave it out; the replay is of the native allocator.",
)
NO_TOTAL = template(
    "allocator.fraction-of-what",
    "allocator settings: per_process_memory_fraction is a part of the card's memory, and no card is given",
    "Give the bytes the process may take instead.",
)
NO_COLLECTION = template(
    "allocator.collection-without-limit",
    "garbage_collection_threshold has no effect: no limit is set with set_per_process_memory_fraction",
    "PyTorch collects garbage only below such a limit.",
)
MOVES_MEMORY = (
    "expandable_segments",
    "garbage_collection_threshold",
    "large_segment_size_mb",
    "max_non_split_rounding_mb",
    "max_split_size_mb",
    "per_process_memory_fraction",
    "roundup_power2_divisions",
    "throw_on_cudamalloc_oom",
)
WITHOUT_EFFECT = ("backend", "graph_capture_record_stream_reuse", "release_lock_on_cudamalloc")
"""They concern locks or the inside of a graph's capture; so do, for host memory, all that begin with pinned_."""
TRUE_OR_FALSE = "True, False"


class Settings(msgspec.Struct, frozen=True):
    """The allocator's options; the defaults are PyTorch's. Sizes in bytes, None is "no limit".

    `allowed_bytes` is what torch.cuda.set_per_process_memory_fraction allows: the fraction of the card's total memory.
    Garbage collection runs only where it is set, as in PyTorch.
    """

    expandable_segments: bool = False
    max_split_bytes: int | None = None
    max_non_split_rounding_bytes: int = LARGE_SEGMENT
    garbage_collection_threshold: float = 0.0
    roundup_power2_divisions: tuple[int, ...] = ()
    """Nothing, or one number of divisions for each of 16 intervals of sizes (see `sizes`)."""
    large_segment_bytes: int = LARGE_SEGMENT
    allowed_bytes: int | None = None


def parse_settings(text: str, total_bytes: int | None = None) -> Settings:
    """Settings written as in PYTORCH_ALLOC_CONF. `total_bytes` is the card's memory, for per_process_memory_fraction.

    Raises `UsageError` that says which key or value is off and what is accepted.
    """
    pairs = dict(_pair(part) for part in re.split(r",(?![^\[]*\])", re.sub(r"\s", "", text)) if part)
    for key, value in pairs.items():
        if key not in (*MOVES_MEMORY, *WITHOUT_EFFECT) and not key.startswith("pinned_"):
            raise UsageError(UNKNOWN_KEY(key=key, accepted=", ".join(MOVES_MEMORY)))
        if (key, value) in (("throw_on_cudamalloc_oom", "True"), ("backend", "cudaMallocAsync")):
            raise UsageError(NOT_MODELLED(setting=f"{key}:{value}"))
    if pairs.get("backend", "native") != "native":
        raise UsageError(BAD_VALUE(key="backend", found=pairs["backend"], accepted="native"))
    large = _mebibytes("large_segment_size_mb", pairs.get("large_segment_size_mb", "20"), 11)
    least = large // MIB
    split = pairs.get("max_split_size_mb")
    rounding = pairs.get("max_non_split_rounding_mb", str(least))
    collection = pairs.get("garbage_collection_threshold")
    fraction = pairs.get("per_process_memory_fraction")
    divisions = pairs.get("roundup_power2_divisions")
    return Settings(
        expandable_segments=_flag("expandable_segments", pairs.get("expandable_segments", "False")),
        max_split_bytes=None if split is None else _mebibytes("max_split_size_mb", split, least),
        max_non_split_rounding_bytes=_mebibytes("max_non_split_rounding_mb", rounding, least),
        garbage_collection_threshold=0.0 if collection is None else _share(collection),
        roundup_power2_divisions=() if divisions is None else _divisions(divisions),
        large_segment_bytes=large,
        allowed_bytes=None if fraction is None else _allowed(fraction, total_bytes),
    )


def remarks(settings: Settings) -> tuple[Message, ...]:
    """What a person may not expect of these settings."""
    if settings.garbage_collection_threshold and settings.allowed_bytes is None:
        return (NO_COLLECTION(),)
    return ()


def _pair(part: str) -> tuple[str, str]:
    key, colon, value = part.partition(":")
    if not (key and colon and value) or re.search(r"[\[\]]", key):
        raise UsageError(BAD_TEXT(found=part))
    return key, value


def _flag(key: str, value: str) -> bool:
    if value not in ("True", "False"):
        raise UsageError(BAD_VALUE(key=key, found=value, accepted=TRUE_OR_FALSE))
    return value == "True"


def _mebibytes(key: str, value: str, least: int) -> int:
    if not re.fullmatch(r"[0-9]{1,15}", value) or int(value) < least:
        raise UsageError(BAD_VALUE(key=key, found=value, accepted=f">= {least} (MiB)"))
    return int(value) * MIB


def _number(key: str, value: str, accepted: str, is_accepted: Callable[[float], bool]) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not is_accepted(number):
        raise UsageError(BAD_VALUE(key=key, found=value, accepted=accepted))
    return number


def _share(value: str) -> float:
    return _number("garbage_collection_threshold", value, "0 < x < 1", lambda number: 0 < number < 1)


def _allowed(value: str, total_bytes: int | None) -> int | None:
    share = _number("per_process_memory_fraction", value, "0 <= x <= 1", lambda number: 0 <= number <= 1)
    if share == 1:
        return None
    if total_bytes is None:
        raise UsageError(NO_TOTAL())
    return int(share * total_bytes)


def _divisions(value: str) -> tuple[int, ...]:
    """One number for all sizes, or `[256:1,512:2,>:4]`: from 256 MiB on 1, from 512 on 2, above that 4."""
    if not value.startswith("["):
        return (_power(value),) * DIVISION_INTERVALS
    divisions, last, is_first = [0] * DIVISION_INTERVALS, 0, True
    if not value.endswith("]"):
        raise UsageError(BAD_TEXT(found=f"roundup_power2_divisions:{value}"))
    for part in value[1:-1].split(","):
        boundary, parts = _pair(part)
        count = 0 if parts == "0" else _power(parts)
        if boundary == ">":
            divisions[last + 1 :] = [count] * (DIVISION_INTERVALS - last - 1)
            continue
        last = min(_power(boundary).bit_length() - 1, DIVISION_INTERVALS - 1)
        if is_first:
            divisions[:last] = [count] * last
            is_first = False
        divisions[last] = count
    return tuple(divisions)


def _power(value: str) -> int:
    if not re.fullmatch(r"[0-9]{1,15}", value) or int(value).bit_count() != 1:
        raise UsageError(
            BAD_VALUE(key="roundup_power2_divisions", found=value, accepted="1, 2, 4, 8, ... | [256:1,512:2,>:4]")
        )
    return int(value)
