"""Measured llama.cpp cases beside what the predictor says of them, quantity by quantity.

Legend: quantity one kind of buffer on one device, "kv_buffer@CUDA0"; "@all" the sum of all devices, where the row does
not tell how layers are shared out; "kv_buffer+rs_buffer@..." where only both together were counted.
A quantity is scored when the row holds all that a user knows before the start; it is flagged, with the reason, when
something is missing or another program made the figure; it is skipped when nothing was measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from capienza.errors import Message, template
from capienza.formats.blocks import BLOCKS
from capienza.predict.inference.llamacpp.backend import MAPPED
from capienza.predict.inference.llamacpp.buffers import BufferKind, LlamaBuffers
from capienza.predict.inference.llamacpp.placement import place
from capienza.predict.inference.llamacpp.prediction import predict_llamacpp
from capienza.units import MIB, NOTHING, Range
from capienza.validate import reasons
from capienza.validate.llamacpp_case import Case, Row, is_own, read_case, states_build, states_offload
from capienza.validate.llamacpp_check import odd_value
from capienza.validate.row_check import ZERO
from capienza.validate.scored import Scored

Status = Literal["scored", "skipped", "flagged"]
Logged = tuple[int, int]
"""Bytes, and how far the logged figure may lie from the true one."""

KINDS: dict[str, BufferKind] = {
    "model_buffers": "model_buffer",
    "kv_buffers": "kv_buffer",
    "rs_buffers": "rs_buffer",
    "compute_buffers": "compute_buffer",
    "output_buffers": "output_buffer",
}
LLAMACPP = "llama.cpp"
REPACKED = ("AMX", "CPU_REPACK", "CPU_AARCH64")
SUMMED = ("kv_buffer", "rs_buffer")
PRINTED_STEP_BYTES = MIB // 100
"""Logs print two decimals of a MiB."""
OWN_WINDOW = template("validate.own-window", "the engine sizes windows by a rule of its own")()
OTHER_GRAPH = template("validate.other-graph", "the graph is another program's")()
NO_LAYOUT = template("validate.no-layout", "the tensors of the file do not follow from what the row states")()
NO_SHAPES = template("validate.no-shapes", "the shapes of the tensors do not follow from what the row states")()
NO_WIDTHS = template("validate.no-widths", "the row does not state the widths of the cache")()
NO_CONTEXT = template("validate.no-context", "the row does not state the length of the context")()
NO_BUILD = template("validate.no-build", "the row does not state its build, and graphs differ between builds")()
NOT_MEASURED = template("validate.not-measured", "nothing of this kind was measured")()
NO_OVERRIDES = template("validate.no-overrides", "the row does not state whether single tensors were placed by name")()
NO_SPLIT = template("validate.no-split", "the row does not state how layers are shared out over its devices")()
NO_DEVICES = template("validate.no-devices", "the row does not state its devices")()
NO_OFFLOAD = template("validate.no-offload", "the row does not state how many layers went to its devices")()
NO_ORDER = template("validate.no-order", "the row does not state the order of the tensors in the file")()
NO_PROCESSOR = template("validate.no-processor", "the row does not state what the processor repacks")()
NO_SEQUENCES = template("validate.no-sequences", "the row does not state the number of sequences")()
SOURCE_OF_FACTS = template("validate.source-of-facts", "part of the row was derived from the measured figure itself")()


class Quantity(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of a row. `rounding_bytes` is how far the logged one may lie from the true one."""

    row: str
    name: str
    predicted: Range | None
    measured_bytes: int | None
    status: Status
    reason: Message | None = None
    rounding_bytes: int = 0


