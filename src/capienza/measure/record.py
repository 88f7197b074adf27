"""A run as a record: what was measured, in the scope that was really executed, with the digests of its files.

Legend: GPUs are numbered as the command used them, from 0; the basis of a peak names the driver's number and the call.
Readings of the host are no figures of a GPU, and are stated under a quantity of their own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from capienza import __version__
from capienza.card.model import Card
from capienza.errors import Message, template
from capienza.evidence.claims import COMPLETED, DROPPED, OUT_OF_MEMORY, OUTCOME, PEAK, POOL, TRUNCATED
from capienza.evidence.record import Claim, Record, Scope, Subject
from capienza.evidence.store import seal
from capienza.evidence.vocabulary import BYTES, COUNTERS
from capienza.measure.environment import RunGpu
from capienza.measure.peaks import WHOLE_RUN, PhasePeak
from capienza.measure.run import Run
from capienza.measure.stage import Coverage, Stage, coverage, tried

HOST_PEAK = "host_peak_bytes"
NO_PHASE = "unknown"
FILES = ("run.json", "environment.json", "readings.jsonl", "usage.jsonl", "output.log")
OF_RANKS = ("readings.*.jsonl", "usage.*.jsonl")
"""What each process has written of itself."""
ENGINE_PACKAGES = {
    "vllm": "vllm",
    "sglang": "sglang",
    "transformers": "transformers",
    "tgi": "text-generation-server",
    "tensorrt-llm": "tensorrt-llm",
}

UNLIKE_GPUS = template(
    "measure.gpus-unlike",
    "the GPUs that the command used have no single name in the catalogue: {names}; the record counts for none",
    "measure on GPUs of one kind that the catalogue knows",
)
NO_GPU_USED = template(
    "measure.no-gpu-used",
    "the command used no GPU that was read: the record holds what it took in the host, and counts for no offer",
)
VERSION_DIFFERS = template(
    "measure.engine-version-differs",
    "{engine} {found} ran, the card asks for {wanted}: the record speaks of {found}",
    "install the version of the card, or change the card",
)
VERSION_NOT_TOLD = template(
    "measure.engine-version-not-told",
    "nothing tells which version of {engine} ran, so the record covers none",
    "run it with the Python that it is installed in, or let it print its version",
)
SAMPLED = "sampled ten times a second: a shorter peak is not seen"


class Sealed(msgspec.Struct, frozen=True):
    """The record, what of the stage it covers, and what the reader must know."""

    record: Record
    coverage: Coverage
    findings: tuple[Message, ...]


def sealed_record(run: Run, card: Card, stage: Stage, need: Scope, plan: str | None) -> Sealed:
    """The record of a run. `need` is the scope that the card asks for; what was executed takes the place of it."""
    findings: list[Message] = []
    covered = coverage(stage, run.executed)
    about = tried(stage, run.executed) if run.outcome == OUT_OF_MEMORY else covered
    gpus = used_gpus(run)
    scope = msgspec.structs.replace(
        need,
        gpu=_gpu_key(gpus, findings),
        gpus=len(gpus) or None,
        driver=run.environment.driver_version if gpus else None,
        engine_version=_engine_version(run, card, findings),
        tokens=about.tokens,
        concurrency=about.concurrency if need.concurrency is not None else None,
        microbatch=about.microbatch if need.microbatch is not None else None,
        offer=None,
        provider=None,
    )
    subjects = [
        Subject(name=f"gpu:{number}", sha256=gpu.uuid_sha256) for number, gpu in enumerate(gpus) if gpu.uuid_sha256
    ]
    card_subject = [Subject(name=card.name, sha256=card.sha256)] if card.sha256 else []
    record = Record(
        kind="measurement",
        version="1",
        date=run.ended.replace(microsecond=0),
        subject=(*card_subject, *subjects),
        scope=scope,
        claims=tuple(_claims(run, gpus)),
        method="measure",
        mode="automatic",
        producer={"tool": "capienza", "version": __version__, "class": "measurement"},
        inputs=(*([plan] if plan else []), *(f"sha256:{digest}" for digest in digests(run.folder).values())),
        notes=(f"run {run.folder.name}, stage {stage.name}", SAMPLED),
    )
    if run.outcome != COMPLETED:
        covered = msgspec.structs.replace(covered, is_covered=False, findings=())
    return Sealed(seal(record), covered, (*covered.findings, *findings))


def used_gpus(run: Run) -> list[RunGpu]:
    """The GPUs that the command used, in the driver's order."""
    return [gpu for gpu in run.environment.gpus if gpu.scope in run.used_scopes]


