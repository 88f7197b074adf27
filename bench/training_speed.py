"""How much processor time the figures of a training take in a running process, beside the bar of 5 ms.

python bench/training_speed.py [--rounds N]

Legend, of one card each (ms of processor time, the least and the median of the rounds):
    recipe   the card's complete recipe
    passes   forward and backward pass, evaluation
    ledger   all that is resident, and every entry of the ledger by phase, around these passes
    form     the three above: the closed form, which the bar is for
    replay   the allocator's run, for what is reserved
    answer   recipe, form and replay together, as the first question about a card pays for it; "again" as the next does
An update of reinforcement learning beside an engine has one figure: its replay is all there is.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from measured import Requirement, aligned, conclude, machine
from msgspec.structs import replace

from capienza.architecture.model import Architecture
from capienza.architecture.registry import describe
from capienza.card.load import parse_card
from capienza.card.model import Card
from capienza.predict.training import answer, passes, reserved, resident, rollout
from capienza.predict.training.ledger import training_entries
from capienza.recipe.read import recipe_of
from capienza.recipe.recipe import Preference

CONFIGS = Path(__file__).parents[1] / "examples" / "configs"
LARGEST_MS, LARGEST_REPLAY_MS = 5.0, 150.0
HEAD = "capienza: 1\nname: x\nmodel: {id: a/b}\ntask: fine-tuning\ntokens: {required: 2048}\nmicrobatch: 2\ntraining: "
LLAMA, QWEN_MOE = "meta-llama--Llama-3.1-8B", "Qwen--Qwen3-30B-A3B"
CHECKED = "optimizer: adamw, gradient_checkpointing: true"
LORA = f"{{method: lora, rank: 16, {CHECKED}}}"
CARDS = {
    "8B, full": (LLAMA, f"{{method: full, {CHECKED}}}"),
    "8B, full, nothing recomputed": (LLAMA, "{method: full, optimizer: adamw, gradient_checkpointing: false}"),
    "8B, LoRA": (LLAMA, LORA),
    "8B, QLoRA": (LLAMA, f"{{method: qlora, rank: 16, {CHECKED}}}\nweights: {{format: nf4_double}}"),
    "8B, eager attention": (LLAMA, f"{{method: lora, rank: 16, attention: eager, {CHECKED}}}"),
    "8B, Liger": (LLAMA, f"{{method: lora, rank: 16, use_liger_kernel: true, {CHECKED}}}"),
    "27B of mixed layers, LoRA": ("google--gemma-3-27b-it", LORA),
    "30B of experts, LoRA": (
        QWEN_MOE, f"{{method: lora, rank: 16, target_modules: [q_proj, k_proj, v_proj, o_proj], {CHECKED}}}",
    ),
    "70B, LoRA": ("meta-llama--Llama-3.3-70B-Instruct", LORA),
    "70B, LoRA, nothing recomputed": (
        "meta-llama--Llama-3.3-70B-Instruct",
        "{method: lora, rank: 16, optimizer: adamw, gradient_checkpointing: false}",
    ),
}  # fmt: skip


class Spent(NamedTuple):
    """Milliseconds of processor time."""

    least: float
    median: float

    def __str__(self) -> str:
        return f"{self.least:.1f} {self.median:.1f}"


def spent(rounds: int, work: Callable[[], object]) -> Spent:
    """After one run that does not count."""
    work()
    taken = []
    for _ in range(rounds):
        began = time.process_time()
        work()
        taken.append((time.process_time() - began) * 1e3)
    return Spent(min(taken), statistics.median(taken))


def measure(card: Card, model: Architecture, config: dict[str, object], rounds: int) -> dict[str, Spent]:
    """One card's times."""
    recipe = recipe_of(card, "bf16", model.model_type)
    walked = passes.passes(model, recipe, config)
    held = resident.resident_of(model, recipe)
    kept = reserved.reserved_bytes(model, recipe, held, None, config)

    def ledger() -> object:
        asked = resident.resident_of(model, recipe)
        return training_entries(model, recipe, asked, "gpu:0", passes=walked, reserved=kept)

    def form() -> object:
        asked = recipe_of(card, "bf16", model.model_type)
        found = passes.passes(model, asked, config)
        return training_entries(model, asked, resident.resident_of(model, asked), "gpu:0", passes=found, reserved=kept)

    def again() -> object:
        asked = recipe_of(card, "bf16", model.model_type)
        return answer.answer_of(model, asked, None, config).entries("gpu:0")

    def first() -> object:
        answer._walked.cache_clear()
        return again()

    works: dict[str, Callable[[], object]] = {
        "recipe": lambda: recipe_of(card, "bf16", model.model_type),
        "passes": lambda: passes.passes(model, recipe, config),
        "ledger": ledger,
        "form": form,
        "replay": lambda: reserved.reserved_bytes(model, recipe, held, None, config),
        "answer": first,
        "again": again,
    }
    slow = ("replay", "answer")
    return {name: spent(min(rounds, 5) if name in slow else rounds, work) for name, work in works.items()}


def measure_rollout(rounds: int) -> Spent:
    """One update of GRPO beside an engine that sleeps."""
    card = parse_card(f"{HEAD}{LORA}\n", "card.yaml")
    model = describe(json.loads((CONFIGS / LLAMA / "config.json").read_text(encoding="utf-8")))
    recipe = replace(recipe_of(card, "bf16", model.model_type), objective="grpo", preference=Preference(group=8))
    return spent(min(rounds, 5), lambda: rollout.update(model, recipe))


def main() -> int:
    """A table, and what of it has a bar."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", default="", help="cards whose name holds this")
    options = parser.parse_args()
    print(f"{machine()}\n")
    rows: list[tuple[str, ...]] = []
    requirements = []
    for name, (folder, training) in CARDS.items():
        if options.only not in name:
            continue
        config = json.loads((CONFIGS / folder / "config.json").read_text(encoding="utf-8"))
        found = measure(parse_card(f"{HEAD}{training}\n", "card.yaml"), describe(config), config, options.rounds)
        rows = rows or [("ms: least, median", *found)]
        rows.append((name, *map(str, found.values())))
        requirements.append(Requirement(f"{name}: form, ms", found["form"].least, LARGEST_MS))
        requirements.append(Requirement(f"{name}: replay, ms", found["replay"].least, LARGEST_REPLAY_MS))
    print(aligned(rows))
    if not options.only:
        print(f"\nupdate of GRPO, 8B: {measure_rollout(options.rounds)} ms")
    print()
    return conclude(requirements)


if __name__ == "__main__":
    sys.exit(main())