def llamacpp_row(row: Row) -> Iterator[Scored]:
    """The quantities of a row in the form of all cases. What another program printed is told apart by its engine."""
    odd = odd_value(row)
    listed = [] if odd else list(quantities(row))
    if not listed:
        reason = odd or reasons.NOTHING_PREDICTED(names=tuple(row["measured"]) or ("-",))
        listed = [
            Quantity(row=row["id"], name="none", predicted=None, measured_bytes=None, status="skipped", reason=reason)
        ]
    model = row["model"] if isinstance(row.get("model"), Mapping) else {}
    for found in listed:
        amount = found.predicted
        yield Scored(
            id=str(found.row),
            quantity=found.name,
            engine=LLAMACPP if is_own(row) or "llama.cpp" in str(row.get("engine")) else str(row.get("engine")),
            arch=str(model.get("arch") or "?"),
            weight_format=str(model.get("ftype") or model.get("quant") or model.get("bpw") or "?"),
            model=str(model.get("name") or "?"),
            floor=None if amount is None else float(amount.floor),
            expected=None if amount is None else float(amount.expected),
            ceiling=None if amount is None else float(amount.ceiling),
            measured=found.measured_bytes,
            rounding=float(found.rounding_bytes),
            status=found.status,
            reason="" if found.reason is None else str(found.reason),
        )


def quantities(row: Row) -> Iterator[Quantity]:
    """Every quantity that the row measures or the predictor knows."""
    case = read_case(row)
    if isinstance(case, Message):
        for name, logged in measured_bytes(row, has_states=False).items():
            yield _quantity(row, name, None, logged, case)
        return
    measured = measured_bytes(row, has_states=has_states(case))
    predicted = _by_name(predict_llamacpp(case.model, case.runtime), case, measured)
    for name in dict.fromkeys((*measured, *predicted)):
        kind, _, device = name.partition("@")
        if device == "all" and (is_own(row) or not _device_flag(row, case)):
            continue  # each device is judged
        reason = flag_of(row, case, kind, device) if name in measured else None
        yield _quantity(row, name, predicted.get(name, NOTHING), measured.get(name), reason)


def _quantity(row: Row, name: str, predicted: Range | None, logged: Logged | None, reason: Message | None) -> Quantity:
    if logged is None:
        return _skipped(row, name, predicted, None, NOT_MEASURED)
    if not logged[0] and reason is None:
        return _skipped(row, name, predicted, 0, ZERO(key=name))
    return Quantity(
        row=row["id"],
        name=name,
        predicted=predicted,
        measured_bytes=logged[0],
        status="flagged" if reason else "scored",
        reason=reason,
        rounding_bytes=logged[1],
    )


def _skipped(row: Row, name: str, predicted: Range | None, measured: int | None, reason: Message) -> Quantity:
    return Quantity(
        row=row["id"], name=name, predicted=predicted, measured_bytes=measured, status="skipped", reason=reason
    )


def has_states(case: Case) -> bool:
    """True when the model keeps a recurrent state."""
    return any(layer.state for layer in case.model.layers)


def measured_bytes(row: Row, *, has_states: bool) -> dict[str, Logged]:
    """Name to measured bytes and rounding, with the sums over all devices."""
    measured = row["measured"]
    exact = measured.get("breakdown_bytes") or (measured.get("exact_bytes") or {}).get("breakdown_bytes")
    found: dict[str, Logged] = {}
    if exact:
        context = "kv_buffer+rs_buffer" if has_states else "kv_buffer"
        for device, parts in exact.items():
            for part, kind in (("model", "model_buffer"), ("context", context), ("compute", "compute_buffer")):
                if parts[part]:
                    found[f"{kind}@{device}"] = (parts[part], 0)
        found |= _logged("output_buffer", measured.get("output_buffers") or measured.get("output_buffers_mib") or {})
        return found
    for key, kind in KINDS.items():
        found |= _logged(kind, measured.get(key) or {})
    total = measured.get("kv_total_mib")
    if total is not None and not measured.get("kv_buffers"):
        found["kv_buffer@all"] = (round(total * MIB), 2 * PRINTED_STEP_BYTES)
    return found


