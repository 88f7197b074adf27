"""What is said of a rule: met, violated in one of four ways, or open; always with its id and source."""

from __future__ import annotations

from capienza.errors import Message, Template, template

SUBJECTS: dict[str, Template] = {
    "start": template("catalog.subject-start", "the GPU"),
    "host": template("catalog.subject-host", "the server"),
    "weights": template("catalog.subject-weights", "weights in {kind}"),
    "dtype": template("catalog.subject-dtype", "the number format {kind}"),
    "kv": template("catalog.subject-cache", "a cache in {kind}"),
    "attention": template("catalog.subject-attention", "attention by {kind}"),
}
MET = template("catalog.rule-met", "{software} takes {subject}: {needed} needed, {found} found (rule {rule})")
REFUSED = template(
    "catalog.rule-refused",
    "{software} refuses {subject} on {gpu}: {needed} needed, {found} found (rule {rule}: {source})",
    "choose another GPU, version or format",
)
NO_KERNEL = template(
    "catalog.rule-no-kernel",
    "{software} has no code for {subject} on {gpu}: {needed} needed, {found} found (rule {rule}: {source})",
    "choose another GPU, or a build for this one",
)
SLOWER = template(
    "catalog.rule-slower",
    "{software} takes {subject} in a slower way on {gpu}, in the same memory: {needed} needed for the other, "
    "{found} found (rule {rule}: {source})",
)
MINOR_ONLY = template(
    "catalog.rule-older-driver",
    "{software} ships with {needed}; {found} runs it by minor-version compatibility alone, without what only a newer "
    "driver has (rule {rule}: {source})",
    "ask for a newer driver, or run it once",
)
OTHER_FORMAT = template(
    "catalog.rule-other-format",
    "{software} takes {becomes} in place of {subject} on {gpu}, in the same memory: {needed} needed, {found} "
    "found (rule {rule}: {source})",
    "check the quality in that format",
)
LARGER = template(
    "catalog.rule-silently-larger",
    "{software} holds {subject} in {becomes} on {gpu}, about {factor} times the bytes, and only logs it: "
    "{needed} needed, {found} found (rule {rule}: {source})",
    "choose a GPU, a version or a format that is held as stored",
)
MAY_BE_LARGER = template(
    "catalog.rule-may-be-larger",
    "{software} holds {subject} in {becomes}, about {factor} times the bytes, unless {needed} is there; that "
    "is not known (rule {rule}: {source})",
    "read the version of {package} in the intended environment: until then the range holds both ends",
)
OPEN = template(
    "catalog.rule-open",
    "{software} needs {needed} for {subject}; whether it is there is not known (rule {rule}: {source})",
    "read it in the intended environment",
)
NO_COLUMN = template(
    "catalog.rule-no-column",
    "the documented hardware of {software} says nothing of {found}, which {gpu} is (rule {rule}: {source})",
    "run it once there, or read the documentation of the very release",
)
NEAREST = template(
    "catalog.rule-nearest",
    "no rule of {software} {version} was read on this; by the nearest one read, {reason}",
    "a rule of another release excludes nothing: read the documentation of that release, or run it once",
)
FOREIGN = template(
    "catalog.rule-foreign",
    "which {software} {engine} {version} brings is not known; by what was read, {reason}",
    "read the version of {software} in the intended environment, or run it once",
)
OUTSIDE = template(
    "catalog.rule-outside",
    "by a document that is not of {engine} itself, {reason}",
    "the documentation of {engine}, or a short run, settles it",
)
OTHER_CLASS = template(
    "catalog.rule-other-class",
    "{reason}; on GPUs of this class a compatibility package may lift it",
    "ask whether the server has it",
)
NOT_READ = template(
    "catalog.rules-not-read",
    "no rules of {engine} {version} were read; those of {releases} are taken, and hold",
    "read the documentation of that release, or run it once",
)
NO_RULE = template(
    "catalog.no-rule",
    "no rule of compatibility is known for {engine} on {gpu}",
    "the engine's documentation, or a short run, settles it",
)
NO_CAPABILITY = template(
    "catalog.capability-unknown",
    "the compute capability or gfx name of {gpu} is not known, so no rule can be applied",
    "state gpu.compute_capability or gpu.gfx_arch in the offers file, or name the GPU as its driver does",
)
CAPABILITY_CONTRADICTS = template(
    "catalog.capability-contradicts",
    "the offer states another compute capability or gfx name than {gpu} has, so no rule can be applied",
    "ask the seller for the exact model, and for the output of nvidia-smi or rocminfo",
)


def subject_text(subject: str) -> Message:
    """What a rule speaks of, in words: "weights:awq" is weights in awq, "dtype:bf16-auto" the number format bf16."""
    what, colon, kind = subject.partition(":")
    kind = kind.removesuffix("-auto").removesuffix("-stated")
    return SUBJECTS[what](kind=kind.replace("@", " / ")) if colon else SUBJECTS[what]()
