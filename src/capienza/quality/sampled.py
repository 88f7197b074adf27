"""The run that a sample log of lm-evaluation-harness is of: its task, when it began, and what it was set to.

The file of results has the same date in its name and lies beside the log: results_DATE.json, or NAME_DATE.json. Read of
it are `date` (the begin, in seconds since 1970), `versions`, `configs` and `n-shot` of the task, `chat_template_sha`,
`system_instruction_sha`, `fewshot_as_multiturn`, `git_hash`, `lm_eval_version` and `model_name`.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import math
import re
from pathlib import Path
from typing import Any

import msgspec

from capienza.errors import InputError, Message, Place, shortened, template
from capienza.yamlmarks.source import read_bytes

_NAME = re.compile(r"samples_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(?:\.\d{1,9})?)\.jsonl")
_MOST_BYTES = 64 * 2**20
_MODEL_SETTINGS = ("metadata",)
"""Keys of a task's configuration that name the model or the run, and differ between arms that are asked the same."""

NO_RESULTS = template(
    "quality.no-results-file",
    "{arm}: beside the log lies no file of results of its date, so task version and begin of the run are not known",
    "lay the results_DATE.json that lm_eval wrote beside samples_TASK_DATE.jsonl, under its own name",
)
BAD_RESULTS = template(
    "quality.results-file-unreadable",
    "this is no file of results of lm-evaluation-harness: {problem}",
    "take it as lm_eval wrote it, or leave it out",
)
LOG_OF = template(
    "quality.log-of-harness",
    "{arm}: lm-evaluation-harness {version}, task {task} version {task_version}, model {model}",
)


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One task of one run. `began` None: not known. `settings` must be the same for every arm."""

    task: str | None = None
    began: datetime.datetime | None = None
    settings: dict[str, str] = {}
    said: dict[str, str] | None = None

    def findings(self, arm: str) -> tuple[Message, ...]:
        """What a person should know of the run."""
        return (LOG_OF(arm=arm, **self.said),) if self.said else (NO_RESULTS(arm=arm),)


def run_of(path: Path) -> Run:
    """The run of a log, by its name and the file of results beside it.

    Raises `InputError` where that file is there and cannot be read as one.
    """
    named = _NAME.fullmatch(path.name)
    if named is None:
        return Run()
    task, date = named["task"], named["date"]
    beside = sorted(each for each in path.parent.glob("*.json") if each.name.endswith(f"_{date}.json"))
    if not beside:
        return Run(task=task)
    return _read(beside[0], task)


def _read(path: Path, task: str) -> Run:
    place = Place(str(path))
    try:
        # Python's own reader: the harness writes NaN where a figure is none.
        results = json.loads(read_bytes(path, _MOST_BYTES))
    except (ValueError, RecursionError) as error:
        raise InputError(BAD_RESULTS(problem=shortened(str(error), 80)), place) from error
    if not isinstance(results, dict):
        raise InputError(BAD_RESULTS(problem=type(results).__name__), place)
    version = _of_task(results, "versions", task)
    settings = {
        "versions": _shown(version),
        "n-shot": _shown(_of_task(results, "n-shot", task)),
        "configs": _digest(_configuration(_of_task(results, "configs", task))),
        **{
            name: _shown(results.get(name))
            for name in ("chat_template_sha", "system_instruction_sha", "fewshot_as_multiturn", "lm_eval_version")
        },
    }
    said = {
        "version": _shown(results.get("lm_eval_version")),
        "task": task,
        "task_version": _shown(version),
        "model": _shown(results.get("model_name")),
    }
    return Run(task=task, began=_moment(results.get("date")), settings=settings, said=said)


def _of_task(results: dict[str, Any], key: str, task: str) -> object:
    table = results.get(key)
    return table.get(task) if isinstance(table, dict) else None


def _configuration(found: object) -> object:
    if not isinstance(found, dict):
        return found
    return {key: value for key, value in found.items() if key not in _MODEL_SETTINGS}


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:12]


def _shown(value: object) -> str:
    return "?" if value is None else shortened(str(value), 80)


def _moment(seconds: object) -> datetime.datetime | None:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not math.isfinite(seconds):
        return None
    try:
        return datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    except (ValueError, OverflowError, OSError):
        return None
