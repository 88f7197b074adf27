"""`quality`: freeze a plan, say what it can show, collect the answers of an arm, compare."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from capienza.api.model_texts import digests_of
from capienza.card.load import load_card, place_of
from capienza.card.model import Card
from capienza.card.quality_model import Quality
from capienza.decide.criteria.quality import corpus_name
from capienza.decide.need import configuration_of, model_name
from capienza.errors import CapienzaError, InputError, Message, Place, UnreachableError, UsageError, template
from capienza.evidence.folder import read_folder
from capienza.evidence.record import Record
from capienza.evidence.store import write_record
from capienza.quality.answers import Answers, Header
from capienza.quality.collect import Collected, check_corpus, collect
from capienza.quality.compare import Comparison, compare
from capienza.quality.corpus import Corpus, digest, read_corpus
from capienza.quality.freeze import NO_QUALITY, NOT_STATED, plan_of
from capienza.quality.kl_log import read_kl_log
from capienza.quality.lint import Lint, lint
from capienza.quality.logprobs import missing
from capienza.quality.output_records import outputs_record
from capienza.quality.outputs import read_outputs
from capienza.quality.plan import Answering, Arm, QualityPlan, frozen, read_plan, write_plan
from capienza.quality.records import PLAN_FILE, plan_record, result_record
from capienza.quality.served import served_findings

EVIDENCE, PLAN_NAME = "evidence", "quality-plan.json"

PLAN_THERE = template(
    "quality.plan-is-there", "a plan lies here already", "name another file with --out: a frozen plan is not replaced"
)
MODEL_CLOSED = template(
    "quality.model-not-opened",
    "the model could not be opened ({reason}), so the candidate is what the card says of it",
)
NOT_RECORDED = template(
    "quality.plan-not-recorded",
    "the folder has no record of plan {plan}",
    "give the folder into which it was frozen, with --evidence",
)
USED = template(
    "quality.plan-used",
    "plan {plan} was used by record {record} with other outputs: a plan is looked at once",
    "freeze a new plan, with items that no output was seen of",
)
NO_CORPUS = template(
    "quality.corpus-not-beside-plan",
    "the corpus of the plan does not lie here",
    "name where it lies with --corpus; the plan names it from its own folder",
)
NO_TARGET = template(
    "quality.no-target",
    "nothing is named that answers",
    "after --, give an address (http://127.0.0.1:8000/v1) or a command",
)


class Linted(msgspec.Struct, frozen=True, kw_only=True):
    """A plan as it is or would be, and what it can show."""

    plan: QualityPlan
    corpus: Corpus
    lint: Lint
    findings: tuple[Message, ...] = ()


class Frozen(msgspec.Struct, frozen=True, kw_only=True):
    """A plan that was written, with its record where a folder was given."""

    linted: Linted
    path: Path
    record: Record | None = None


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """What was collected of one arm."""

    plan: QualityPlan
    arm: Arm
    path: Path
    collected: Collected


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """A comparison, with its record where a folder was given."""

    plan: QualityPlan
    comparison: Comparison
    record: Record | None = None


def quality_lint(card: str | Path, corpus: str | Path | None = None) -> Linted:
    """What a card's corpus, or that of a frozen plan (a .json file), can show.

    Raises what `plan_of`, `read_corpus` and `lint` raise.
    """
    if str(card).endswith(".json"):
        plan = read_plan(str(card))
        read = _corpus_of(plan, Path(card), corpus)
        return Linted(plan=plan, corpus=read, lint=lint(plan, read))
    return _looked_at(load_card(card), datetime.datetime.now(datetime.UTC))


def quality_freeze(
    card: str | Path,
    out: str | Path | None = None,
    evidence: str | Path | None = EVIDENCE,
    now: datetime.datetime | None = None,
) -> Frozen:
    """Freeze the plan of a card: its file (beside the card, unless `out` says where) and its record.

    Raises what `quality_lint` raises; `InputError` where a plan lies there already, `UnreachableError` where it cannot
    be written.
    """
    read = load_card(card)
    path = Path(out) if out is not None else Path(card).parent / PLAN_NAME
    if path.exists():
        raise InputError(PLAN_THERE(), Place(str(path)))
    looked = _looked_at(read, now or datetime.datetime.now(datetime.UTC))
    plan = frozen(msgspec.structs.replace(looked.plan, sizing=looked.lint.sizing))
    record = plan_record(plan) if evidence is not None else None
    if record is not None and evidence is not None:
        write_record(record, Path(evidence))
    write_plan(plan, path)
    return Frozen(linted=msgspec.structs.replace(looked, plan=plan), path=path, record=record)


def quality_run(
    plan: str | Path,
    arm: Arm,
    target: Sequence[str],
    *,
    out: str | Path | None = None,
    corpus: str | Path | None = None,
    model: str = "default",
    concurrency: int = 1,
    seconds: float = 600.0,
    key: str | None = None,
    told: Callable[[int, int], None] | None = None,
) -> Ran:
    """Collect the answers of one arm into a file (beside the plan, unless `out` says where); goes on where it stopped.

    Args:
        plan: The frozen plan.
        arm: Which arm answers.
        target: One address of an OpenAI-compatible server, or a command with its arguments.
        out: The file of outputs.
        corpus: The frozen corpus, where it does not lie as the plan has it from its own folder.
        model: The name that the server knows the model by.
        concurrency: Items under way at once.
        seconds: The most that one answer may take.
        key: A bearer token for the server.
        told: Is told how many items are answered, of how many.

    Raises:
        CapienzaError: What cannot be read or written. A server that fails leaves items open; that raises nothing.
    """
    frozen_plan = read_plan(str(plan))
    read = _corpus_of(frozen_plan, Path(plan), corpus)
    check_corpus(frozen_plan, read)
    path = Path(out) if out is not None else Path(plan).with_suffix("").with_name(f"{Path(plan).stem}.{arm}.jsonl")
    if not target:
        raise UsageError(NO_TARGET())
    header = Header(
        plan=frozen_plan.id,
        arm=arm,
        target=_shown(target),
        date=datetime.datetime.now(datetime.UTC),
    )
    if len(target) == 1 and target[0].startswith(("http://", "https://")):
        from capienza.quality.endpoint import Server, ask_server, check_address, check_key, served_by

        server = Server(
            address=check_address(target[0]),
            model=model,
            seconds=seconds,
            concurrency=concurrency,
            key=check_key(key),
        )
        header = msgspec.structs.replace(header, served=served_by(server))
        found = collect(read, header, path, lambda items: ask_server(frozen_plan, server, items), told)
    else:
        from capienza.quality.command import ask_command

        found = collect(
            read, header, path, lambda items: ask_command(frozen_plan, target, items, concurrency, seconds), told
        )
    noticed = (*found.findings, *served_findings(frozen_plan, arm, header.served))
    if message := missing(frozen_plan, found.answers):
        noticed = (*noticed, message)
    return Ran(plan=frozen_plan, arm=arm, path=path, collected=msgspec.structs.replace(found, findings=noticed))


def quality_compare(
    plan: str | Path,
    reference: str | Path,
    candidate: str | Path,
    *,
    reference_again: str | Path | None = None,
    harmed: str | Path | None = None,
    kl_log: str | Path | None = None,
    corpus: str | Path | None = None,
    evidence: str | Path | None = EVIDENCE,
    now: datetime.datetime | None = None,
) -> Compared:
    """Compare the candidate with the reference under a plan, and put the result into the folder `evidence`.

    Outputs are files of `quality_run`, or sample logs of lm-evaluation-harness. `kl_log` is what llama-perplexity
    --kl-divergence printed of the candidate: it gives the alarms of the plan their figures.

    Raises what reading plan, corpus and outputs raises; `InputErrors` for outputs of another plan or arm.
    """
    frozen_plan = read_plan(str(plan))
    read = _corpus_of(frozen_plan, Path(plan), corpus)
    files: dict[Arm, str | Path | None] = {
        "reference": reference,
        "reference_again": reference_again,
        "candidate": candidate,
        "harmed": harmed,
    }
    given = {arm: file for arm, file in files.items() if file is not None}
    arms: Mapping[Arm, Answers] = {arm: read_outputs(str(file), frozen_plan, read, arm) for arm, file in given.items()}
    printed = None if kl_log is None else read_kl_log(str(kl_log))
    outputs = [*given.values(), *(() if kl_log is None else (kl_log,))]
    known = () if evidence is None else _known(Path(evidence))
    recorded = next((record for record in known if record.kind == "plan" and _is_of(record, frozen_plan)), None)
    doubts = [] if evidence is None else _plan_doubts(frozen_plan, recorded, known, outputs)
    comparison = compare(frozen_plan, read, arms, tuple(doubts), printed)
    said = tuple(each for arm, one in arms.items() for each in served_findings(frozen_plan, arm, one.header.served))
    comparison = msgspec.structs.replace(comparison, findings=(*comparison.findings, *said))
    if evidence is None or recorded is None:
        return Compared(plan=frozen_plan, comparison=comparison)
    moment = now or datetime.datetime.now(datetime.UTC)
    arm_records = [
        outputs_record(frozen_plan, arm, arms[arm], file, recorded.id, moment) for arm, file in given.items()
    ]
    cited = [recorded.id, *(each.id for each in arm_records)]
    record = result_record(frozen_plan, comparison, cited, outputs, moment)
    for each in (*arm_records, record):
        write_record(each, Path(evidence))
    return Compared(plan=frozen_plan, comparison=comparison, record=record)


def _looked_at(card: Card, now: datetime.datetime) -> Linted:
    file = card.file or ""
    quality = card.quality
    if not isinstance(quality, Quality):
        raise InputError(NO_QUALITY(), place_of(file, "quality"))
    if quality.corpus is None:
        raise InputError(NOT_STATED(field="quality.corpus", example="eval/corpus.jsonl"), place_of(file, "quality"))
    corpus = read_corpus(quality.corpus)
    candidate, findings = _candidate(card)
    plan = plan_of(
        card,
        corpus,
        corpus_name(quality.corpus, card.file),
        candidate,
        lambda key: place_of(file, key),
        now,
        digests_of(card, quality),
    )
    return Linted(plan=plan, corpus=corpus, lint=lint(plan, corpus), findings=findings)


def _candidate(card: Card) -> tuple[Answering, tuple[Message, ...]]:
    """What the card's own run is, in the words of a record's scope."""
    from capienza.api.models import model_of
    from capienza.predict.model import resident_format
    from capienza.predict.sizing import cache_format

    stated = Answering(
        model=model_name(card),
        revision=card.model.revision,
        weight_format=card.weights.format,
        engine=card.engine.name if card.engine else None,
        engine_version=card.engine.version if card.engine else None,
        configuration=configuration_of(card),
    )
    try:
        model = model_of(card)
    except CapienzaError as error:
        return stated, (MODEL_CLOSED(reason=str(error.message)),)
    return msgspec.structs.replace(
        stated,
        revision=model.revision or stated.revision,
        weight_format=stated.weight_format or resident_format(model),
        kv_format=cache_format(card, model) if card.task == "inference" else None,
    ), ()


def _corpus_of(plan: QualityPlan, path: Path, corpus: str | Path | None) -> Corpus:
    named = path.parent / plan.corpus.name
    if corpus is None and not named.exists():
        raise UnreachableError(NO_CORPUS(), Place(str(named)))
    return read_corpus(str(named if corpus is None else corpus))


def _known(folder: Path) -> tuple[Record, ...]:
    return read_folder(folder) if folder.exists() else ()


def _is_of(record: Record, plan: QualityPlan) -> bool:
    return any(subject.name == PLAN_FILE and subject.sha256 == plan.id for subject in record.subject)


def _plan_doubts(
    plan: QualityPlan, recorded: Record | None, known: Sequence[Record], files: Sequence[str | Path]
) -> list[Message]:
    if recorded is None:
        return [NOT_RECORDED(plan=plan.id[:12])]
    digests = {f"sha256:{digest(str(file))}" for file in files}
    return [
        USED(plan=plan.id[:12], record=record.id[:12])
        for record in known
        if record.kind == "quality_result"
        and recorded.id in record.inputs
        and not {each for each in record.inputs if each.startswith("sha256:")} <= digests
    ]


def _shown(target: Sequence[str]) -> str:
    """The target as it is kept: an address without what may be secret in it, a command by its name."""
    from urllib.parse import urlsplit

    if target[0].startswith(("http://", "https://")):
        parts = urlsplit(target[0])
        return f"{parts.scheme}://{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}{parts.path}"
    return Path(target[0]).name
