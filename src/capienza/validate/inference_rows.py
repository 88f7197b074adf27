"""A measured serving case against the prediction, quantity by quantity.

Legend: what may be read of `measured` before predicting is the card's CUDA total and, for the quantities `*_from_pool`
alone, the logged pool. Everything else of `measured` is only compared.
    weights, activation_peak, non_torch, cuda_graph    the figure of that name of the first stage
    total                                 the highest phase, with the pool where the engine takes one
    kv_tokens, gpu_blocks, max_concurrency             end to end, from the card's total and the flags; where one of
                                          them is not stated, flagged, from the catalogue's total and the defaults
    kv_tokens_from_pool, ...                           the same from the logged pool: layout and rounding alone
    oom                                   the word of a case that died of device memory
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from capienza.errors import InputError, Message
from capienza.predict.inference.engines import serve
from capienza.predict.inference.fit import peak_bytes
from capienza.predict.inference.serving import Offer, RankFigures, Served, Serving
from capienza.validate import reasons
from capienza.validate.inference_oom import oom_scored
from capienza.validate.row_capacity import row_capacity
from capienza.validate.row_case import Case, read_case
from capienza.validate.row_check import unread_figure
from capienza.validate.row_serving import measured_bytes, measured_number
from capienza.validate.scored import Scored

Row = Mapping[str, Any]
FIGURES = {
    "weights": ("weights", "weights_mem_usage"),
    "activation_peak": ("activation_peak",),
    "non_torch": ("non_torch",),
    "cuda_graph": ("cuda_graph",),
}
TOTALS = ("nvidia_smi_process_mib", "nvidia_smi_total_used_mib", "gpu_memory_usage", "peak_torch_allocated")
ALLOCATED = ("gpu_memory_usage", "peak_torch_allocated")
COUNTS = ("kv_tokens", "gpu_blocks", "max_concurrency")
POOLS = ("kv_cache", "kv_size")
NEEDED = {
    "vllm": ("gpu_memory_utilization", "max_model_len"),
    "sglang": ("mem_fraction_static",),
    "tgi": ("max_batch_prefill_tokens",),
    "tensorrt-llm": ("kv_cache_free_gpu_mem_fraction|free_gpu_memory_fraction",),
}
"""What a row must state beside the card's total for an end-to-end count, by engine; one of several names is enough."""
HALVES = ("k_size", "v_size")
POOL_STEP_BYTES = 2**30 // 100
"""Logs print two decimals of a GiB."""
POOL_OPTION = "kv_cache_memory_bytes"
OUTSIDE_BUDGET = ("cuda_graph", "context")
DRIVEN_BY_SEQUENCES = ("activation_peak", *COUNTS)
OUTSIDE_PYTORCH = ("context", "non_torch", "reserved")


def inference_row(row: Row) -> Iterator[Scored]:
    """Every quantity that the case measured, scored, skipped or flagged; at least one entry for each row."""
    case = read_case(row)
    found = False
    for scored in _quantities(case):
        found = True
        yield scored
    if not found:
        names = tuple(case.row["measured"]) or ("-",)
        yield _entry(case, "none", None, reason=reasons.NOTHING_PREDICTED(names=names))


def _quantities(case: Case) -> Iterator[Scored]:
    yield from _unread(case)
    for quantity, names in FIGURES.items():
        measured = next((size for name in names if (size := measured_bytes(case.row, name))), None)
        if measured is not None:
            yield _figure(case, quantity, measured)
    for name in TOTALS:
        if measured := measured_total(case.row, name):
            yield _total(case, name, measured)
    for quantity in COUNTS:
        if number := measured_number(case.row, quantity):
            yield _from_pool(case, quantity, number)
            yield _end_to_end(case, quantity, number)
    if isinstance(case.row.get("oom"), dict) and case.row["oom"]:
        yield oom_scored(case, _entry(case, "oom", "oom"))


