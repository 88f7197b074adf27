"""Runs of a pipeline over several GPUs as Sailor's authors measured them: one line of a CSV file each.

Legend of the columns: pp, dp, tp ranks by stage, data and tensors; mbs rows of a microbatch, gbs rows of an update;
layers_per_stage with embedding and head as one layer each; measured_max_mem_bytes the driver's reading of the fullest
rank. Megatron-DeepSpeed in fp32; the sizes of the models are published.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from io import StringIO

import msgspec

from capienza.errors import InputError, Message
from capienza.predict.training.parallel.megatron_layer import Block
from capienza.predict.training.parallel.megatron_stage import Stage, padded_vocabulary, stage_peak
from capienza.predict.training.parallel.outside import GH200_NODE, communicator_bytes
from capienza.validate import training_reasons as reasons
from capienza.validate.scored import Scored
from capienza.validate.training_words import count

COLUMNS = ("model", "gpu", "pp", "dp", "tp", "mbs", "gbs", "layers_per_stage", "measured_max_mem_bytes")
MODELS = {"OPT-350M": (1024, 16, 2048, 50257), "GPT-Neo-2.7B": (2560, 20, 2048, 50257)}
"""Hidden size, heads, tokens of a row, words."""
HOPPER_WORKSPACE_BYTES = 32 << 20
HOPPER = ("GH", "H100", "H200")
QUANTITY = "multi_gpu.device_peak"


def is_runs(first_line: str) -> bool:
    """Are these the columns of such a file?"""
    return set(COLUMNS) <= {column.strip() for column in first_line.split(",")}


def run_rows(text: str) -> Iterator[Scored]:
    """One entry for each line."""
    for number, row in enumerate(csv.DictReader(StringIO(text)), start=2):
        said = {key: str(value or "") for key, value in row.items() if isinstance(key, str)}
        name = said.get("file") or f"line {number}"
        try:
            measured = float(_whole(said, "measured_max_mem_bytes", 2**50))
        except InputError as error:
            yield _entry(said, name, None, error.message)
            continue
        try:
            expected = _expected(said)
        except InputError as error:
            yield _entry(said, name, measured, error.message)
            continue
        entry = _entry(said, name, measured, None)
        yield msgspec.structs.replace(entry, expected=expected, ceiling=expected, status="scored")


def _expected(row: Mapping[str, str]) -> float:
    sizes = MODELS.get(row.get("model", ""))
    if sizes is None:
        raise InputError(reasons.NO_ARCHITECTURE())
    if not row.get("gpu", "").startswith(HOPPER) or "|" in row.get("gpu", ""):
        raise InputError(reasons.OTHER_CARDS(gpu=row.get("gpu", "")[:60]))
    hidden, heads, tokens, words = sizes
    parts = [_whole({"layers_per_stage": part}, "layers_per_stage") for part in row["layers_per_stage"].split("|")]
    microbatch, ranks = _whole(row, "mbs"), _whole(row, "tp")
    last = len(parts) - 1
    waiting = max(1, _whole(row, "gbs", 2**30) // microbatch // _whole(row, "dp"))
    peaks = [
        stage_peak(
            Stage(
                block=Block(
                    hidden=hidden,
                    heads=heads,
                    feed_forward=4 * hidden,
                    tokens=tokens,
                    microbatch=microbatch,
                    tensor_ranks=ranks,
                ),
                number=number,
                stages=len(parts),
                layers=max(0, part - (number == 0) - (number == last)),
                microbatches=min(waiting, 2 * len(parts) + 2),
                vocabulary=padded_vocabulary(words, ranks),
                positions=tokens,
                workspace_bytes=HOPPER_WORKSPACE_BYTES,
            )
        )
        for number, part in enumerate(parts)
    ]
    return max(peak.reserved_bytes for peak in peaks) + GH200_NODE.usual_bytes + communicator_bytes()


def _whole(row: Mapping[str, str], key: str, most: int = 2**16) -> int:
    text = row.get(key, "").strip()
    if most > 2**26 and text.isascii() and text.isdigit() and 0 < int(text[:18]) <= most:
        return int(text[:18])
    found = count(key, text or None)
    if found is None or found > most:
        raise InputError(reasons.BAD_VALUE(key=key, found=text[:40], accepted=f"1..{most}"))
    return found


def _entry(row: Mapping[str, str], name: str, measured: float | None, reason: Message | None) -> Scored:
    return Scored(
        id=name[:200],
        quantity=QUANTITY,
        engine="megatron-deepspeed",
        arch="opt",
        weight_format="fp32",
        model=row.get("model", "?")[:120],
        measured=measured,
        status="skipped",
        reason=str(reason or ""),
        kind=QUANTITY,
        family="Sailor",
    )
