"""One input through the library and through the command line, with its processor time and memory watched.

Legend: growth the peak of resident memory during one input, above what the process held before the first one.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import resource
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from fuzzing.seeds import CARD_FILE

MAX_CPU_S = 1.0
OFFERS_CPU_S_PER_BYTE = 1e-6
"""A long list of offers that are in order may take longer: a second for each MB of it."""
MAX_FACE_CPU_S = 2.0
"""Reading once more, and showing."""
MAX_GROWTH_BYTES = 64 * 1024**2
MAX_MESSAGE = 4000
ADDRESS_SPACE_BYTES = 6 * 1024**3
FORMS: tuple[list[str], ...] = ([], ["--json"], ["--format", "md"], ["--lang", "it"])
ACCEPTED_CODES = (0, 3, 4, 5, 10, 11)
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class Outcome(NamedTuple):
    """What became of one input. `verdict` is accepted, refused, or the name of a failure."""

    verdict: str
    what: str = ""
    detail: str = ""
    cpu_s: float = 0.0
    growth_bytes: int = 0

    @property
    def failed(self) -> bool:
        return self.verdict not in ("accepted", "refused")

    @property
    def signature(self) -> str:
        return f"{self.verdict} {self.what}"


class TooSlow(BaseException):
    """The input used up its processor time. Not an `Exception`: nothing that reads input may swallow it."""


def model_of(kind: str, target: str) -> str:
    """What names the model: the file, or the folder around it."""
    return target if kind == "gguf" else "./"


def command_lines(kind: str, target: str) -> list[list[str]]:
    """Every command that reads such an input, in every form of its result."""
    if kind == "card":
        calls = [["card", "check", target], ["size", target], ["decide", target]]
    elif kind == "offers":
        calls = [["offers", "check", target], ["decide", CARD_FILE, "--offers", target]]
    else:
        calls = [["size", model_of(kind, target), "--tokens", "4096", *gpu] for gpu in ([], ["--gpu", "H100 SXM"])]
    return [[*call, *form] for form in FORMS for call in calls]


def read(kind: str, target: str) -> None:
    """The library's own way in, for an input in the current folder."""
    if kind == "card":
        from capienza.card.load import load_card

        load_card(target)
    elif kind == "offers":
        from capienza.catalog.read import read_offers

        for _ in read_offers(Path(target)):
            pass
    else:
        from capienza.api.sizing import size

        size(model_of(kind, target), tokens=4096)


class Watch:
    """Time and memory of the inputs of one process."""

    def __init__(self) -> None:
        self.idle_bytes = 0
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))
        signal.signal(signal.SIGPROF, _stop)

    def settle(self) -> None:
        """Call when everything is imported and warm: memory is counted from here."""
        self.idle_bytes = _status("VmRSS")

    @contextlib.contextmanager
    def limit(self, cpu_s: float) -> Iterator[None]:
        with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as file:  # noqa: PTH123
            file.write("5")
        signal.setitimer(signal.ITIMER_PROF, cpu_s)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)

    @property
    def growth_bytes(self) -> int:
        return max(0, _status("VmHWM") - self.idle_bytes)

    @property
    def drift_bytes(self) -> int:
        """What earlier inputs left behind."""
        return max(0, _status("VmRSS") - self.idle_bytes)


def _stop(_signal: int, _frame: FrameType | None) -> None:
    raise TooSlow


def _status(name: str) -> int:
    with contextlib.suppress(OSError), open("/proc/self/status", encoding="ascii") as file:  # noqa: PTH123
        for line in file:
            if line.startswith(name):
                return int(line.split()[1]) * 1024
    return 0


def try_input(kind: str, target: str, argv: list[str] | None, watch: Watch) -> Outcome:
    """The library's answer to the input in the current folder; with `argv` also that of the command line."""
    more_s = Path(target).stat().st_size * OFFERS_CPU_S_PER_BYTE if kind == "offers" else 0.0
    outcome = _guarded(watch, MAX_CPU_S + more_s, lambda: _library(kind, target))
    if argv is None or outcome.failed:
        return outcome
    shown = _guarded(watch, MAX_FACE_CPU_S + more_s, lambda: _face(argv))
    if shown.failed:
        return shown._replace(what=f"cli {shown.what}", detail=f"{argv}\n{shown.detail}")
    return outcome


def _guarded(watch: Watch, cpu_s: float, act: Callable[[], Outcome]) -> Outcome:
    started = _cpu_s()
    try:
        with watch.limit(cpu_s):
            outcome = act()
    except TooSlow as stop:
        outcome = Outcome("slow", _where(stop), traceback.format_exc(limit=-12))
    except MemoryError as error:
        outcome = Outcome("memory", _where(error), traceback.format_exc(limit=-12))
    except BaseException as error:
        outcome = Outcome("traceback", _where(error), traceback.format_exc(limit=-12))
    outcome = outcome._replace(cpu_s=_cpu_s() - started, growth_bytes=watch.growth_bytes)
    if not outcome.failed and outcome.cpu_s > cpu_s:
        return outcome._replace(verdict="slow", what=f"in C: {outcome.signature}")
    if not outcome.failed and outcome.growth_bytes > MAX_GROWTH_BYTES:
        return outcome._replace(verdict="memory", what=outcome.signature)
    return outcome


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _where(error: BaseException) -> str:
    """Kind of exception and the innermost place of our own in its trace."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "capienza" in frame.filename]
    spot = f"{Path(own[-1].filename).parent.name}/{Path(own[-1].filename).name}:{own[-1].name}" if own else "?"
    return f"{type(error).__name__} in {spot}"


def _library(kind: str, target: str) -> Outcome:
    from capienza.errors import CapienzaError

    try:
        read(kind, target)
    except CapienzaError as error:
        return _refusal(error)
    return Outcome("accepted")


def _refusal(error: BaseException) -> Outcome:
    """The error must also be fit to be shown."""
    from capienza.errors import CapienzaError

    assert isinstance(error, CapienzaError)
    rows = error.as_dict()
    for row in rows:
        longest = max(len(str(row[part])) for part in ("message", "where", "hint"))
        if longest > MAX_MESSAGE:
            return Outcome("message", f"too long from {row['code']}", f"{longest} characters: {str(row)[:500]}")
    json.dumps(rows, default=str)
    return Outcome("refused", f"{type(error).__name__} {error.message.code}")


def _face(argv: list[str]) -> Outcome:
    from capienza.cli.main import main

    stdout, stderr = io.StringIO(), io.StringIO()
    sys.argv = ["capienza", *argv]
    code: object = None
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        try:
            main()
        except SystemExit as stop:
            code = stop.code
    return judge_output(code, argv, stdout.getvalue(), stderr.getvalue())


def judge_output(code: object, argv: list[str], stdout: str, stderr: str) -> Outcome:
    """Is it an exit code of the table, with a text that may be shown on a terminal, or a JSON document?"""
    told = f"exit {code}\n{stderr[-1500:]}\n{stdout[-500:]}"
    if code not in ACCEPTED_CODES or "Traceback" in stderr or "internal error" in stderr:
        return Outcome("exit", f"code {code}", told)
    if "--json" in argv:
        try:
            json.loads(stdout)
        except ValueError as error:
            return Outcome("output", "not JSON", f"{error}\n{told}")
    elif raw := CONTROL.search(stdout + stderr):
        return Outcome("output", f"raw control character U+{ord(raw[0]):04X}", told)
    return Outcome("accepted" if code == 0 else "refused", f"exit {code}")
