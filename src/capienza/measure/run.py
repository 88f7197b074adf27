"""One measured run from the first reading before the command to the last one after it.

The command is started as soon as the counters run; all that takes time (versions, commit, driver) is asked while it
works. What is measured survives the command's crash, a signal, a full disk and a driver that stops answering; whatever
went wrong with the measuring is a finding, and the command's own exit code is what comes out.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from capienza.canon import pretty
from capienza.diagnose.diagnosis import Diagnosis
from capienza.errors import CapienzaError, InputError, Message, Place, UnreachableError, template
from capienza.evidence.claims import COMPLETED, OUT_OF_MEMORY
from capienza.evidence.store import write_file
from capienza.evidence.vocabulary import FAILED
from capienza.measure.child import Child, Log
from capienza.measure.environment import Environment, child_variables, environment_of
from capienza.measure.nvml import Nvml, open_nvml
from capienza.measure.observed import Observed
from capienza.measure.peaks import SAMPLED, Peaks, peaks_of
from capienza.measure.readings import Source, Writer
from capienza.measure.sampler import Other, Sampler
from capienza.measure.tree import Tree
from capienza.measure.usage import Executed
from capienza.measure.watcher import Watcher

OUTPUT, READINGS, ENVIRONMENT = "output.log", SAMPLED, "environment.json"
ENVIRONMENT_SECONDS = 60.0
SWITCH_SECONDS = 0.0005
"""How long a thread may compute before another one gets its turn: output must not wait for the reading of lines."""
ABROAD = ("other_process", "configuration", "compatibility", "disk", "host_ram", "not_memory", "communication")
"""Causes for which running out of a GPU's memory says nothing of the load."""
STEP, UNKNOWN = "optimizer_step", "unknown"

NO_FOLDER = template(
    "measure.no-folder",
    "the folder of the run cannot be made: {problem}",
    "give another one with --runs",
)
NO_COMMAND = template("measure.no-command", "there is no command {found}", "check its name and PATH")
NOT_STARTED = template("measure.not-started", "{found} cannot be started: {problem}", "check that it may be run")
LEFT_FILE = template("measure.file-not-written", "{file} could not be written: {problem}", "make room on that disk")
FOLDER_GONE = template(
    "measure.folder-gone",
    "the folder of the run was taken away while the command ran: what was read is lost",
    "keep the command from removing the folder that CAPIENZA_RUN names, and repeat the run",
)
INTERRUPTED = template("measure.interrupted", "Ctrl-C was pressed: the run did not end by itself")
OTHERS_HELD = template(
    "measure.others-held",
    "{scope}: other processes held more than the card says while memory ran out ({names}): that says nothing of the "
    "load",
    "repeat the run on a GPU of its own, or state host.others_use in the card",
)
RECOVERED = template(
    "measure.failure-printed",
    "the exit code is 0, and the output tells of a failure: {line}",
    "look whether the command went on with less than it was asked for",
)
GAP = template(
    "measure.gap",
    "for up to {seconds} s no counter was read",
    "the machine or its driver was busy: a peak may be missing",
)
MAX_GAP_SECONDS = 1.0


