"""A microbatch of preference or reinforcement learning as TRL runs it: the trained model, then its reference.

Legend: b microbatch. DPO, ORPO and SimPO run 2 b sequences at once, chosen and rejected ones; GRPO b completions with
their prompts.
    policy     a forward pass to the log-probabilities of the tokens, with gradients
    reference  the same by the model without adapters or a second one, without gradients
DPO runs the reference while the graph of the policy is there, and from 0.29 on its logits too; GRPO before the first
microbatch of an update. What a log takes of the logits is taken without gradients, before the loss goes back. From 1.15
on supervised fine-tuning has the same fused head, and is this program with nothing beside it.
Sources: trl 0.13 to 1.16, trainer/dpo_trainer.py (concatenated_forward, _compute_loss), trainer/grpo_trainer.py
(_get_per_token_logps_and_entropies, _compute_loss), orpo_trainer.py, cpo_trainer.py, utils.py (selective_log_softmax,
entropy_from_logits, add_fused_lm_head).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from capienza.architecture.model import Architecture
from capienza.predict.training.blocks.build import Builder
from capienza.predict.training.blocks.decoder import Decoder, stack
from capienza.predict.training.blocks.loss import cross_entropy
from capienza.predict.training.blocks.scores import Scoring, entropies, logits_of, masked_mean, scored, shifted, tiled
from capienza.predict.training.operations import FP32, add, cast, copy, mean, part
from capienza.predict.training.releases import release
from capienza.predict.training.tape import LOGITS, Tape, Tensor
from capienza.recipe.recipe import PAIRED, Checkpointing, Recipe

BY_ROWS_SINCE, KERNEL_SINCE, TILES_SINCE = (0, 14), (1, 14), (1, 15)
HIDDEN_STATES = (0, 20), (0, 29)
"""DPO asked for the rows of every layer, which stay to the end of its pass."""
REWRITTEN_SINCE, VIEWS_SINCE = (0, 29), (1, 6)
"""DPO's trainer of one batch of chosen and rejected; up to the second it copied the logits to shift them."""
IN_PLACE = (1, 0), (1, 12)
ENTROPY_SINCE, ENTROPY_BY_ROWS_SINCE, ENTROPY_ROWS = (0, 20), (0, 23), 128


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """One microbatch's program.

    `logs`: the means of the logits are taken pass by pass, or at the end with the entropy. `keeps_logits`: they are
    there to the end of the loss, while the reference runs too. `keeps_rows`: those of every layer are there to the end
    of a pass, in fp32 where outputs leave in it. `has_likelihood`: the chosen sequences' cross entropy is in the loss.
    """

    reference: Decoder | None
    scoring: Scoring
    is_paired: bool = False
    logs: Literal["none", "passes", "end"] = "none"
    keeps_logits: bool = False
    keeps_rows: bool = False
    has_likelihood: bool = False

    def run(self, tape: Tape, model: Decoder, *, is_first: bool) -> Tensor:
        """The loss. `is_first` of an update's microbatches."""
        if self.is_paired:
            return self._pairs(tape, model)
        if is_first and self.reference is not None:
            self._scored(tape, self.reference, "reference")
        made = self._scored(tape, model, "forward")[0]
        return mean(tape, made, made.elements)

    def _pairs(self, tape: Tape, model: Decoder) -> Tensor:
        made, held = self._scored(tape, model, "forward")
        beside = self._scored(tape, self.reference, "reference") if self.reference is not None else None
        tape.segment(("reference", "compared"))
        if held and self.logs == "end":
            if self.scoring.kind != "kernel":
                entropies(tape, held[-1], model.head.module.weight.rows, ENTROPY_ROWS, self.scoring)
            masked_mean(tape, held[-1])
        del beside, held
        return mean(tape, made, made.elements)

    def _scored(self, tape: Tape, model: Decoder, phase: str) -> tuple[Tensor, list[Tensor]]:
        """The model's pass and its scores, and what the caller goes on holding of the logits."""
        if phase == "forward":
            return self._made(tape, model, phase)
        tape.segment((phase, "entry"))
        with tape.no_grad():
            return self._made(tape, model, phase)

    def _likelihood(self, tape: Tape, logits: Tensor, vocabulary: int) -> Tensor:
        """The cross entropy of the first half, of logits that are shifted into a copy."""
        count = self.scoring.sequences // 2 * self.scoring.tokens
        chosen = part(tape, logits, count * vocabulary)
        rows = count - self.scoring.sequences // 2
        return cross_entropy(tape, copy(tape, part(tape, chosen, rows * vocabulary)), rows)

    def _made(self, tape: Tape, model: Decoder, phase: str) -> tuple[Tensor, list[Tensor]]:
        scoring, vocabulary = self.scoring, model.head.module.weight.rows
        rows_held, wide_held = list[Tensor](), list[Tensor]()

        def hold(rows: Tensor) -> None:
            rows_held.append(rows)
            if scoring.widens:
                wide_held.append(tape.new(rows.elements, FP32))

        with tape.autocasting():
            rows = stack(tape, model, phase, hold if self.keeps_rows else None)
            if rows_held and tape.grad and model.checkpointing != "none":
                tape.once(rows_held[-1])
            tape.segment((phase, "loss"))
            kind, tape.kind = tape.kind, LOGITS
            if scoring.kind == "tiles":
                made, logits = tiled(tape, rows, model.head, scoring), None
            else:
                logits = logits_of(tape, rows, model.head, scoring)
            del rows
            tape.segment((phase, "exit"))
        if logits is not None and scoring.widens:
            logits = cast(tape, logits, FP32)
        if scoring.widens:
            rows_held.clear()
        tape.segment((phase, "scores"))
        held: list[Tensor] = []
        if logits is not None:
            held += [logits] if self.keeps_logits else []
            likelihood = self._likelihood(tape, logits, vocabulary) if self.has_likelihood else None
            logits = shifted(tape, logits, vocabulary, scoring)
            made = scored(tape, logits, vocabulary, scoring)
            held += [logits] if self.keeps_logits else []
            made = made if likelihood is None else add(tape, made, likelihood)
            if self.logs == "passes":
                masked_mean(tape, logits)
            del logits
        tape.segment((phase, "left"))
        rows_held.clear()
        wide_held.clear()
        tape.kind = kind
        return made, held