def _unread(case: Case) -> Iterator[Scored]:
    """The figures of the case that cannot be compared, each with the reason."""
    named = [(name, quantity, True) for quantity, names in FIGURES.items() for name in names]
    named += [(name, "total", not _has_unit_in_name(case.row, name)) for name in TOTALS]
    named += [(name, name, False) for name in COUNTS]
    for name, quantity, has_unit in named:
        reason = unread_figure(case.row, name, has_unit=has_unit)
        if reason is not None:
            yield _entry(case, quantity, measured_number(case.row, name), reason=reason)


def _has_unit_in_name(row: Row, name: str) -> bool:
    figure = row["measured"].get(name)
    is_stated = isinstance(figure, Mapping) and (figure.get("true_unit") or figure.get("unit_logged"))
    return name.endswith("_mib") and not is_stated


def measured_total(row: Row, name: str) -> int | None:
    """A whole reading in bytes; the unit is in the name where the figure itself has none."""
    if (size := measured_bytes(row, name)) is not None:
        return size
    number = measured_number(row, name)
    return int(number * 2**20) if number is not None and _has_unit_in_name(row, name) else None


def logged_pool(row: Row) -> int | None:
    """The bytes of the pool in the log, of K and V together."""
    for name in POOLS:
        if size := measured_bytes(row, name):
            return size
    halves = [measured_bytes(row, name) for name in HALVES]
    return sum(half for half in halves if half) if all(halves) else None


def _figure(case: Case, quantity: str, measured: int) -> Scored:
    entry = _entry(case, quantity, measured)
    served = _served(case, case.serving)
    if not isinstance(served, Served):
        return _without(entry, served)
    amount = served.ranks[0].amount(quantity)
    if amount is None:
        return _without(entry, reasons.NO_FIGURE(engine=case.engine))
    if quantity == "weights" and not case.has_weights:
        return _judged(entry, case.odd or case.uncertain_weights)
    filled = msgspec.structs.replace(
        entry,
        floor=float(amount.floor),
        expected=float(amount.expected),
        ceiling=float(amount.ceiling),
        is_assumed=_is_assumed(case, quantity),
    )
    return _judged(filled, case.odd or (case.uncertain_weights if quantity == "weights" else case.uncertain_model))


def _total(case: Case, name: str, measured: int) -> Scored:
    entry = _entry(case, "total", measured)
    capacity = row_capacity(case.row)
    total = capacity.total_bytes if capacity is not None else None
    serving = case.serving and msgspec.structs.replace(case.serving, total_bytes=total)
    served = _served(case, serving)
    if not isinstance(served, Served):
        return _without(entry, served)
    if not case.has_weights:
        return _judged(entry, case.odd or case.uncertain_weights)
    rank = _allocated(served.tightest) if name in ALLOCATED else served.tightest
    filled = msgspec.structs.replace(
        entry, expected=float(peak_bytes(rank)), ceiling=float(peak_bytes(rank)), parts=_open_parts(rank)
    )
    if rank.offer.budget_bytes is None and capacity is None and case.engine != "transformers":
        return _without(entry, reasons.NO_CAPACITY())
    return _judged(filled, case.odd or case.uncertain_weights)


def _open_parts(rank: RankFigures) -> tuple[tuple[str, float], ...]:
    """What lies outside an engine's budget: the rest of the total is the budget itself."""
    if rank.offer.budget_bytes is None:
        return ()
    return tuple(
        (figure.name, float(figure.amount.expected)) for figure in rank.figures if figure.name in OUTSIDE_BUDGET
    )


def _allocated(rank: RankFigures) -> RankFigures:
    """What PyTorch counts as allocated of a rank's figures."""
    inside = tuple(figure for figure in rank.figures if figure.name not in OUTSIDE_PYTORCH)
    return msgspec.structs.replace(rank, figures=inside)


