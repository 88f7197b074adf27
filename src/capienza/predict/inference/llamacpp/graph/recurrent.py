"""Layers with a recurrent state: short convolutions, Mamba-2, gated delta nets.

Legend: s sequences with t tokens each; states are read from the cache at the start and written back at the end.
Sources (llama.cpp at 0c1e57098): `build_rs` (llama-graph.cpp), models/lfm2.cpp, mamba-base.cpp, delta-net-base.cpp,
qwen35.cpp.
"""

from __future__ import annotations

from collections.abc import Callable

from capienza.architecture.model import Layer
from capienza.predict.inference.llamacpp.graph.build import Build, UnknownGraphError
from capienza.predict.inference.llamacpp.graph.node import Node, row_size
from capienza.predict.inference.llamacpp.graph.operations import (
    concat,
    contiguous,
    convolution,
    copy_into,
    gated,
    product,
    reshape,
    same,
    scaled_in_place,
    take_rows,
    transpose,
    vector_view,
    view,
)

Read = Callable[[Node, Node], Node]


def states(build: Build, stored: Node, read: Read = take_rows) -> Node:
    """The states that a batch starts from; one is cleared first, and those of other sequences are moved."""
    size = stored.ne[0]
    main, extra = build.state_rows()
    rows = reshape(stored, size, stored.ne[1])
    build.add(scaled_in_place(vector_view(rows, size)))
    found = read(rows, main)
    build.add(found)
    moved = take_rows(rows, extra)
    build.add(copy_into(moved, view(stored, (size, extra.ne[0]), (stored.nb[1],))))
    return found


def _store_history(build: Build, history: Node, stored: Node, columns: int, channels: int) -> None:
    """The last columns of a convolution's input, for each state that can be gone back to."""
    step = build.step
    for _ in range(min(step.each, 1 + build.runtime.snapshots)):
        last = view(history, (columns, channels, step.sequences), history.nb[1:3])
        target = view(stored, (columns * channels, step.sequences), (stored.nb[1],))
        build.add(copy_into(last, target))


def short_convolution(build: Build, layer: Layer, cur: Node) -> Node:
    """LFM2: three projections, a short convolution between two of them, and the way out."""
    step, start = build.step, f"blk.{layer.index}."
    kernel = build.needed(f"{start}shortconv.conv.weight")
    width, columns = cur.ne[0], kernel.ne[0] - 1
    mixed = product(build.needed(f"{start}shortconv.in_proj.weight"), reshape(cur, width, step.each, step.sequences))
    size = mixed.ne[0] // 3
    b, c, x = (view(mixed, (size, mixed.ne[1], mixed.ne[2]), mixed.nb[1:3]) for _ in range(3))
    bx = transpose(same("mul", b, x))
    stored = build.state_cache(layer, "conv")
    history = reshape(states(build, stored), columns, width, step.sequences)
    history = concat(history, bx)
    _store_history(build, history, stored, columns, history.ne[1])
    out = same("mul", c, convolution(history, kernel, step.each))
    out = product(build.needed(f"{start}shortconv.out_proj.weight"), out)
    return reshape(out, out.ne[0], step.tokens)


def _heads(build: Build) -> int:
    """Raises `UnknownGraphError` for a file that does not state them."""
    key = "ssm.time_step_rank"
    found = build.model.number(key)
    if found < 1:
        raise UnknownGraphError(key)
    return found