def compared(
    architecture: Architecture, recipe: Recipe, config: Mapping[str, Any] | None, places: Sequence[int]
) -> Compared | None:
    """The program of the recipe's objective, of those layers; None where the loss is that of the model's own code.

    Raises `InputError` for a model with a part that is not covered.
    """
    trl, is_dpo = release(recipe, "trl"), recipe.objective == "dpo"
    if recipe.objective == "sft":
        is_tiled = recipe.framework == "trl" and recipe.loss.kind == "fused_linear" and trl >= TILES_SINCE
        return Compared(reference=None, scoring=_of_pairs(recipe, trl, is_fused=True)) if is_tiled else None
    is_paired, is_rewritten = recipe.objective in PAIRED, is_dpo and REWRITTEN_SINCE <= trl < TILES_SINCE
    is_seen = recipe.preference is not None and recipe.preference.reference in ("model", "adapter_off")
    return Compared(
        reference=Builder(architecture, _frozen(recipe), config).decoder(places) if is_seen else None,
        scoring=_of_pairs(recipe, trl, is_fused=is_dpo) if is_paired else _of_completions(recipe, trl),
        is_paired=is_paired,
        logs="end" if is_rewritten else "passes" if is_dpo and trl < REWRITTEN_SINCE else "none",
        keeps_logits=is_rewritten or (is_paired and not is_dpo),
        keeps_rows=is_dpo and HIDDEN_STATES[0] <= trl < HIDDEN_STATES[1],
        has_likelihood=recipe.objective == "orpo",
    )


def _frozen(recipe: Recipe) -> Recipe:
    """The reference's own recipe: nothing is trained, nothing is computed again."""
    base = recipe.precision.trained if recipe.method == "full" else recipe.precision.base
    return msgspec.structs.replace(
        recipe,
        method="lora",
        adapters=None,
        precision=msgspec.structs.replace(recipe.precision, base=base),
        checkpointing=Checkpointing(kind="none"),
    )


def _kind(trl: tuple[int, ...]) -> Literal["whole", "rows", "kernel", "tiles"]:
    if trl >= TILES_SINCE:
        return "tiles"
    if trl >= KERNEL_SINCE:
        return "kernel"
    return "rows" if trl >= BY_ROWS_SINCE else "whole"


def _of_pairs(recipe: Recipe, trl: tuple[int, ...], *, is_fused: bool) -> Scoring:
    """Every token but the first is scored; between two rewritings of DPO's trainer the labels were rolled instead.

    `is_fused`: the trainer has the fused head. ORPO's and CPO's, which runs SimPO, have not.
    """
    is_dpo, kind = recipe.objective == "dpo", _kind(trl)
    is_rolled = is_dpo and BY_ROWS_SINCE <= trl < REWRITTEN_SINCE
    return Scoring(
        kind="kernel" if kind == "tiles" and not is_fused else kind,
        sequences=recipe.sequences,
        tokens=recipe.tokens,
        scored=recipe.tokens if is_rolled else max(1, recipe.tokens - 1),
        widens=recipe.precision.widens_outputs,
        copies_shift=is_dpo and REWRITTEN_SINCE <= trl < VIEWS_SINCE,
    )


def _of_completions(recipe: Recipe, trl: tuple[int, ...]) -> Scoring:
    """The completion's tokens are scored, and only they and one more go through the head."""
    stated = recipe.preference.completion_tokens if recipe.preference is not None else None
    kind: Literal["whole", "rows", "kernel", "tiles"] = "rows" if trl < BY_ROWS_SINCE else _kind(trl)
    divides: Literal["no", "anew", "in_place"] = "no"
    if kind == "rows":
        divides = "in_place" if IN_PLACE[0] <= trl < IN_PLACE[1] else "anew"
    scored_tokens = max(1, min(stated or recipe.tokens - 1, recipe.tokens - 1))
    rows = 0
    if kind == "rows" and trl >= ENTROPY_SINCE:
        rows = ENTROPY_ROWS if trl >= ENTROPY_BY_ROWS_SINCE else scored_tokens
    return Scoring(
        kind=kind,
        sequences=recipe.sequences,
        tokens=recipe.tokens,
        scored=scored_tokens,
        widens=recipe.precision.widens_outputs,
        slices=True,
        divides=divides,
        entropy_rows=rows,
    )
