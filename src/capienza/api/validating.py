"""`validate` and `calibrate`: the predictor against measured cases."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from capienza.predict.calibration import Calibration
from capienza.validate.cases import scored_rows
from capienza.validate.groups import By
from capienza.validate.run import Validation, calibration_of, validate_files


def validate(files: str | Sequence[str], by: Sequence[By] = ()) -> Validation:
    """Predict the measured cases of `.jsonl` files and compare; `by` splits the groups further.

    Raises `InputError` naming file and line for a file that is not one of cases, `UnreachableError` for one that
    cannot be opened.
    """
    return validate_files([files] if isinstance(files, str) else files, by)


def calibrate(files: str | Sequence[str]) -> Calibration:
    """The ceilings that the cases of these files give, with the digest of each file and today's date.

    Raises `InputError` naming file and line for a file that is not one of cases, `UnreachableError` for one that
    cannot be opened.
    """
    paths = [files] if isinstance(files, str) else list(files)
    rows = tuple(scored_rows(paths))
    digests = {Path(path).name: hashlib.sha256(Path(path).read_bytes()).hexdigest() for path in paths}
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    return msgspec.structs.replace(calibration_of(rows, digests), date=today)
