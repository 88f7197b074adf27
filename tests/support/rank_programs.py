"""Small programs of several ranks, to be traced and to be run: what a trace says of a rank is held against the rank.

Legend: a program is a pair (build, step) that says with `at(phase)` where it is. Run for real, each rank is a process
with the gloo backend, and what it takes of main memory is counted by `counting_allocator.cpp`; traced, it is the same
program on fake tensors of the CPU. A phase that comes again has a number: `forward.2`.

    python tests/support/rank_programs.py COUNTER.so fsdp2/net     one rank, in the environment of a launcher
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

ROOT = Path(__file__).parents[2]
SETTLES_S, RUN_LIMIT_S = 0.005, 900
COLLECTIVES = (
    "_allgather_base", "_reduce_scatter_base", "all_gather_single", "reduce_scatter_single", "allgather", "allreduce",
    "broadcast", "scatter", "reduce_scatter", "send", "recv",
)  # fmt: skip
STEPS, BATCH, WIDTH, DEPTH, TOKENS, VOCABULARY = 3, 32, 256, 4, 64, 1000
NAMES = frozenset({"build", "forward", "backward", "optimizer", "pipeline"})
At = Callable[[str], None]


class Net(nn.Module):
    """Blocks of two linear layers with a bias."""

    def __init__(self, width: int = WIDTH, depth: int = DEPTH) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in range(depth)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[batch, width] to the same."""
        for block in self.blocks:
            x = x + block(x)
        return x


def net(device: str) -> tuple[nn.Module, list[nn.Module], torch.Tensor]:
    """A model, its blocks, and an input."""
    with torch.device(device):
        model = Net()
        return model, list(model.blocks), torch.ones(BATCH, WIDTH)


