"""How often a loss equal to the margin is certified when items of one document share part of their fate.

    python bench/quality_clusters.py [--runs 1000]

Each document takes, with probability `shared`, one draw for all its items, else one for each. Stated rate: 0.025.
"""

from __future__ import annotations

import argparse
import random

from capienza.quality.clusters import design_effect
from capienza.quality.power import clears

ALPHA = 0.025
SHAPES = ((60, 5), (100, 10), (30, 20), (200, 5))
RATES = ((0.05, 0.0), (0.10, 0.0), (0.06, 0.03))
SHARED = (0.0, 0.3, 0.6, 1.0)


def wrong_rate(documents: int, items: int, loss: float, gain: float, shared: float, runs: int) -> float:
    """The share of runs in which the margin, which is the true loss, is cleared."""
    draw, cleared = random.Random(11), 0
    clusters = [document for document in range(documents) for _ in range(items)]
    for _ in range(runs):
        differences: list[float] = []
        for _ in range(documents):
            one = draw.random() if draw.random() < shared else None
            fates = [draw.random() if one is None else one for _ in range(items)]
            differences += [-1.0 if fate < loss else 1.0 if fate < loss + gain else 0.0 for fate in fates]
        effect = design_effect(differences, clusters)
        count, gains, losses = len(differences) / effect, differences.count(1.0), differences.count(-1.0)
        cleared += clears(count, gains / effect, losses / effect, loss - gain, ALPHA)
    return cleared / runs


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    runs = parser.parse_args().runs
    print("documents x items  loss  gain  " + "  ".join(f"shared {shared:.1f}" for shared in SHARED))
    for documents, items in SHAPES:
        for loss, gain in RATES:
            rates = "  ".join(f"{wrong_rate(documents, items, loss, gain, shared, runs):10.4f}" for shared in SHARED)
            print(f"{documents:>9} x {items:<5}  {loss:.2f}  {gain:.2f}  {rates}")