def _logged(kind: str, buffers: Mapping[str, Any]) -> dict[str, Logged]:
    """Figures in MiB with two decimals, one or several for each device."""
    found = {}
    for device, sizes in buffers.items():
        listed = sizes if isinstance(sizes, list) else [sizes]
        found[f"{kind}@{device}"] = (round(sum(listed) * MIB), len(listed) * PRINTED_STEP_BYTES)
    if found and kind in SUMMED:
        found[f"{kind}@all"] = tuple(map(sum, zip(*found.values(), strict=True)))  # type: ignore[assignment]
    return found


def _by_name(answer: LlamaBuffers, case: Case, measured: Mapping[str, Any]) -> dict[str, Range]:
    """Predicted ranges under the same names as the measured figures."""
    found: dict[str, Range] = {}
    together = has_states(case) and any("+" in name for name in measured)
    for buffer in answer.buffers:
        kind: str = buffer.kind
        if together and kind in ("kv_buffer", "rs_buffer"):
            kind = "kv_buffer+rs_buffer"
        device = "CPU" if case.runtime.era.is_fork and buffer.device == "CPU_Mapped" else buffer.device
        for name in (f"{kind}@{device}", f"{kind}@all"):
            found[name] = found.get(name, NOTHING) + buffer.amount
    wanted = {name.partition("@")[0] for name in measured if name.endswith("@all")}
    return {name: amount for name, amount in found.items() if not name.endswith("@all") or name[:-4] in wanted}


def flag_of(row: Row, case: Case, kind: str, device: str) -> Message | None:
    """Why a measured figure cannot be judged; None when it can."""
    if kind == "model_buffer" and _is_cut_view(case, device):
        return NO_ORDER
    if is_own(row):
        return NO_LAYOUT if case.layout != "types" and kind in ("model_buffer", "compute_buffer") else None
    if kind == "model_buffer" and device in REPACKED:
        return NO_PROCESSOR
    reason = _shape_flag(row, case, kind)
    where = _device_flag(row, case)
    if device == "all" and (where == NO_SPLIT or BLOCKS[case.runtime.cache_type_k].elements == 1):
        where = None  # only the rows of a quantised cache are completed, and alike on all devices
    return reason or where


def _is_cut_view(case: Case, device: str) -> bool:
    """True for the mapped view of a file whose blocks are partly on devices: its length depends on their order."""
    runtime = case.runtime
    is_view = runtime.use_mmap and device == ("CPU" if runtime.era.is_fork else MAPPED)
    return is_view and 1 < place(case.model.blocks, runtime).offloaded <= case.model.blocks


def _device_flag(row: Row, case: Case) -> Message | None:
    """What the row lacks to say on which device a layer stands."""
    if not row.get("devices"):
        # a complete start-up log that lists no device and no offload is that of a build without devices
        is_complete = row["model"].get("tensor_types") and not states_offload(row)
        return None if is_complete else NO_DEVICES
    if not states_offload(row):
        return NO_OFFLOAD
    return NO_SPLIT if len(case.runtime.used_devices) > 1 and case.runtime.tensor_split is None else None


def _shape_flag(row: Row, case: Case, kind: str) -> Message | None:
    """What the row lacks for one kind of buffer, on whatever device."""
    engine = row["engine"]
    if engine.startswith("ollama (own engine)"):
        return OWN_WINDOW
    if kind == "model_buffer":
        return _weights_flag(case)
    if kind == "output_buffer":
        return None if row["runtime"].get("n_seq_max") else NO_SEQUENCES
    if kind == "compute_buffer":
        if not engine.startswith("llama.cpp"):
            return OTHER_GRAPH
        if case.layout == "nothing":
            return NO_SHAPES
        if not states_build(row):
            return NO_BUILD
    if kind in ("kv_buffer", "compute_buffer"):
        if not row["runtime"].get("n_ctx"):
            return NO_CONTEXT
        if not case.has_widths:
            return NO_WIDTHS
        if (row.get("consistency") or {}).get("independent") is False:
            return SOURCE_OF_FACTS
    return None


def _weights_flag(case: Case) -> Message | None:
    if case.layout != "types":
        return NO_LAYOUT
    if case.model.experts and case.runtime.devices and not case.runtime.has_overrides:
        return NO_OVERRIDES
    return None