def llama(device: str) -> tuple[nn.Module, list[nn.Module], torch.Tensor]:
    """A small Llama."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=4,
        vocab_size=VOCABULARY, use_cache=False, attn_implementation="eager",
    )  # fmt: skip
    with torch.device(device):
        model = LlamaForCausalLM(config)
        return model, list(model.model.layers), torch.zeros(2, TOKENS, dtype=torch.int64)


MODELS = {"net": net, "llama": llama}


def loss_of(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """A number to differentiate."""
    if x.dtype == torch.int64:
        loss: torch.Tensor = model(input_ids=x, labels=x).loss
        return loss
    out: torch.Tensor = model(x)
    return out.pow(2).mean()


def plain_step(state: Any, at: At, rounds: int = 1, sync: Callable[[bool], Any] | None = None) -> None:
    """Forward and backward so many times, then the optimizer."""
    model, x, optimizer = state
    for index in range(rounds):
        with (sync and sync(index == rounds - 1)) or contextlib.nullcontext():
            at("forward")
            loss = loss_of(model, x)
            at("backward")
            loss.backward()
            del loss
    at("optimizer")
    optimizer.step()
    optimizer.zero_grad()


def adamw(model: nn.Module) -> torch.optim.Optimizer:
    """AdamW in its foreach form, as it is chosen on CUDA."""
    return torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True)


def mesh_of(device: str, shape: tuple[int, ...], names: tuple[str, ...]) -> Any:
    """A device mesh."""
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh(device, shape, mesh_dim_names=names)


def ddp(kind: str, **options: Any) -> tuple[Any, Any]:
    """DistributedDataParallel."""

    def build(device: str) -> Any:
        model, _, x = MODELS[kind](device)
        local = int(os.environ["LOCAL_RANK"])
        wrapped = nn.parallel.DistributedDataParallel(
            model, device_ids=[local] if device == "cuda" else None, **options
        )
        return wrapped, x, adamw(wrapped)

    return build, plain_step


def ddp_accumulated(kind: str) -> tuple[Any, Any]:
    """Two rounds before a step; the first does not reduce."""
    build, _ = ddp(kind)

    def step(state: Any, at: At) -> None:
        plain_step(state, at, 2, lambda is_last: contextlib.nullcontext() if is_last else state[0].no_sync())

    return build, step


def ddp_compressed(kind: str) -> tuple[Any, Any]:
    """Gradients are reduced in fp16."""
    build, step = ddp(kind)

    def build_with_hook(device: str) -> Any:
        from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook

        state = build(device)
        state[0].register_comm_hook(None, fp16_compress_hook)
        return state

    return build_with_hook, step


def fsdp1(kind: str, **options: Any) -> tuple[Any, Any]:
    """FullyShardedDataParallel."""

    def build(device: str) -> Any:
        from torch.distributed.fsdp import FullyShardedDataParallel
        from torch.distributed.fsdp.wrap import ModuleWrapPolicy

        model, blocks, x = MODELS[kind](device)
        where = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if device == "cuda" else torch.device("cpu")
        wrapped = FullyShardedDataParallel(
            model, use_orig_params=True, auto_wrap_policy=ModuleWrapPolicy({type(blocks[0])}), device_id=where,
            **options,
        )  # fmt: skip
        return wrapped, x, adamw(wrapped)

    return build, plain_step


def fsdp1_mixed(kind: str) -> tuple[Any, Any]:
    """Parameters and gradients travel in bf16."""
    from torch.distributed.fsdp import MixedPrecision

    precision = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)
    return fsdp1(kind, mixed_precision=precision)


def fsdp2(kind: str, rounds: int = 1, checkpointed: bool = False, shape: Any = None, **options: Any) -> tuple[Any, Any]:
    """fully_shard on every block and on the whole."""

    def build(device: str) -> Any:
        from torch.distributed.fsdp import fully_shard

        model, blocks, x = MODELS[kind](device)
        told = dict(options)
        if shape is not None:
            told["mesh"] = mesh_of(device, shape, ("replicate", "shard"))
        for block in blocks:
            if checkpointed:
                _checkpoint(block)
            fully_shard(block, **told)
        fully_shard(model, **told)
        return model, x, adamw(model)

    def step(state: Any, at: At) -> None:
        def sync(is_last: bool) -> None:
            state[0].set_requires_gradient_sync(is_last)

        plain_step(state, at, rounds, sync if rounds > 1 else None)

    return build, step


def _checkpoint(block: nn.Module) -> None:
    from torch.distributed._composable import checkpoint

    checkpoint(block, preserve_rng_state=False)


def fsdp2_mixed(kind: str) -> tuple[Any, Any]:
    """bf16 parameters, gradients reduced in fp32."""
    from torch.distributed.fsdp import MixedPrecisionPolicy

    return fsdp2(kind, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32))


def fsdp2_offloaded(kind: str) -> tuple[Any, Any]:
    """Sharded parameters, gradients and states stay in main memory."""
    from torch.distributed.fsdp import CPUOffloadPolicy

    return fsdp2(kind, offload_policy=CPUOffloadPolicy(pin_memory=False))


def tensor_parallel(kind: str, with_fsdp: bool = False) -> tuple[Any, Any]:
    """Colwise and Rowwise pairs; with fully_shard over the other dimension of a 2-D mesh."""

    def build(device: str) -> Any:
        from torch.distributed.fsdp import fully_shard
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

        model, blocks, x = MODELS[kind](device)
        size = dist.get_world_size()
        mesh = (
            mesh_of(device, (2, size // 2), ("data", "tensor")) if with_fsdp else mesh_of(device, (size,), ("tensor",))
        )
        first, second = ColwiseParallel, RowwiseParallel
        plan = (
            {"0": first(), "2": second()}
            if kind == "net"
            else {
                "self_attn.q_proj": first(), "self_attn.k_proj": first(), "self_attn.v_proj": first(),
                "self_attn.o_proj": second(), "mlp.gate_proj": first(), "mlp.up_proj": first(),
                "mlp.down_proj": second(),
            }
        )  # fmt: skip
        for block in blocks:
            parallelize_module(block, mesh["tensor"] if with_fsdp else mesh, plan)
            if with_fsdp:
                fully_shard(block, mesh=mesh["data"])
        if with_fsdp:
            fully_shard(model, mesh=mesh["data"])
        optimizer = torch.optim.AdamW(_groups(model), lr=1e-3, foreach=True)
        return model, x, optimizer

    return build, plain_step


def _groups(model: nn.Module) -> list[dict[str, Any]]:
    """Sharded and other parameters apart: one foreach call takes no mixture of them."""
    from torch.distributed.tensor import DTensor

    kinds: dict[bool, list[nn.Parameter]] = {True: [], False: []}
    for parameter in model.parameters():
        kinds[isinstance(parameter, DTensor)].append(parameter)
    return [{"params": found} for found in kinds.values() if found]


def pipeline(kind: str, microbatches: int = 4) -> tuple[Any, Any]:
    """1F1B, the blocks of a net spread over the ranks."""

    def build(device: str) -> Any:
        from torch.distributed.pipelining import PipelineStage, Schedule1F1B

        rank, size = dist.get_rank(), dist.get_world_size()
        model, blocks, x = MODELS[kind](device)
        each = len(blocks) // size
        part = nn.Sequential(*blocks[rank * each : (rank + 1) * each])
        del model, blocks
        stage = PipelineStage(part, rank, size, torch.device(device))
        schedule = Schedule1F1B(stage, microbatches, loss_fn=lambda out, target: (out - target).pow(2).mean())
        return schedule, x, adamw(part)

    def step(state: Any, at: At) -> None:
        schedule, x, optimizer = state
        rank, size = dist.get_rank(), dist.get_world_size()
        at("pipeline")
        if rank == 0:
            schedule.step(x)
        elif rank == size - 1:
            schedule.step(target=x)
        else:
            schedule.step()
        at("optimizer")
        optimizer.step()
        optimizer.zero_grad()

    return build, step


PROGRAMS: dict[str, Callable[[str], tuple[Any, Any]]] = {
    "ddp": ddp,
    "ddp-view": lambda kind: ddp(kind, gradient_as_bucket_view=True),
    "ddp-accumulated": ddp_accumulated,
    "ddp-fp16": ddp_compressed,
    "fsdp1": fsdp1,
    "fsdp1-mixed": fsdp1_mixed,
    "fsdp2": fsdp2,
    "fsdp2-mixed": fsdp2_mixed,
    "fsdp2-kept": lambda kind: fsdp2(kind, reshard_after_forward=False),
    "fsdp2-accumulated": lambda kind: fsdp2(kind, rounds=2),
    "fsdp2-checkpointed": lambda kind: fsdp2(kind, checkpointed=True),
    "fsdp2-offloaded": fsdp2_offloaded,
    "hsdp": lambda kind: fsdp2(kind, shape=(2, dist.get_world_size() // 2)),
    "tp": tensor_parallel,
    "tp-fsdp2": lambda kind: tensor_parallel(kind, with_fsdp=True),
    "pipeline": pipeline,
}


def program(name: str, device: str, at: At) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    """Build and step of `scheme/model`."""
    scheme, _, kind = name.partition("/")

    def build() -> Any:
        at("build")
        dist.init_process_group("nccl" if device == "cuda" else "gloo")
        if device == "cuda":
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        made, step = PROGRAMS[scheme](kind)
        return made(device), step

    def one(state: Any) -> None:
        state[1](state[0], at)

    return build, one


class Phases:
    """Names of phases, numbered where they come again."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def next(self, name: str) -> str:
        """The name with its number."""
        self.counts[name] += 1
        return f"{name}.{self.counts[name]}" if self.counts[name] > 1 else name


