"""Compute buffers: the graph of the largest batch, given to ggml's scheduler and allocator.

Legend: u tokens computed at once, S sequences; the graphs of a whole prompt batch and of one token for each sequence
are reserved, and a buffer is as large as the larger of both needs. The second one matters only where it has almost as
many tokens, or runs elsewhere: large batches take the host's weights to a device.
Equal layers in a row on one device are alike to the allocator, so of a long run only the first and last are built.
Source: `llama_context::sched_reserve` and `graph_reserve` (llama-context.cpp of llama.cpp at 0c1e57098).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from capienza.architecture.model import Layer
from capienza.predict.inference.llamacpp.backend import CPU, HOST, backend_of, host_buffer_name, row_bytes
from capienza.predict.inference.llamacpp.buffers import GRAPHS, LlamaBuffer
from capienza.predict.inference.llamacpp.cache import cache_device
from capienza.predict.inference.llamacpp.graph.allocator import Allocator
from capienza.predict.inference.llamacpp.graph.build import Build, Step, Where
from capienza.predict.inference.llamacpp.graph.families import FAMILIES, PLAIN, build_graph
from capienza.predict.inference.llamacpp.graph.node import Node, block
from capienza.predict.inference.llamacpp.graph.scheduler import ALWAYS_COPIED, OFFLOADED_ROWS, Scheduler
from capienza.predict.inference.llamacpp.model import LlamaModel
from capienza.predict.inference.llamacpp.placement import Placement
from capienza.predict.inference.llamacpp.runtime import LlamaRuntime, Sizes
from capienza.predict.inference.llamacpp.weights import Placed
from capienza.units import Range

KEPT_PERIODS = 2
"""Periods of a run of like layers that are built at each end."""


MUCH_SMALLER = 4
"""A graph of so many times fewer tokens needs less everywhere, when both run on the same backends."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """All that the graphs of one run have in common."""

    model: LlamaModel
    runtime: LlamaRuntime
    sizes: Sizes
    where: Where
    layers: tuple[Layer, ...]
    copies: int
    flash: bool


def compute_buffers(
    model: LlamaModel, runtime: LlamaRuntime, placement: Placement, sizes: Sizes, placed: tuple[Placed, ...]
) -> list[LlamaBuffer]:
    """The buffers that the engine prints when it has reserved its graphs. Raises `UnknownGraphError`."""
    plan = plan_of(model, runtime, placement, sizes, placed)
    sequences = runtime.n_seq_max
    tokens = -(-sizes.ubatch // sequences) * sequences
    steps = [Step(tokens=tokens, sequences=sequences, outputs=sizes.outputs)]
    is_apart = bool(runtime.devices) and not (placement.is_whole and runtime.kv_offload and not runtime.has_overrides)
    if not runtime.is_dry_run and (is_apart or sequences * MUCH_SMALLER > tokens):
        steps.append(Step(tokens=sequences, sequences=sequences, outputs=sequences))
    needs = [reserved(plan, step) for step in steps]
    is_known = model.architecture in FAMILIES and not runtime.era.is_fork
    names = (*runtime.used_devices, host_buffer_name(runtime.devices))
    return [
        LlamaBuffer(
            kind="compute_buffer",
            device=name,
            amount=Range.exact(size) if is_known and model.table_is_read else Range(0, size, size),
            status="exact" if is_known and model.table_is_read else "estimated",
            formula=GRAPHS(tokens=tuple(str(step.tokens) for step in steps), needs=tuple(map(str, each)), total=size),
        )
        for name, each in zip(names, zip(*needs, strict=True), strict=True)
        if (size := max(each))
    ]


def plan_of(
    model: LlamaModel,
    runtime: LlamaRuntime,
    placement: Placement,
    sizes: Sizes,
    placed: tuple[Placed, ...],
    *,
    all_layers: bool = False,
) -> Plan:
    """Where everything stands, and which layers are built."""
    devices = runtime.used_devices
    numbers = {device: number for number, device in enumerate(devices)}
    where = Where(
        blocks=tuple(numbers.get(device, len(devices)) for device in placement.blocks),
        cpu=len(devices),
        owners=(*devices, CPU),
        weights={one.tensor.name: one.buffer for one in placed if not one.is_output_copy},
        caches=tuple(cache_device(layer, runtime, placement) for layer in model.layers),
        tied_output=next((one.buffer for one in placed if one.is_output_copy), None),
        is_whole=placement.is_whole,
    )
    is_parallel = (
        len(devices) > 1
        and placement.is_whole
        and runtime.split_mode == "layer"
        and runtime.kv_offload
        and not runtime.has_overrides
        and all(backend_of(device).has_events for device in devices)
    )
    plan = Plan(
        model=model,
        runtime=runtime,
        sizes=sizes,
        where=where,
        layers=model.layers if all_layers else tuple(_shortened(model, where)),
        copies=ALWAYS_COPIED if is_parallel else 1,
        flash=runtime.flash_attn == "on" or (runtime.flash_attn == "auto" and not runtime.era.is_fork),
    )
    if runtime.flash_attn == "auto" and plan.flash and not _attends_at_home(plan):
        return msgspec.structs.replace(plan, flash=False)
    return plan


def reserved(plan: Plan, step: Step) -> list[int]:
    """Bytes of each backend's buffer for one batch."""
    build, scheduler = _scheduled(plan, step, pins=not plan.runtime.is_dry_run)
    backends = [*(backend_of(device) for device in plan.runtime.used_devices), HOST]
    nodes, leaves = scheduler.split(build.graph)
    paddings = [backend.row_padding for backend in backends]

    def size_of(node: Node, home: int) -> int:
        size = node.bytes
        if node.op == "flash_attn_ext" and plan.runtime.f16_copies and home < plan.where.cpu:
            size = _with_copies(node, size)
        short = node.ne[0] % paddings[home] if paddings[home] else 0
        return size + row_bytes(node.kind, paddings[home] - short) if short and block(node.kind)[0] > 1 else size

    return Allocator([backend.alignment for backend in backends], size_of).run(nodes, leaves)


