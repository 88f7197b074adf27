"""Predict every operation of a measured table without a card: where scratch or the choice of a kernel is told wrong.

python bench/gpu/compare_kernels.py KERNELS.jsonl [--only NAME ...]

Of a call, what was highest above what was held before it is compared, in bytes as they were asked for: outputs, scratch
and, in the first call, workspaces that stay. Positive differences are predictions above the measurement. Needs this
project and torch; nothing of a card.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from card_rows import lines
from kernel_ops import OPS
from kernel_table import HEADS_ASKED, KEYS_AT_LEAST

from capienza.allocator.events import ALLOC, FREE, MARK
from capienza.errors import CapienzaError
from capienza.trace import phase, predict_peak
from capienza.trace.attention_call import Call, Machine, contiguous
from capienza.trace.attention_rules import choose, order

CALL = "call"


def predicted(name: str, shape: dict[str, Any], gpu: str) -> list[int]:
    """The highest that each of two calls holds above what was held before it."""
    make, _ = OPS[name]

    def step(call: Any) -> None:
        with phase(CALL):
            call()

    found = predict_peak(lambda: make("cuda", **shape), step, steps=2, device=gpu)
    recording = found.traced.recording
    sizes: dict[int, int] = {}
    live, before, highest, is_call = 0, 0, [], False
    for code, block, size, _ in recording.events[0]:
        if code == ALLOC:
            sizes[block] = size
            live += size
        elif code == FREE:
            live -= sizes.pop(block)
        elif code == MARK:
            is_call = str(recording.phases[block]) == CALL
            if is_call:
                before = live
                highest.append(0)
        if is_call:
            highest[-1] = max(highest[-1], live - before)
    return highest


def kernel_differences(line: dict[str, Any], gpu: str) -> list[int] | None:
    """Predicted less measured, for each call; None (and a word why) where one side has no figure."""
    measured = [one["requested"]["peak_over_before"] for one in line.get("calls", []) if "requested" in one]
    if not measured:
        print(f"{line['name']} {line['shape']}: not measured: {line.get('refused', 'no counters')[:100]}")
        return None
    try:
        guess = predicted(line["name"], line["shape"], gpu)
    except CapienzaError as error:
        print(f"{line['name']} {line['shape']}: not predicted: {error}")
        return None
    found = [one - other for one, other in zip(guess, measured, strict=False)]
    if any(found):
        print(f"{line['name']} {line['shape']}: measured {measured} B, predicted {guess} B, off by {found} B")
    return found


def choice(line: dict[str, Any], machine: Machine) -> str | None:
    """The kernel that the rules give for one combination that the card was asked for."""
    heads, kv = HEADS_ASKED[False], HEADS_ASKED[line["grouped"]]
    s, d, dtype, trains = line["s"], line["d"], line["dtype"], line["training"]
    keys = max(s, KEYS_AT_LEAST)
    masks = {
        "bool": contiguous(2, 1, s, keys, dtype="bool"), "float": contiguous(2, 1, s, keys, dtype=dtype),
        "row": contiguous(2, 1, 1, keys, dtype="bool"),
    }  # fmt: skip
    query = contiguous(2, heads, s, d, dtype=dtype, requires_grad=trains)
    key = contiguous(2, kv, keys, d, dtype=dtype, requires_grad=trains)
    return choose(
        Call(
            query=query, key=key, value=key, mask=masks.get(line["mask"]), is_causal=line["mask"] == "causal",
            enable_gqa=line["grouped"], gradients_recorded=True,
        ),
        machine,
    ).kernel  # fmt: skip


def compare_choices(found: list[dict[str, Any]], settings: dict[str, Any]) -> None:
    """Every combination for which the rules and the card differ."""
    major, minor = settings["torch"].split("+")[0].split(".")[:2]
    machine = Machine(tuple(settings["capability"]), (int(major), int(minor)), settings["cudnn"])
    asked = [one for one in found if one["kind"] == "sdpa_choice" and "chosen" in one]
    wrong = [(one, mine) for one in asked if (mine := choice(one, machine)) != one["chosen"]]
    for one, mine in wrong:
        told = {name: one[name] for name in ("dtype", "d", "mask", "grouped", "training", "s")}
        print(f"attention {told}: the card took {one['chosen']}, the rules say {mine}")
    orders = [one["order"] for one in found if one["kind"] == "sdpa_order"]
    print(f"attention: {len(asked)} combinations, {len(wrong)} differ; order {orders}, the rules say {order(machine)}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", type=Path, help="kernels.jsonl of measure_card.py")
    parser.add_argument("--only", nargs="*", help="names of operations")
    options = parser.parse_args()
    found = lines(options.kernels)
    settings = next((one for one in found if one["kind"] == "settings"), {})
    if settings.get("device") != "cuda":
        print("not measured on a card: there is nothing to compare", file=sys.stderr)
        return 1
    compare_choices(found, settings)
    exact: Counter[str] = Counter()
    shapes: Counter[str] = Counter()
    for line in found:
        if line["kind"] != "kernel" or (options.only and line["name"] not in options.only):
            continue
        off = kernel_differences(line, settings["gpu"].removeprefix("NVIDIA "))
        if off is not None:
            shapes[line["name"]] += 1
            exact[line["name"]] += not any(off)
    for name, count in shapes.items():
        print(f"{name}: {exact[name]} of {count} shapes to the byte")
    return 0


if __name__ == "__main__":
    sys.exit(main())
