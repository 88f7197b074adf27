"""A measured run as JSON (`capienza.run/1`): what `run.json` holds, and what `--json` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from capienza.report.messages import message_data
from capienza.report.tool import TOOL

if TYPE_CHECKING:
    from capienza.measure.measured import Measured
    from capienza.measure.observed import Part

RUN_SCHEMA = "capienza.run/1"


def measure_data(found: Measured) -> dict[str, Any]:
    """Sizes in bytes, times in seconds; null is not known. In `run.json` no record is named: it names that file."""
    run, stage, coverage = found.run, found.stage, found.coverage
    executed, diagnosis = run.executed, run.diagnosis
    return {
        "schema": RUN_SCHEMA,
        "tool": TOOL,
        "folder": run.folder.name,
        "card": {"name": found.card.name, "sha256": found.card.sha256},
        "stage": {
            "name": stage.name,
            "tokens": stage.tokens.total,
            "prompt": stage.tokens.prompt,
            "output": stage.tokens.output,
            "concurrency": stage.concurrency,
            "microbatch": stage.microbatch,
        },
        "command": list(run.environment.command),
        "started": run.started.isoformat(),
        "ended": run.ended.isoformat(),
        "exit_code": run.exit_code,
        "outcome": run.outcome,
        "failed_phase": run.failed_phase,
        "failed_phase_from": run.failed_phase_from,
        "failure": None
        if not diagnosis.is_failure
        else {"cause": diagnosis.cause, "memory": diagnosis.memory, "evidence": diagnosis.evidence},
        "executed": {
            "tokens": executed.tokens,
            "prompt": executed.prompt,
            "output": executed.output,
            "concurrency": executed.concurrency,
            "microbatch": executed.microbatch,
            "accumulation": executed.accumulation,
            "samples": executed.samples,
            "truncated": executed.truncated,
            "dropped": executed.dropped,
            "pool_tokens": executed.pool_tokens,
            "sources": list(executed.sources),
        },
        "covers_stage": coverage.is_covered,
        "gpus_used": list(run.used_scopes),
        "baseline_bytes": run.baseline_bytes,
        "phase_seconds": run.peaks.phases,
        "peaks": [
            {
                "phase": peak.phase,
                "counter": peak.counter,
                "scope": peak.scope,
                "value": peak.value,
                "unit": peak.unit,
                "at": peak.at,
                "readings": peak.readings,
                "source": peak.source,
            }
            for peak in run.peaks.peaks
        ],
        "others": [
            {"scope": other.scope, "pid": other.pid, "name": other.name, "peak_bytes": other.peak_bytes}
            for other in run.others
        ],
        "ledger": [_part_data(part) for part in found.parts],
        "phases": [
            {
                "phase": row.phase,
                "scope": row.scope,
                "device": row.device,
                "floor_bytes": row.floor_bytes,
                "expected_bytes": row.expected_bytes,
                "ceiling_bytes": row.ceiling_bytes,
                "complete": row.is_complete,
                "observed_bytes": row.observed_bytes,
                "difference_bytes": {
                    name: value - row.expected_bytes
                    for name, value in row.observed_bytes.items()
                    if row.expected_bytes is not None
                },
            }
            for row in found.phases
        ],
        "plan": found.plan,
        "findings": [message_data(finding) for finding in found.findings],
        "record": None if found.record is None else {"id": found.record.id, "path": str(found.record_path)},
    }


def _part_data(part: Part) -> dict[str, Any]:
    return {
        "entries": list(part.entries),
        "floor_bytes": part.floor_bytes,
        "predicted_bytes": part.predicted_bytes,
        "ceiling_bytes": part.ceiling_bytes,
        "observed_bytes": part.observed_bytes,
        "difference_bytes": part.difference_bytes,
        "line": part.line or None,
    }
