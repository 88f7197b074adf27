"""The table of calls: functions, files and lines of code that one phase alone runs. The first match counts."""

from __future__ import annotations

from capienza.diagnose.call import Call
from capienza.diagnose.model_calls import MODEL_CALLS
from capienza.diagnose.work_calls import WORK_CALLS

CALLS: tuple[Call, ...] = (*MODEL_CALLS, *WORK_CALLS)