class CommandNotFoundError(InputError):
    """There is no such command."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """What happened. Times are UTC; `peaks` hold only what is on disk.

    `failed_phase_from` says who tells the phase: the output ("log"), or a process that began it and did not end it.
    """

    folder: Path
    started: datetime.datetime
    ended: datetime.datetime
    exit_code: int
    outcome: str
    failed_phase: str | None
    failed_phase_from: Source | None
    diagnosis: Diagnosis
    environment: Environment
    executed: Executed
    engine_version: str | None
    observed: Observed
    peaks: Peaks
    others: tuple[Other, ...]
    baseline_bytes: dict[str, int]
    used_scopes: tuple[str, ...]
    findings: tuple[Message, ...]


def make_folder(runs: Path, name: str, stage: str, now: datetime.datetime) -> Path:
    """A new folder for a run. Raises `UnreachableError`."""
    plain = "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in name)[:60] or "card"
    base = f"{now:%Y%m%dT%H%M%SZ}-{plain}-{stage}"
    for number in range(1, 1000):
        folder = runs / (base if number == 1 else f"{base}-{number}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise UnreachableError(NO_FOLDER(problem=error.strerror or str(error)), Place(str(folder))) from error
        return folder.absolute()
    raise UnreachableError(NO_FOLDER(problem=base), Place(str(runs)))


def run_command(
    command: Sequence[str],
    folder: Path,
    *,
    wanted_at_once: int | None,
    is_training: bool,
    others_use_bytes: int = 0,
    ended: Callable[[int], None] | None = None,
) -> Run:
    """Run the command and measure it. `others_use_bytes` is what the card says others use of each GPU.

    Raises `CommandNotFoundError` when there is none, `UnreachableError` when nothing can be written, `MissingPartError`
    when GPUs are there that cannot be asked. Once the command has started, nothing is raised.
    """
    nvml = open_nvml()
    notes = [nvml] if isinstance(nvml, Message) else list(nvml.notes)
    opened = None if isinstance(nvml, Message) else nvml
    try:
        writer = Writer(folder / READINGS)
        log_file = os.open(folder / OUTPUT, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        sampler = Sampler(writer, opened)
        sampler.before()
        writer.flush()
    except OSError as error:
        raise UnreachableError(NO_FOLDER(problem=error.strerror or str(error)), Place(str(folder))) from error
    log = Log(log_file)
    watcher = Watcher(writer, OUTPUT, is_training=is_training)
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        child = _started(command, folder, log, watcher)
    except CapienzaError:
        writer.close()
        log.close()
        raise
    looked: list[Environment] = []
    looking = threading.Thread(target=_look_around, args=(command, opened, folder, looked, notes), daemon=True)
    sampler.start(Tree(child.pid, str(folder)), log.sync)
    watcher.start()
    looking.start()
    exit_code = child.wait()
    end = datetime.datetime.now(datetime.UTC)
    if ended is not None:
        ended(exit_code)
    sampler.stop()
    diagnosis = watcher.finish()
    looking.join(ENVIRONMENT_SECONDS)
    try:
        writer.close()
    except OSError as error:
        notes.append(left_file(READINGS, error, folder))
    log.close()
    watcher.usage.folder(folder)
    environment = looked[0] if looked else environment_of(command, {}, None)
    peaks = _peaks(folder, {gpu.uuid_sha256[:16]: gpu.scope for gpu in environment.gpus if gpu.uuid_sha256}, notes)
    outcome, findings = _outcome(exit_code, child.interrupts, diagnosis, sampler, others_use_bytes)
    if sampler.longest_gap_seconds > MAX_GAP_SECONDS:
        findings.append(GAP(seconds=f"{sampler.longest_gap_seconds:.1f}"))
    phase, phase_from = (None, None) if outcome == COMPLETED else _phase(diagnosis, peaks.left_open)
    log_notes = [log.problem] if log.problem else []
    found = (*notes, *findings, *sampler.notes.values(), *watcher.notes, *child.notes, *log_notes, *peaks.notes)
    return Run(
        folder=folder,
        started=writer.started,
        ended=end,
        exit_code=exit_code,
        outcome=outcome,
        failed_phase=phase,
        failed_phase_from=phase_from,
        diagnosis=diagnosis,
        environment=environment,
        executed=watcher.usage.executed(wanted_at_once),
        engine_version=watcher.observed.version,
        observed=watcher.observed,
        peaks=peaks,
        others=tuple(sampler.others.values()),
        baseline_bytes=sampler.baseline_bytes,
        used_scopes=used_scopes(sampler, peaks),
        findings=tuple(dict.fromkeys(found)),
    )


def used_scopes(sampler: Sampler, peaks: Peaks) -> tuple[str, ...]:
    """The units that the command used: where it was seen; where lists tell nothing, those whose use has grown."""
    grown = {
        peak.scope
        for peak in peaks.peaks
        if peak.counter == "device" and peak.value > sampler.baseline_bytes.get(peak.scope, peak.value)
    }
    used = sampler.own_scopes | (grown & sampler.untold_scopes)
    return tuple(scope for scope in sampler.scopes if scope in used)


def _started(command: Sequence[str], folder: Path, log: Log, watcher: Watcher) -> Child:
    try:
        return Child(command, child_variables(folder), log, watcher.take)
    except FileNotFoundError as error:
        raise CommandNotFoundError(NO_COMMAND(found=command[0])) from error
    except (OSError, ValueError) as error:
        problem = getattr(error, "strerror", None) or str(error)
        raise UnreachableError(NOT_STARTED(found=command[0], problem=problem)) from error


def _look_around(
    command: Sequence[str], nvml: Nvml | None, folder: Path, looked: list[Environment], notes: list[Message]
) -> None:
    looked.append(environment_of(command, os.environ, nvml))
    try:
        write_file(folder / ENVIRONMENT, (pretty(looked[0]) + "\n").encode())
    except OSError as error:
        notes.append(left_file(ENVIRONMENT, error, folder))


def _peaks(folder: Path, scopes: dict[str, str], notes: list[Message]) -> Peaks:
    try:
        return peaks_of(folder, scopes)
    except OSError as error:
        notes.append(left_file(READINGS, error, folder))
        return Peaks((), {}, ())


def _outcome(
    exit_code: int, interrupts: int, diagnosis: Diagnosis, sampler: Sampler, others_use_bytes: int
) -> tuple[str, list[Message]]:
    """How it ended. A failure that a script hid behind its exit code is none the less one."""
    if exit_code == 0:
        said = [RECOVERED(line=diagnosis.evidence[:200])] if diagnosis.is_failure else []
        return FAILED if diagnosis.is_failure and diagnosis.is_fatal else COMPLETED, said
    if interrupts:
        return FAILED, [INTERRUPTED()]
    is_of_memory = diagnosis.is_failure and diagnosis.is_fatal and diagnosis.memory == "device"
    if not is_of_memory or diagnosis.cause in ABROAD:
        return FAILED, []
    held: dict[str, list[Other]] = {}
    for other in sampler.others.values():
        held.setdefault(other.scope, []).append(other)
    disturbed = [
        OTHERS_HELD(scope=scope, names=[f"{other.name or '?'} {other.pid}" for other in others])
        for scope, others in held.items()
        if sum(other.peak_bytes or 0 for other in others) > others_use_bytes
    ]
    return (FAILED if disturbed else OUT_OF_MEMORY), disturbed


def _phase(diagnosis: Diagnosis, left_open: str | None) -> tuple[str | None, Source | None]:
    """Where it ended: what the output tells, else the phase that a process was in."""
    if diagnosis.is_failure and diagnosis.phase != UNKNOWN:
        return f"{STEP}_first" if diagnosis.phase == STEP else diagnosis.phase, "log"
    if left_open is not None:
        return left_open, "process"
    return (UNKNOWN, None) if diagnosis.is_failure else (None, None)


def left_file(file: str, error: OSError, folder: Path) -> Message:
    """Why a file of the run is not there: its folder is gone, or the disk refuses."""
    if not folder.is_dir():
        return FOLDER_GONE()
    return LEFT_FILE(file=file, problem=error.strerror or str(error))


def remove_empty(folder: Path) -> None:
    """Take a folder away in which nothing was run."""
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()
