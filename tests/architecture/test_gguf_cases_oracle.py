"""KV and state bytes of described GGUF files against what llama.cpp allocated in every case that tells enough."""

from __future__ import annotations

import re

import pytest
from gguf_cases import cache_bytes, geometries, metadata_of, rows, smallest_table, state_bytes, table

from capienza.architecture.gguf import describe_gguf

pytestmark = pytest.mark.oracle

MIB = 2**20
# Logged figures have two decimals, K and V apart, on each device.
CACHE_ROUNDING_MIB = 0.06
STATE_ROUNDING_MIB = 0.03
REFUSED = {"deepseek4", "glm-dsa"}


def total(buffers) -> float:
    return sum(sum(size) if isinstance(size, list) else size for size in buffers.values())


def context_bytes(row) -> int:
    measured = row["measured"]
    breakdown = measured.get("breakdown_bytes") or measured["exact_bytes"]["breakdown_bytes"]
    return sum(device["context"] for device in breakdown.values())


def on_cuda(row) -> bool:
    measured = row["measured"]
    breakdown = measured.get("breakdown_bytes") or measured["exact_bytes"]["breakdown_bytes"]
    return "CUDA0" in breakdown


def test_dry_runs_on_pretend_devices_to_the_byte():
    models = geometries().M
    checked = 0
    for row in rows("llamacpp_oracle.jsonl"):
        name = re.fullmatch(r"oracle-(.+)-\d+", row["id"])[1]
        metadata, tensors = models[name]
        architecture = describe_gguf(metadata, table(tensors), row["id"])
        expected = cache_bytes(row, architecture, cuda=on_cuda(row)) + state_bytes(row, architecture)
        assert context_bytes(row) == expected, row["id"]
        checked += 1
    assert checked == 186


def test_local_runs_to_the_byte():
    checked = 0
    for row in rows("llamacpp_local.jsonl"):
        metadata, _ = metadata_of(row)
        architecture = describe_gguf(metadata, smallest_table(metadata), row["id"])
        assert context_bytes(row) == cache_bytes(row, architecture, cuda=on_cuda(row)), row["id"]
        checked += 1
    assert checked == 51


def test_public_logs():
    caches = states = 0
    for row in rows("llamacpp.jsonl"):
        measured = row["measured"]
        cache_mib = measured.get("kv_total_mib")
        state_mib = measured.get("rs_buffers") or {}
        stated = metadata_of(row)
        if (cache_mib is None and not state_mib) or stated is None or row["model"]["arch"] in REFUSED:
            continue
        metadata, knows_widths = stated
        if row["engine"].startswith("ollama (own engine)") or not (knows_widths or state_mib):
            continue  # its windowed layers follow a rule of its own
        architecture = describe_gguf(metadata, smallest_table(metadata), row["id"])
        if cache_mib is not None and knows_widths:
            computed = cache_bytes(row, architecture, cuda=False) / MIB
            assert computed == pytest.approx(cache_mib, abs=CACHE_ROUNDING_MIB), row["id"]
            caches += 1
        if state_mib:
            computed = state_bytes(row, architecture) / MIB
            assert computed == pytest.approx(total(state_mib), abs=STATE_ROUNDING_MIB), row["id"]
            states += 1
    assert (caches, states) == (90, 18)
