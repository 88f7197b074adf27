"""What a reader finds in an offers file: problems refuse the file, findings are reported and change no offer."""

from __future__ import annotations

from collections import Counter

import msgspec

from capienza.errors import InputError, InputErrors, Message, Place, template

MORE_PROBLEMS = template(
    "catalog.more-problems",
    "more problems of this file that are not shown: {count}",
    "Correct these first, then check again.",
)

KEPT = 20
"""Problems, and findings of one kind, that are kept word for word; the rest are counted."""
Path = tuple[str | int, ...]


class Finding(msgspec.Struct, frozen=True):
    """Something to know about one offer, with its place in the file."""

    message: Message
    place: Place
    offer: str | None = None


class Findings:
    """The findings of one or more files: the first of each code in full, all of them counted in `counts`."""

    def __init__(self) -> None:
        self.kept: list[Finding] = []
        self.counts: Counter[str] = Counter()

    def has_room(self, code: str) -> bool:
        """True while another finding of this code would be kept in full."""
        return self.counts[code] < KEPT

    def add(self, finding: Finding) -> None:
        """Count a finding, and keep it while there is room."""
        if self.has_room(finding.message.code):
            self.kept.append(finding)
        self.counts[finding.message.code] += 1


class Notes:
    """Problems and findings of one offer by the path of the value they are about."""

    def __init__(self) -> None:
        self.problems: list[tuple[Path, Message]] = []
        self.findings: list[tuple[Path, Message]] = []

    def problem(self, message: Message, *path: str | int) -> None:
        """The value at `path` cannot be used."""
        self.problems.append((path, message))

    def finding(self, message: Message, *path: str | int) -> None:
        """The value at `path` is used, and this must be known about it."""
        self.findings.append((path, message))


class Problems:
    """The problems of one file: the first are kept, the rest counted."""

    def __init__(self) -> None:
        self.kept: list[InputError] = []
        self.count = 0

    def has_room(self) -> bool:
        """True while another problem would be kept in full."""
        return self.count < KEPT

    def add(self, message: Message, place: Place) -> None:
        """Note one problem."""
        if self.has_room():
            self.kept.append(InputError(message, place))
        self.count += 1

    def raise_any(self) -> None:
        """Raise `InputErrors` when there was a problem."""
        if not self.kept:
            return
        hidden = self.count - len(self.kept)
        more = [InputError(MORE_PROBLEMS(count=hidden), Place(self.kept[0].place.file))] if hidden else []
        raise InputErrors([*self.kept, *more])