def digests(folder: Path) -> dict[str, str]:
    """The sha256 of each file of a run that can be read."""
    found = {}
    for name in (*FILES, *sorted(path.name for pattern in OF_RANKS for path in folder.glob(pattern))):
        try:
            with (folder / name).open("rb") as file:
                found[name] = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError:
            continue
    return found


def _largest_of_phases(run: Run, whole: PhasePeak) -> int:
    """The largest peak that a phase has of the same counter on the same GPU."""
    same = (peak for peak in run.peaks.peaks if (peak.counter, peak.scope) == (whole.counter, whole.scope))
    return max((peak.value for peak in same if peak.phase != WHOLE_RUN), default=0)


def _claims(run: Run, gpus: list[RunGpu]) -> Iterator[Claim]:
    yield Claim(quantity=OUTCOME, value=run.outcome, phase=run.failed_phase)
    numbers = {gpu.scope: number for number, gpu in enumerate(gpus)}
    for peak in run.peaks.peaks:
        basis = f"{peak.scope}: {peak.source}"
        if peak.counter in COUNTERS and peak.scope in numbers:
            # What was read while no phase lasted is of a phase that nothing tells, and none the less the run's.
            if peak.value > (_largest_of_phases(run, peak) if peak.phase == WHOLE_RUN else 0):
                yield Claim(
                    quantity=PEAK, value=peak.value, unit=BYTES, counter=peak.counter, basis=basis,
                    phase=NO_PHASE if peak.phase == WHOLE_RUN else peak.phase, gpu_index=numbers[peak.scope],
                )  # fmt: skip
        elif peak.counter not in (*COUNTERS, "others"):
            yield Claim(
                quantity=HOST_PEAK, value=peak.value, unit=peak.unit, counter=peak.counter, basis=basis,
                phase=None if peak.phase == WHOLE_RUN else peak.phase,
            )  # fmt: skip
    for number, gpu in enumerate(gpus):
        if gpu.reported_bytes:
            ecc = f"ecc {gpu.ecc}" if gpu.ecc else None
            yield Claim(
                quantity="gpu_reported_bytes", value=gpu.reported_bytes, unit=BYTES, gpu_index=number, basis=ecc
            )
        if gpu.cuda_total_bytes:
            yield Claim(quantity="cuda_total_bytes", value=gpu.cuda_total_bytes, unit=BYTES, gpu_index=number)
    executed = run.executed
    for quantity, count in (
        (TRUNCATED, executed.truncated),
        (DROPPED, executed.dropped),
        (POOL, executed.pool_tokens),
        ("samples", executed.samples),
        ("prompt_tokens", executed.prompt),
        ("output_tokens", executed.output),
    ):
        if count is not None:
            yield Claim(quantity=quantity, value=count)
    seconds = (run.ended - run.started).total_seconds()
    yield Claim(quantity="wall_time", value=f"{seconds:.3f}", unit="s")


def _gpu_key(gpus: list[RunGpu], findings: list[Message]) -> str | None:
    if not gpus:
        findings.append(NO_GPU_USED())
        return None
    keys: set[str | None] = {gpu.keys[0] if len(gpu.keys) == 1 else None for gpu in gpus}
    profiles = {gpu.profile for gpu in gpus}
    key = keys.pop() if len(keys) == 1 else None
    if key is None or len(profiles) != 1:
        findings.append(UNLIKE_GPUS(names=[gpu.name for gpu in gpus]))
        return None
    share = profiles.pop()
    return f"{key}/{share}" if share else key


def _engine_version(run: Run, card: Card, findings: list[Message]) -> str | None:
    """The version that ran, as the engine printed it or as it is installed; the card's word is no observation."""
    if card.engine is None:
        return None
    package = ENGINE_PACKAGES.get(card.engine.name.lower(), "")
    found = run.engine_version or (run.environment.packages or {}).get(package)
    wanted = card.engine.version
    if found is None:
        findings.append(VERSION_NOT_TOLD(engine=card.engine.name))
    elif wanted is not None and found.removeprefix("v") != wanted.removeprefix("v"):
        findings.append(VERSION_DIFFERS(engine=card.engine.name, found=found, wanted=wanted))
    else:
        return wanted or found
    return found
