"""What a fine-tuning does beside its steps: evaluation, and what it writes out at its end.

The evaluation still sees the same sequences, and what is exported is the same: only how many at once, and where.
"""

from __future__ import annotations

from capienza.decide.alternatives.change import Proposals, Value, change, recipe_lines
from capienza.decide.alternatives.levers.recipe import only_training
from capienza.decide.alternatives.scene import Scene
from capienza.errors import template
from capienza.ledger.phase import Phase

NO_EVALUATION = template("alternatives.no-evaluation", "no evaluation is stated, so nothing of it can be smaller")
ONE_ROW = template("alternatives.one-row", "one sequence is evaluated at a time already, and no logits are kept")
NOTHING_MERGED = template(
    "alternatives.nothing-merged",
    "what is exported takes nothing on the GPU: {found}",
)
TOUCHED = ("activations", "logits_and_loss", "evaluation", "kept_logits")


@only_training
def evaluations(scene: Scene) -> Proposals:
    """Fewer sequences at once, and logits that do not wait on the GPU."""
    card, recipe = scene.card, scene.training
    if recipe is None or Phase.EVAL not in scene.now.peaks or not recipe.evaluation.microbatch:
        return Proposals(notes=(NO_EVALUATION(),))
    size = recipe.evaluation.microbatch
    smaller = dict.fromkeys((*(size >> power for power in range(1, size.bit_length())), 1))
    wanted: list[tuple[str, Value]] = [("eval_microbatch", one) for one in smaller if one < size]
    if recipe.evaluation.keeps_logits:
        wanted += [("eval_keeps_logits", False), ("eval_accumulation_steps", 1)]
    changes = tuple(change("evaluation", card, recipe_lines(card, name, value), TOUCHED) for name, value in wanted)
    return Proposals(changes=changes, notes=() if changes else (ONE_ROW(),))


@only_training
def exports(scene: Scene) -> Proposals:
    """Adapters merged in main memory, apart from the run."""
    recipe = scene.training
    if recipe is None or recipe.export != "merge" or recipe.exports_on_host:
        where = "none" if recipe is None else "cpu" if recipe.exports_on_host else recipe.export
        return Proposals(notes=(NOTHING_MERGED(found=where),))
    after = recipe_lines(scene.card, "export_device", "cpu")
    return Proposals(changes=(change("export", scene.card, after, ("export",)),))
