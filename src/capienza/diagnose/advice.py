"""What to examine next, and what must not be changed in silence: by cause and by phase.

DESIGN rule 9: a remedy that shortens the context, lowers the concurrency, shrinks the data or changes the task answers
another question. It may be chosen, aloud; the tables below name what the usual remedies of a phase would change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from capienza.diagnose.filled import FILLED_BY
from capienza.errors import Message, Template, template

if TYPE_CHECKING:
    from capienza.diagnose.diagnosis import Diagnosis

EXAMINE: dict[str, tuple[Template, ...]] = {
    "weights": (
        template(
            "diagnose.examine-weights",
            "how many bytes the weights take in the format in which they are resident, per GPU, and whether a second "
            "copy is alive while they load",
            "capienza size CARD --gpu GPU shows both as entries of the load",
        ),
    ),
    "loading_transient": (
        template(
            "diagnose.examine-transient",
            "what is held twice while loading or merging: one format beside another, or the old weights beside the new",
        ),
    ),
    "kv_cache": (
        template(
            "diagnose.examine-cache",
            "the tokens that the cache must hold at once, and what the engine leaves for it",
            "capienza limits CARD --gpu GPU says how far the card goes, and what binds",
        ),
    ),
    "activations": (
        template(
            "diagnose.examine-activations",
            "the dimensions really executed by the step that failed: the longest sequence and the microbatch, not "
            "their means",
        ),
    ),
    "logits": (
        template(
            "diagnose.examine-logits",
            "the logits: tokens at once x vocabulary x bytes of the loss' format, and how many copies the loss makes",
        ),
    ),
    "optimizer_state": (
        template(
            "diagnose.examine-optimizer",
            "which states the optimizer keeps and in which format: they appear at the first step, after a forward and "
            "backward pass that fitted",
        ),
    ),
    "eval_accumulation": (
        template(
            "diagnose.examine-accumulation",
            "what validation keeps on the GPU from batch to batch: outputs or logits of the whole set",
        ),
    ),
    "save_gather": (
        template(
            "diagnose.examine-gather",
            "what saving gathers on one GPU: the whole state, or shards; and whether the file written is complete",
        ),
    ),
    "graph_capture": (
        template(
            "diagnose.examine-capture",
            "what the engine's share of the card leaves outside its pool for graphs, and which batch sizes it captures",
        ),
    ),
    "fragmentation": (
        template(
            "diagnose.examine-fragmentation",
            "the allocator's setting (expandable segments) and shapes that change from step to step: the memory is "
            "there, not in one piece",
        ),
    ),
    "other_process": (
        template(
            "diagnose.examine-others",
            "which processes hold the card (nvidia-smi, rocm-smi), and whether ranks of the same run share it by a "
            "wrong placement",
        ),
    ),
    "unit_confusion": (
        template(
            "diagnose.examine-units",
            "the unit of the option or figure: GB are powers of 1000, GiB powers of 1024, and a card's name is neither",
        ),
    ),
    "host_ram": (
        template(
            "diagnose.examine-host",
            "the host's memory: limit of the container or job, free memory, shared memory (/dev/shm), and what the "
            "kernel's log says of a kill",
        ),
    ),
    "disk": (
        template(
            "diagnose.examine-disk", "free space and quota where the line writes, and whether a partial file remains"
        ),
    ),
    "configuration": (
        template(
            "diagnose.examine-configuration", "the option or size that the line names, against what the model allows"
        ),
    ),
    "compatibility": (
        template(
            "diagnose.examine-compatibility",
            "versions of driver, runtime, library and card against the documentation of the software",
        ),
    ),
    "communication": (
        template(
            "diagnose.examine-communication",
            "the first rank that failed: the others only wait for it; its own log holds the cause",
        ),
    ),
    "not_memory": (
        template("diagnose.examine-error", "the error itself: more memory does not change it"),
    ),
    "unknown": (
        template(
            "diagnose.examine-more",
            "the log around the failure: the call stack before it, and the engine's lines since the start; these lines "
            "do not tell the cause",
        ),
    ),
}  # fmt: skip
PHASE_NOT_TOLD = template(
    "diagnose.examine-phase",
    "which phase it was: these lines do not tell",
    "keep the whole log with the call stack, and run again with the phases marked",
)
KEEP_SERVING = template(
    "diagnose.keep-serving",
    "context length and concurrency: they are the requirement; lower limits serve another load",
)
KEEP_TRAINING = template(
    "diagnose.keep-training",
    "sequence length, data and the effective batch: a smaller microbatch keeps it only with more accumulation",
)
KEEP_EVAL = template("diagnose.keep-eval", "the validation set, its lengths and its metrics: the result is compared")
KEEP_SAVE = template(
    "diagnose.keep-save", "what is saved, and its format: an incomplete or other file is another deliverable"
)
KEEP_FORMAT = template(
    "diagnose.keep-format",
    "weight and cache format: a narrower one needs its quality measured again before it counts",
)
KEEP_SHARE = template(
    "diagnose.keep-share",
    "the engine's share of the card: raising it moves the shortage to what lies outside the pool, such as graphs",
)
KEEP_LOADED = template(
    "diagnose.keep-loaded", "what is loaded: offloading or another format changes speed or quality, and must be said"
)
SERVING = ("kv_cache_allocation", "profile_warmup", "graph_capture", "prefill", "decode", "startup")
TRAINING = ("forward", "backward", "optimizer_step", "data")


def examined(found: Diagnosis) -> tuple[Message, ...]:
    """What to look at, most telling first."""
    messages = [words() for words in EXAMINE[found.cause]]
    if found.cause in ("fragmentation", "other_process") and found.phase in FILLED_BY:
        messages += [words() for words in EXAMINE[FILLED_BY[found.phase]]]
    if found.phase == "unknown" and found.memory != "no":
        messages.append(PHASE_NOT_TOLD())
    return tuple(messages)


def kept(found: Diagnosis) -> tuple[Message, ...]:
    """What the usual remedies of this phase change without saying so. Nothing for what is no lack of memory."""
    if found.memory == "no" and found.cause != "configuration":
        return ()
    return tuple(words() for words in _kept(found.phase))


def _kept(phase: str) -> tuple[Template, ...]:
    if phase in SERVING:
        return (KEEP_SERVING, KEEP_FORMAT, KEEP_SHARE)
    if phase in TRAINING:
        return (KEEP_TRAINING, KEEP_FORMAT)
    if phase == "eval":
        return (KEEP_EVAL, KEEP_TRAINING)
    if phase == "checkpoint":
        return (KEEP_SAVE,)
    if phase == "load":
        return (KEEP_LOADED, KEEP_FORMAT)
    return (KEEP_SERVING, KEEP_TRAINING, KEEP_FORMAT)