def _from_pool(case: Case, quantity: str, measured: float) -> Scored:
    entry = _entry(case, f"{quantity}_from_pool", measured)
    pool = logged_pool(case.row)
    if pool is None:
        odd = (unread_figure(case.row, name, has_unit=True) for name in (*POOLS, *HALVES))
        return _without(entry, case.problem or next(filter(None, odd), None) or reasons.NO_POOL())
    options = {**case.serving.options, POOL_OPTION: pool} if case.serving else {}
    served = _served(case, case.serving and msgspec.structs.replace(case.serving, options=options))
    if not isinstance(served, Served):
        return _without(entry, served)
    entry = msgspec.structs.replace(entry, rounding=measured * POOL_STEP_BYTES / 2 / pool)
    return _counted(entry, case, served.ranks[0].offer, quantity, case.odd)


def _end_to_end(case: Case, quantity: str, measured: float) -> Scored:
    entry = _entry(case, quantity, measured)
    unread = case.problem or unread_figure(case.row, "total_gpu_memory", has_unit=True)
    if unread is not None:
        return _without(entry, unread)
    missing = tuple(_missing(case))
    capacity = row_capacity(case.row)
    if missing and (capacity is None or case.odd or not case.has_weights):
        return _without(entry, case.odd or reasons.NOT_STATED(names=missing))
    total = capacity.total_bytes if capacity is not None else None
    served = _served(case, case.serving and msgspec.structs.replace(case.serving, total_bytes=total))
    if not isinstance(served, Served):
        return _without(entry, case.odd or served)
    if not case.has_weights:
        return _judged(entry, case.odd or case.uncertain_weights)
    against = reasons.TAKEN(names=missing) if missing else None
    return _counted(entry, case, served.tightest.offer, quantity, case.odd or case.uncertain_weights or against)


def _missing(case: Case) -> Iterator[str]:
    if measured_bytes(case.row, "total_gpu_memory") is None:
        yield "total_gpu_memory"
    stated = {**case.row, **(case.row.get("flags") or {})}
    for names in NEEDED.get(case.engine, ()):
        if all(stated.get(name) is None for name in names.split("|")):
            yield names.split("|")[0]


def _counted(entry: Scored, case: Case, offer: Offer, quantity: str, against: Message | None) -> Scored:
    number = {"kv_tokens": offer.kv_tokens, "gpu_blocks": offer.gpu_blocks, "max_concurrency": offer.max_concurrency}
    expected = number[quantity]
    if expected is None:
        return _without(entry, reasons.NO_FIGURE(engine=case.engine))
    filled = msgspec.structs.replace(
        entry,
        expected=float(expected),
        ceiling=float(expected),
        is_assumed=_is_assumed(case, entry.quantity),
    )
    return _judged(filled, against)


def _is_assumed(case: Case, quantity: str) -> bool:
    """Does the profile run's number of sequences, which the case does not state, drive this figure?"""
    return quantity in DRIVEN_BY_SEQUENCES and case.engine == "vllm" and case.row.get("max_num_seqs") is None


def _served(case: Case, serving: Serving | None) -> Served | Message:
    """The engine's answer, or why there is none."""
    if serving is None:
        return case.problem or case.odd or reasons.NO_ARCHITECTURE()
    try:
        return serve(case.engine, serving)
    except InputError as error:
        return reasons.NOT_UNDERSTOOD(why=error.message)


def _entry(case: Case, quantity: str, measured: float | str | None, reason: Message | None = None) -> Scored:
    """An entry that nothing is predicted for yet. Odd cases and those without an architecture are flagged at once."""
    row = case.row
    architecture = row["arch"].get("architecture") if row.get("arch") else None
    against = case.odd or reason
    return Scored(
        id=str(row["id"]),
        quantity=quantity,
        engine=case.engine,
        arch=str(architecture or "?"),
        weight_format=str(row.get("weight_format") or "?"),
        model=str(row.get("model") or "?"),
        measured=measured,
        status="flagged" if case.odd else "skipped",
        reason=str(against or ""),
    )


def _without(entry: Scored, reason: Message) -> Scored:
    """The entry without a prediction."""
    return entry if entry.status == "flagged" else msgspec.structs.replace(entry, reason=str(reason))


def _judged(entry: Scored, against: Message | None) -> Scored:
    if against is not None:
        return msgspec.structs.replace(entry, status="flagged", reason=str(against))
    return msgspec.structs.replace(entry, status="scored", reason="")