def traced(name: str, world_size: int, ranks: tuple[int, ...]) -> list[dict[str, int]]:
    """The peaks of each phase of each of those ranks, as requested, by tracing."""
    from capienza.allocator.replay import replay
    from capienza.trace import phase
    from capienza.trace.machine import Machine
    from capienza.trace.ranks.run import traces
    from capienza.trace.ranks.world import World

    phases, now = Phases(), contextlib.ExitStack()

    def at(name: str) -> None:
        now.close()
        if name == "build":
            phases.counts.clear()
        now.enter_context(phase(phases.next(name)))

    build, step = program(name, "cpu", at)
    worlds = [World(world_size, rank) for rank in ranks]
    options = {"steps": STEPS, "machine": Machine("cpu", (0, 0), 0), "device_type": "cpu"}
    peaks: list[dict[str, int]] = []
    for found in traces(build, step, worlds, **options):
        spans = replay(found.recording.events[0], phases=found.recording.phases).phases
        told: dict[str, int] = {}
        for span in spans:
            # Between two phases the one before comes back for a moment, under its name.
            if span.name.partition(".")[0] in NAMES:
                told.setdefault(span.name, span.requested_bytes)
        peaks.append(told)
    return peaks


def counter(folder: Path) -> Path:
    """The counting allocator, compiled. Raises `FileNotFoundError` without a compiler."""
    library, torch_folder = folder / "counting_allocator.so", Path(torch.__file__).parent
    if not library.exists():
        subprocess.run(
            [
                "g++", "-std=c++20", "-O1", "-fPIC", "-shared", f"-I{torch_folder / 'include'}",
                str(Path(__file__).with_name("counting_allocator.cpp")), "-o", str(library),
                f"-L{torch_folder / 'lib'}", "-lc10",
            ],
            check=True,
        )  # fmt: skip
    return library


