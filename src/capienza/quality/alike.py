"""Were the arms asked the same? Logs of another tool have digests of what was asked, and what the tool was set to."""

from __future__ import annotations

from collections.abc import Mapping

from capienza.errors import InputError, InputErrors, Place, shortened, template
from capienza.quality.answers import Answers
from capienza.quality.plan import Arm

ANOTHER_CORPUS = template(
    "quality.arms-of-another-corpus",
    "{count} items of {arm} have another document, prompt or target than in the reference, {id} first: the arms were "
    "not asked the same",
    "run both with the same task version, data set, few-shot examples and chat template",
)
OTHER_SETTING = template(
    "quality.arms-set-otherwise",
    "{setting} is {found} in {arm} and {expected} in the reference: the arms were not asked the same",
    "run both with the same version of the task and the same settings",
)


def check_alike(arms: Mapping[Arm, Answers]) -> None:
    """Raises `InputErrors` for arms whose questions or settings are others than the reference's, where known."""
    reference = arms["reference"]
    problems: list[InputError] = []
    for arm, answers in arms.items():
        place = Place(answers.file)
        problems += [
            InputError(OTHER_SETTING(setting=name, arm=arm, found=value, expected=reference.settings[name]), place)
            for name, value in answers.settings.items()
            if reference.settings.get(name, value) != value
        ]
        differing = [item for item, mark in answers.marks.items() if reference.marks.get(item, mark) != mark]
        if differing:
            first = shortened(differing[0], 60)
            problems.append(InputError(ANOTHER_CORPUS(count=len(differing), arm=arm, id=first), place))
    if problems:
        raise InputErrors(problems)