def mamba2(build: Build, layer: Layer, cur: Node) -> Node:
    """Mamba-2: one projection split in gate, convolved part and time steps; a scan; the way out."""
    step, number, start = build.step, build.model.number, f"blk.{layer.index}."
    inner, size, heads = number("ssm.inner_size"), number("ssm.state_size"), _heads(build)
    groups, columns, head = number("ssm.group_count"), number("ssm.conv_kernel") - 1, inner // heads
    channels, each, sequences = inner + 2 * groups * size, step.each, step.sequences
    stored_conv, stored = build.state_cache(layer, "conv"), build.state_cache(layer, "recurrent")
    history = reshape(states(build, stored_conv), columns, channels, sequences)
    mixed = product(build.needed(f"{start}ssm_in.weight"), cur)
    mixed = reshape(mixed, mixed.ne[0], each, sequences)
    z = view(mixed, (head, heads, each, sequences), (head * 4, *mixed.nb[1:3]))
    x = view(mixed, (channels, each, sequences), mixed.nb[1:3])
    steps = view(mixed, (heads, each, sequences), mixed.nb[1:3])
    history = concat(history, transpose(x))
    _store_history(build, history, stored_conv, columns, channels)
    convolved = convolution(history, build.needed(f"{start}ssm_conv1d.weight"), each)
    convolved = same("unary", same("add", convolved, build.needed(f"{start}ssm_conv1d.bias")))
    x = view(convolved, (head, heads, each, sequences), (head * 4, *convolved.nb[1:3]))
    b, c = (view(convolved, (size, groups, each, sequences), (size * 4, *convolved.nb[1:3])) for _ in range(2))
    steps = same("add", contiguous(steps), build.needed(f"{start}ssm_dt.bias"))
    decay = build.needed(f"{start}ssm_a")

    def scan(rows: Node, which: Node) -> Node:
        shaped = reshape(rows, size, head, heads, stored.ne[1])
        kept = (1 + build.runtime.snapshots) * size * inner * which.ne[0]
        return Node("ssm_scan", (x.count + kept, 1, 1, 1), "fp32", (shaped, x, steps, decay, b, c, which))

    scanned = states(build, stored, scan)
    written = min(each, 1 + build.runtime.snapshots)
    row = size * inner * 4
    last = view(scanned, (size * inner, sequences, written), (row, row * sequences))
    build.add(copy_into(last, view(stored, (size * inner, sequences, written), (stored.nb[1], row * sequences))))
    y = view(scanned, (head, heads, each, sequences), (x.nb[1], heads * x.nb[1], each * heads * x.nb[1]))
    y = same("add", y, same("mul", x, build.needed(f"{start}ssm_d")))
    y = gated(contiguous(z), y)
    if build.weight(f"{start}ssm_norm.weight") is not None:
        y = reshape(y, inner // groups, groups, each, sequences)
        y = build.norm(y, f"{start}ssm_norm", layer.index)
    return build.linear(reshape(y, inner, step.tokens), f"{start}ssm_out")


def gated_delta(build: Build, layer: Layer, cur: Node) -> Node:
    """Gated delta net of Qwen3.5: queries, keys and values through a convolution, then one fused recurrence."""
    step, number, start = build.step, build.model.number, f"blk.{layer.index}."
    inner, key, heads = number("ssm.inner_size"), number("ssm.state_size"), _heads(build)
    key_heads, columns, head = number("ssm.group_count"), number("ssm.conv_kernel") - 1, inner // heads
    channels, each, sequences = inner + 2 * key_heads * key, step.each, step.sequences
    mixed = product(build.needed(f"{start}attn_qkv.weight"), cur)
    mixed = reshape(mixed, mixed.ne[0], each, sequences)
    z = product(build.needed(f"{start}attn_gate.weight"), cur)
    beta = product(build.needed(f"{start}ssm_beta.weight"), cur)
    beta = same("unary", reshape(beta, 1, heads, each, sequences))
    alpha = reshape(product(build.needed(f"{start}ssm_alpha.weight"), cur), heads, each, sequences)
    alpha = same("unary", same("add", alpha, build.needed(f"{start}ssm_dt.bias")))
    gate = reshape(same("mul", alpha, build.needed(f"{start}ssm_a")), 1, heads, each, sequences)
    stored_conv, stored = build.state_cache(layer, "conv"), build.state_cache(layer, "recurrent")
    history = reshape(states(build, stored_conv), columns, channels, sequences)
    history = concat(history, transpose(mixed))
    _store_history(build, history, stored_conv, columns, channels)
    state = reshape(states(build, stored), head, head, heads, sequences)
    convolved = same("unary", convolution(history, build.needed(f"{start}ssm_conv1d.weight"), each))
    row = row_size("fp32", 2 * key * key_heads + head * heads)
    q, k = (_unit(view(convolved, (key, key_heads, each, sequences), (key * 4, row, row * each))) for _ in range(2))
    v = view(convolved, (head, heads, each, sequences), (head * 4, row, row * each))
    kept = (1 + build.runtime.snapshots) * head * sequences
    result = Node(
        "gated_delta_net", (head * heads, each * sequences + kept, 1, 1), "fp32", (q, k, v, gate, beta, state)
    )
    steps = (head * 4, head * heads * 4, head * heads * each * 4)
    output = view(result, (head, heads, each, sequences), steps)
    _store_delta(build, result, stored, head, heads)
    normed = build.norm(output, f"{start}ssm_norm", layer.index)
    normed = same("mul", normed, same("unary", reshape(z, head, heads, each, sequences)))
    out = product(build.needed(f"{start}ssm_out.weight"), reshape(normed, inner, each, sequences))
    return reshape(out, out.ne[0], step.tokens)


def _unit(x: Node) -> Node:
    """Heads of length one."""
    return same("scale", same("rms_norm", x))


def _store_delta(build: Build, result: Node, stored: Node, head: int, heads: int) -> None:
    """The new states behind the output, into the cache."""
    sequences = build.step.sequences
    size = head * head * heads
    if build.runtime.snapshots == 0:
        steps = (head * 4, head * head * 4, size * 4)
        new = view(result, (head, head, heads, sequences), steps)
        build.add(copy_into(new, view(stored, (size, sequences), (stored.nb[1],))))
        return
    written = min(build.step.each, 1 + build.runtime.snapshots)
    new = view(result, (size, sequences, written), (size * 4, size * 4 * sequences))
    rows = max(1, build.runtime.n_seq_max)
    build.add(copy_into(new, view(stored, (size, sequences, written), (stored.nb[1], rows * size * 4))))
