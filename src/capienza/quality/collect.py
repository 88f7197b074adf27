"""Collects the answers of one arm into a file, and goes on where a killed run stopped.

An answer is on disk before the next question counts as asked: no item is lost and none is asked twice. A server's
failure is no answer: the item stays open, and the next call of the same command asks it again.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, TypeAlias

import msgspec

from capienza.errors import InputError, Message, Place, UnreachableError, VerificationError, template
from capienza.quality.answers import Answer, Answers, Header, mend_end, read_answers
from capienza.quality.corpus import Corpus, Item
from capienza.quality.plan import QualityPlan
from capienza.quality.served import described, is_another
from capienza.yamlmarks.source import UNREADABLE_FILE

SYNC_SECONDS = 1.0
Asking: TypeAlias = "Callable[[Iterable[Item]], Iterator[Asked]]"
"""Asks items and yields what came of each, in any order; closing it stops what is under way."""

OTHER_RUN = template(
    "quality.outputs-of-another-run",
    "the file holds outputs of {arm} under plan {plan}",
    "name another file with --out; outputs of two arms or plans never share one",
)
OTHER_SERVED = template(
    "quality.outputs-of-another-model",
    "the answers so far came from {before}; what answers now is {found}",
    "an arm is answered by one model alone: serve that one, or name another file with --out",
)
BUSY = template("quality.outputs-in-use", "another run is writing this file", "wait for it, or stop it")
CUT_OFF = template("quality.line-cut-off", "the last {count} bytes were a line without its end, and were cut off")
GOES_ON = template("quality.goes-on", "{count} items were answered already and are not asked again")
CORPUS_CHANGED = template(
    "quality.corpus-changed",
    "the corpus has the digest {found}; the plan froze {frozen}",
    "take the frozen file again, or freeze a new plan for this one",
)


class Asked(msgspec.Struct, frozen=True):
    """What came of asking one item: an answer, or why there is none yet."""

    item: str
    answer: Answer | None = None
    failure: Message | None = None


class Collected(msgspec.Struct, frozen=True, kw_only=True):
    """The answers that are in the file now, the items that are still open, and what was noticed."""

    answers: Answers
    open_items: tuple[str, ...]
    failures: tuple[Asked, ...]
    findings: tuple[Message, ...]


def check_corpus(plan: QualityPlan, corpus: Corpus) -> None:
    """Raises `VerificationError` where the corpus is not the one that the plan froze."""
    if corpus.sha256 != plan.corpus.sha256:
        found, stated = corpus.sha256[:12], plan.corpus.sha256[:12]
        raise VerificationError(CORPUS_CHANGED(found=found, frozen=stated), Place(corpus.file))


def collect(
    corpus: Corpus, header: Header, path: Path, ask: Asking, told: Callable[[int, int], None] | None = None
) -> Collected:
    """Ask every item that the file has no answer to, and write each answer as it comes.

    Args:
        corpus: The frozen corpus.
        header: What the file must be of; its date is used when the file is new.
        path: The file.
        ask: Asks the items.
        told: Is told how many items are answered, of how many.

    Raises:
        InputError: The file holds outputs of another arm or plan, or another run is writing it.
        UnreachableError: The file cannot be written.
    """
    with _opened(path) as file:
        cut = mend_end(path)
        before = _begun(file, path, header)
        findings = [CUT_OFF(count=cut)] if cut else []
        findings += [GOES_ON(count=len(before.by_item))] if before.by_item else []
        found = dict(before.by_item)
        left = [item for item in corpus.items if item.id not in found]
        failures = _written(file, path, ask(left), found, len(corpus.items), told)
    answers = msgspec.structs.replace(before, by_item=found)
    still = tuple(item.id for item in corpus.items if item.id not in found)
    return Collected(answers=answers, open_items=still, failures=failures, findings=tuple(findings))


def _opened(path: Path) -> BinaryIO:
    """The file for adding, held by this run alone."""
    try:
        file = path.open("ab")
    except OSError as error:
        raise UnreachableError(UNREADABLE_FILE(reason=error.strerror or str(error)), Place(str(path))) from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise InputError(BUSY(), Place(str(path))) from error
    return file


def _begun(file: BinaryIO, path: Path, header: Header) -> Answers:
    """What the file holds already, after its header was written or compared."""
    if file.seek(0, os.SEEK_END) == 0:
        _write(file, path, header)
        _sync(file, path)
        return Answers(file=str(path), header=header, by_item={})
    before = read_answers(str(path))
    if (before.header.plan, before.header.arm) != (header.plan, header.arm):
        raise InputError(OTHER_RUN(arm=before.header.arm, plan=before.header.plan[:12]), Place(str(path)))
    one, other = before.header.served, header.served
    if one is not None and other is not None and is_another(one, other):
        raise InputError(OTHER_SERVED(before=described(one), found=described(other)), Place(str(path)))
    return before


def _written(
    file: BinaryIO,
    path: Path,
    asked: Iterator[Asked],
    found: dict[str, Answer],
    count: int,
    told: Callable[[int, int], None] | None,
) -> tuple[Asked, ...]:
    failures, synced = [], time.monotonic()
    try:
        for each in asked:
            if each.answer is None:
                failures.append(each)
                continue
            if each.item in found:
                continue
            answer = msgspec.structs.replace(each.answer, at=int(time.time()))
            _write(file, path, answer)
            found[each.item] = answer
            if told:
                told(len(found), count)
            if time.monotonic() - synced > SYNC_SECONDS:
                _sync(file, path)
                synced = time.monotonic()
    finally:
        _sync(file, path)
    return tuple(failures)


def _write(file: BinaryIO, path: Path, value: Header | Answer) -> None:
    try:
        file.write(msgspec.json.encode(value) + b"\n")
        file.flush()
    except OSError as error:
        raise _unwritable(error, path) from error


def _sync(file: BinaryIO, path: Path) -> None:
    try:
        os.fsync(file.fileno())
    except OSError as error:
        raise _unwritable(error, path) from error


def _unwritable(error: OSError, path: Path) -> UnreachableError:
    from capienza.files import CANNOT_WRITE

    return UnreachableError(CANNOT_WRITE(reason=error.strerror or str(error)), Place(str(path)))
