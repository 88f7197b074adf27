"""Prefill and decode with transformers' own cache, each phase marked: `python generate.py CASE_AS_JSON`."""

from __future__ import annotations

import json
import sys
from typing import Any

from common import device_of, executed, loaded, watched

from capienza import measure


def cache_of(out: Any) -> dict[str, Any]:
    """The cache under the name that this release of transformers gives it."""
    name = "cache" if getattr(out, "cache", None) is not None else "past_key_values"
    return {name: getattr(out, name)}


def generate(case: dict[str, Any]) -> None:
    import torch

    torch.manual_seed(0)
    model = loaded(case).eval()
    shape = (case["microbatch"], case["tokens"])
    prompt = torch.randint(model.config.vocab_size, shape, device=device_of(case))
    with torch.no_grad():
        with measure.phase("prefill"):
            out = model(input_ids=prompt, use_cache=True, logits_to_keep=1)
        with measure.phase("decode"):
            for _ in range(case["output"] - 1):
                best = out.logits[:, -1:].argmax(-1)
                out = model(input_ids=best, use_cache=True, **cache_of(out))
    for _ in range(case["microbatch"]):
        executed(prompt_tokens=case["tokens"], completion_tokens=case["output"], start=0, end=1)


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    with watched(asked):
        generate(asked)
