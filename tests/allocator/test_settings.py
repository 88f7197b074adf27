"""Settings written as in PYTORCH_ALLOC_CONF, and what is said of those that are off."""

from __future__ import annotations

import pytest

from capienza.allocator.settings import Settings, parse_settings, remarks
from capienza.errors import UsageError

MIB = 2**20


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("", Settings()),
        (" expandable_segments : True , ", Settings(expandable_segments=True)),
        ("max_split_size_mb:128", Settings(max_split_bytes=128 * MIB)),
        ("backend:native,pinned_use_background_threads:True", Settings()),
        ("throw_on_cudamalloc_oom:False,release_lock_on_cudamalloc:True", Settings()),
        ("garbage_collection_threshold:0.6", Settings(garbage_collection_threshold=0.6)),
        ("roundup_power2_divisions:2", Settings(roundup_power2_divisions=(2,) * 16)),
        ("roundup_power2_divisions:[4:2,>:1]", Settings(roundup_power2_divisions=(2, 2, 2, *(1,) * 13))),
        ("per_process_memory_fraction:0.5", Settings(allowed_bytes=500)),
        ("per_process_memory_fraction:1", Settings()),
        (
            "max_split_size_mb:40,large_segment_size_mb:40",
            Settings(max_split_bytes=40 * MIB, max_non_split_rounding_bytes=40 * MIB, large_segment_bytes=40 * MIB),
        ),
        ("expandable_segments:True,expandable_segments:False", Settings()),
    ],
)
def test_settings(text: str, settings: Settings) -> None:
    assert parse_settings(text, total_bytes=1000) == settings


@pytest.mark.parametrize(
    ("text", "code", "named"),
    [
        ("max_split:1", "allocator.unknown-setting", "max_split_size_mb"),
        ("expandable_segments", "allocator.bad-settings", "expandable_segments"),
        ("expandable_segments:true", "allocator.bad-setting", "True, False"),
        ("max_split_size_mb:19", "allocator.bad-setting", ">= 20"),
        ("max_split_size_mb:-1", "allocator.bad-setting", ">= 20"),
        ("max_split_size_mb:1e3", "allocator.bad-setting", ">= 20"),
        ("large_segment_size_mb:40,max_split_size_mb:20", "allocator.bad-setting", ">= 40"),
        ("large_segment_size_mb:10", "allocator.bad-setting", ">= 11"),
        ("garbage_collection_threshold:1", "allocator.bad-setting", "0 < x < 1"),
        ("garbage_collection_threshold:nan", "allocator.bad-setting", "0 < x < 1"),
        ("per_process_memory_fraction:2", "allocator.bad-setting", "0 <= x <= 1"),
        ("per_process_memory_fraction:0.5", "allocator.fraction-of-what", ""),
        ("roundup_power2_divisions:3", "allocator.bad-setting", "8"),
        ("roundup_power2_divisions:[3:2]", "allocator.bad-setting", "8"),
        ("roundup_power2_divisions:[4:2", "allocator.bad-settings", ""),
        ("roundup_power2_divisions:[4:2,]", "allocator.bad-settings", ""),
        ("roundup_power2_divisions:[]", "allocator.bad-settings", ""),
        ("backend:cudaMallocAsync", "allocator.setting-not-modelled", "cudaMallocAsync"),
        ("backend:other", "allocator.bad-setting", "native"),
        ("throw_on_cudamalloc_oom:True", "allocator.setting-not-modelled", ""),
    ],
)
def test_settings_that_are_off(text: str, code: str, named: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_settings(text)
    row = raised.value.as_dict()[0]
    assert row["code"] == code
    assert named in row["message"] + row["hint"]


def test_garbage_collection_without_a_limit_is_remarked() -> None:
    assert [one.code for one in remarks(parse_settings("garbage_collection_threshold:0.6"))] == [
        "allocator.collection-without-limit"
    ]
    assert remarks(Settings(garbage_collection_threshold=0.6, allowed_bytes=1)) == ()
