"""A training's closed form beside its trace: phase by phase, and which entries make a difference.

Legend: computed    the closed form's figure: what is expected, without the spread of measured cases
        traced      the same counter of the program that was run on fake tensors
        difference  computed over traced - 1
Both are of one GPU. The trace names a storage by its life (an activation, a temporary), the closed form an entry by its
purpose; GROUPS says what of one is what of the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from capienza.errors import Message, template
from capienza.ledger.counters import OUTSIDE, counters_of
from capienza.ledger.ledger import CACHED, Ledger
from capienza.ledger.phase import Phase
from capienza.predict.training.passes import Passes
from capienza.recipe.recipe import Recipe

MOST_APART = 0.03
"""Beyond this the two are said to differ (the project's own bar)."""
SHARE = 0.25
"""Of the whole difference: an entry that makes less of it is named only where none makes more."""
LOGITS, PASSES, OTHER = "logits_and_loss", "activations", "other"
GROUPS = {
    "weights": ("weights", "widened_weights", "untied_head", "adapters", "trained_copies", "buffers"),
    "gradients": ("gradients",),
    "optimizer_states": ("optimizer_states",),
    "optimizer_transient": ("optimizer_transient",),
    LOGITS: (LOGITS, "kept_outputs"),
    PASSES: ("activations", "recomputed_activations", "temporaries", "pass_temporaries"),
    "loading": ("loading",),
}
"""Entries of both ledgers by what they are; what is not here is `other`."""
_GROUP = {name: group for group, names in GROUPS.items() for name in names}
OF_THE_LOSS = ("loss", "exit", "last")
"""Parts of the closed form's passes whose temporaries are logits."""

OTHER_RELEASE = template(
    "training.beside-release",
    "the closed form follows {framework} {stated}, as the card says; the traced program is that of transformers "
    "{installed}",
    "trace with the card's own release installed",
)
OTHER_PROGRAM = template(
    "training.beside-program",
    "the closed form follows {framework} {stated}, as the card says; the traced program is the Trainer's step of "
    "transformers {installed}, and runs no code of {framework}",
    "installing {framework} changes nothing here: go by the closed form for what {framework} does by itself, or trace "
    "a program of your own that calls it, with predict_peak",
)
IN_ONE = template(
    "training.beside-one-only",
    "{phase}: only the trace has it: {why}",
    "state the evaluation or the export in the card",
)
NOT_STATED = template("training.beside-not-stated", "the card does not ask for it")
LOADED = template(
    "training.beside-load",
    "the trace makes the model on the card; the closed form counts the reading of its files",
    "for the load phase the closed form is the one to go by",
)
NOT_COVERED = template(
    "training.beside-unknown", "the closed form has no figure for the passes of this model or recipe: {why}"
)


class Difference(msgspec.Struct, frozen=True):
    """One group of entries in a phase."""

    name: str
    computed_bytes: int
    traced_bytes: int

    @property
    def over_bytes(self) -> int:
        """Computed over traced."""
        return self.computed_bytes - self.traced_bytes


class Beside(msgspec.Struct, frozen=True, kw_only=True):
    """One phase in both. None: the closed form has no such phase, or no figure for it."""

    phase: Phase
    computed_allocated_bytes: int | None
    traced_allocated_bytes: int
    computed_reserved_bytes: int | None
    traced_reserved_bytes: int
    entries: tuple[Difference, ...]
    """Groups of entries whose figures differ."""

    @property
    def allocated(self) -> float | None:
        """The difference of the allocated peak, as a share of the traced one."""
        return _over(self.computed_allocated_bytes, self.traced_allocated_bytes)

    @property
    def reserved(self) -> float | None:
        """The difference of the reserved peak."""
        return _over(self.computed_reserved_bytes, self.traced_reserved_bytes)

    @property
    def is_apart(self) -> bool:
        """Do the two differ by more than the bar, in either counter?"""
        return any(one is not None and abs(one) > MOST_APART for one in (self.allocated, self.reserved))

    @property
    def named(self) -> tuple[Difference, ...]:
        """The entries that make the difference of the allocated peak, the largest first, where it is beyond the bar."""
        if self.computed_allocated_bytes is None or abs(self.allocated or 0) <= MOST_APART:
            return ()
        whole = self.computed_allocated_bytes - self.traced_allocated_bytes
        ranked = sorted(self.entries, key=lambda one: -one.over_bytes * whole)
        return tuple(one for one in ranked if one is ranked[0] or one.over_bytes * whole > SHARE * whole**2)


class Comparison(msgspec.Struct, frozen=True):
    """Every phase of the trace, and what is known of why the two may differ."""

    phases: tuple[Beside, ...]
    causes: tuple[Message, ...]


def compared(
    computed: Ledger,
    traced: Ledger,
    passes: Passes | None,
    traced_logits: Mapping[str, int],
    device: str,
) -> tuple[Beside, ...]:
    """Both ledgers of one GPU, for each phase of the trace. `traced_logits`: bytes of logits by phase."""
    closed = {one.phase: one for one in counters_of(computed, device)}
    found = []
    for seen in counters_of(traced, traced.gpus[0]):
        known = closed.get(seen.phase)
        allocated = known and known.allocated
        reserved = known and known.reserved
        ours = _groups(computed, device, seen.phase) if allocated and allocated.is_complete else {}
        theirs = _groups(traced, traced.gpus[0], seen.phase)
        _move(ours, "pass_temporaries" if _is_at_the_loss(passes, seen.phase) else "", LOGITS)
        found.append(
            Beside(
                phase=seen.phase,
                computed_allocated_bytes=allocated.amount.expected if allocated and allocated.is_complete else None,
                traced_allocated_bytes=seen.allocated.amount.expected,
                computed_reserved_bytes=reserved.amount.expected if reserved and reserved.is_complete else None,
                traced_reserved_bytes=seen.reserved.amount.expected,
                entries=tuple(_differences(_grouped(ours), _split(_grouped(theirs), traced_logits.get(seen.phase, 0)))),
            )
        )
    return tuple(found)


def causes(
    phases: tuple[Beside, ...],
    recipe: Recipe,
    installed: str,
    left_out: tuple[Message, ...],
    notes: tuple[Message, ...],
) -> Iterator[Message]:
    """What is known of why the two may differ: other releases, parts that one of them does not follow.

    `left_out`: what the traced program does not follow; `notes`: what the closed form took for granted or lacks.
    """
    if not any(one.is_apart or one.computed_allocated_bytes is None for one in phases):
        return
    stated = recipe.framework_version
    said = {origin.field for origin in recipe.origins if origin.is_stated}
    # Where the card says that there is none, there is nothing to advise.
    refused = {
        phase for phase, field in ((Phase.EVAL, "evaluation.microbatch"), (Phase.EXPORT, "export")) if field in said
    }
    if stated is not None and not (recipe.framework == "transformers" and stated == installed):
        told = OTHER_RELEASE if recipe.framework == "transformers" else OTHER_PROGRAM
        yield told(framework=recipe.framework, stated=stated, installed=installed)
    if any(one.phase is Phase.LOAD and one.is_apart for one in phases):
        yield LOADED()
    for one in phases:
        if (
            one.phase in (Phase.EVAL, Phase.EXPORT)
            and one.computed_allocated_bytes is None
            and one.phase not in refused
        ):
            yield IN_ONE(phase=str(one.phase), why=NOT_STATED())
    if any(one.phase in (Phase.FORWARD, Phase.BACKWARD) and one.computed_allocated_bytes is None for one in phases):
        for note in notes:
            yield NOT_COVERED(why=note)
    yield from left_out


def _over(computed: int | None, traced: int) -> float | None:
    return None if computed is None or not traced else computed / traced - 1


def _is_at_the_loss(passes: Passes | None, phase: Phase) -> bool:
    moments = {} if passes is None else {
        Phase.FORWARD: passes.forward, Phase.BACKWARD: passes.backward, Phase.EVAL: passes.evaluation,
    }  # fmt: skip
    moment = moments.get(phase)
    return moment is not None and moment.where in OF_THE_LOSS


def _groups(ledger: Ledger, device: str, phase: Phase) -> dict[str, int]:
    """Expected bytes by the name of the entry, of what the allocator holds."""
    found: dict[str, int] = {}
    for entry in ledger.on(device):
        if phase in entry.phases and entry.name not in OUTSIDE and entry.name != CACHED and entry.amount is not None:
            found[entry.name] = found.get(entry.name, 0) + entry.amount.expected
    return found


def _move(amounts: dict[str, int], name: str, into: str) -> None:
    if name in amounts:
        amounts[into] = amounts.get(into, 0) + amounts.pop(name)


def _grouped(amounts: Mapping[str, int]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, size in amounts.items():
        group = _GROUP.get(name, OTHER)
        found[group] = found.get(group, 0) + size
    return found


def _split(amounts: dict[str, int], logits_bytes: int) -> dict[str, int]:
    """The trace's passes without the logits that are among them."""
    if not logits_bytes:
        return amounts
    return amounts | {LOGITS: logits_bytes, PASSES: amounts.get(PASSES, 0) - logits_bytes}


def _differences(computed: Mapping[str, int], traced: Mapping[str, int]) -> Iterator[Difference]:
    if not computed:
        return
    for name in dict.fromkeys((*computed, *traced)):
        one = Difference(name, computed.get(name, 0), traced.get(name, 0))
        if one.computed_bytes != one.traced_bytes:
            yield one
