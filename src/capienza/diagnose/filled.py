"""What each phase fills the device's memory with, where nothing more is known."""

from __future__ import annotations

FILLED_BY = {
    "load": "weights",
    "profile_warmup": "activations",
    "graph_capture": "graph_capture",
    "kv_cache_allocation": "kv_cache",
    "prefill": "activations",
    "decode": "kv_cache",
    "forward": "activations",
    "backward": "activations",
    "optimizer_step": "optimizer_state",
    "eval": "activations",
    "checkpoint": "activations",
    "communication": "communication",
}