def run(names: Sequence[str], world_size: int, library: Path) -> dict[str, list[dict[str, int]]]:
    """The peaks of each phase of every rank, by running the programs one after another."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    processes = [
        subprocess.Popen(
            [sys.executable, __file__, str(library), *names],
            env=os.environ
            | {
                "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "RANK": str(rank), "LOCAL_RANK": str(rank),
                "WORLD_SIZE": str(world_size), "LOCAL_WORLD_SIZE": str(world_size), "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port), "PYTHONWARNINGS": "ignore",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for rank in range(world_size)
    ]  # fmt: skip
    told: list[dict[str, dict[str, int]]] = []
    try:
        for process in processes:
            out, err = process.communicate(timeout=RUN_LIMIT_S)
            if process.returncode:
                raise RuntimeError(err.decode()[-2000:])
            told.append(json.loads(out.splitlines()[-1]))
    finally:
        for process in processes:
            process.kill()
    return {name: [of[name] for of in told] for name in names}


def _leave_out_gloo(count: ctypes.CDLL) -> None:
    """What gloo takes for itself inside a collective is not counted, and its threads have time to give back."""

    def outside(function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **named: Any) -> Any:
            count.leave_out(True)
            try:
                return function(*args, **named)
            finally:
                count.leave_out(False)

        return called

    def settled(wait: Callable[..., Any]) -> Callable[..., Any]:
        def waited(*args: Any) -> Any:
            answer = wait(*args)
            time.sleep(SETTLES_S)
            return answer

        return waited

    for name in COLLECTIVES:
        if hasattr(dist.ProcessGroup, name):
            setattr(dist.ProcessGroup, name, outside(getattr(dist.ProcessGroup, name)))
    dist._broadcast_coalesced = settled(dist._broadcast_coalesced)  # type: ignore[attr-defined]
    dist.Work.wait = settled(dist.Work.wait)  # type: ignore[method-assign]


def _play(name: str, count: ctypes.CDLL) -> dict[str, int]:
    """Run a program; its peaks over what was there before."""
    gc.collect()
    count.highest_since()
    before = count.highest_since()
    phases, peaks, current = Phases(), {}, [""]

    def at(name: str) -> None:
        if current[0]:
            peaks[current[0]] = count.highest_since() - before
        current[0] = phases.next(name)

    build, step = program(name, "cpu", at)
    state = build()
    for _ in range(STEPS):
        step(state)
    at("end")
    dist.destroy_process_group()
    return peaks


def main(library: str, *names: str) -> None:
    """One rank for real; the peaks of each program as JSON."""
    count = ctypes.CDLL(library)
    count.highest_since.restype = ctypes.c_size_t
    torch.set_num_threads(1)
    # The kernels of oneDNN take memory for themselves inside an operation.
    torch._C._set_mkldnn_enabled(False)
    _leave_out_gloo(count)
    count.count_from_here()
    found = {}
    for index, name in enumerate(names):
        found[name] = _play(name, count)
        os.environ["MASTER_PORT"] = str(int(os.environ["MASTER_PORT"]) + 1 + index)
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