def _with_copies(node: Node, size: int) -> int:
    """Flash attention with f16 copies of a quantised layer's keys and values behind its result."""
    key, value = node.sources[1], node.sources[2]
    if key.kind != "fp16":
        size = -(-size // 128) * 128 + 2 * key.count
    if value.kind != "fp16" and value.view is not key.view:
        size = -(-size // 128) * 128 + 2 * value.count
    return size


def _scheduled(plan: Plan, step: Step, *, pins: bool) -> tuple[Build, Scheduler]:
    tensors = {tensor.name: tensor for tensor in plan.model.tensors}
    build = Build(plan.model, plan.runtime, plan.sizes, step, plan.where, tensors, flash=plan.flash, pins=pins)
    build_graph(build, FAMILIES.get(plan.model.architecture, PLAIN), plan.layers)
    scheduler = Scheduler(plan.runtime.used_devices, copies=plan.copies, op_offload=plan.runtime.op_offload)
    scheduler.assign(build.graph)
    return build, scheduler


def _attends_at_home(plan: Plan) -> bool:
    """Whether every attention would run on its block's device, which "auto" asks for."""
    sequences = plan.runtime.n_seq_max
    if plan.runtime.kv_offload and (plan.where.is_whole or sequences < OFFLOADED_ROWS):
        return True
    build, _ = _scheduled(plan, Step(tokens=sequences, sequences=sequences, outputs=sequences), pins=True)
    return all(node.home == plan.where.blocks[index] for index, node in build.attentions)


def _shortened(model: LlamaModel, where: Where) -> Iterator[Layer]:
    """The layers without the middle of long runs of like ones."""
    names: dict[int, list[tuple[str, str, tuple[int, ...], str]]] = {}
    for tensor in model.tensors:
        if tensor.name.startswith("blk."):
            _, number, name = tensor.name.split(".", 2)
            names.setdefault(int(number), []).append((name, where.weights[tensor.name], tensor.shape, tensor.dtype))
    marks = [
        (where.blocks[layer.index], where.caches[layer.index], layer.attention, layer.state, tuple(names[layer.index]))
        for layer in model.layers
    ]
    order: dict[object, int] = {}
    numbers = [order.setdefault(mark, len(order)) for mark in marks]
    yield from (model.layers[index] for index in _kept(numbers))


def _kept(numbers: list[int]) -> Iterable[int]:
    """Positions that stay: of every stretch of one period, some periods at each end.

    An even number is left out: what a layer leaves free alternates between two pictures.
    """
    position = 0
    while position < len(numbers):
        period, end = _stretch(numbers, position)
        count = (end - position) // period
        left_out = max(0, count - 2 * KEPT_PERIODS) // 2 * 2
        head = position + KEPT_PERIODS * period if left_out else end
        yield from range(position, head)
        yield from range(head + left_out * period, end)
        position = end


def _stretch(numbers: list[int], start: int) -> tuple[int, int]:
    """The period from a position that covers most, and where its whole periods end."""
    best = (1, start + 1)
    for period in range(1, 9):
        end = start + period
        while end < len(numbers) and numbers[end] == numbers[end - period]:
            end += 1
        whole = start + (end - start) // period * period
        if whole - start >= 2 * period and whole > best[1]:
            best = (period, whole)
    return best
