"""One rank traced alone: sums by hand, what must hold for every rank, and programs that do all sorts of things."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capienza.errors import CapienzaError, InputError, UsageError

torch = pytest.importorskip("torch")
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed import all_reduce, init_process_group  # noqa: E402

from capienza.allocator.events import ALLOC  # noqa: E402
from capienza.trace import predict_peak  # noqa: E402
from capienza.trace.peak import Prediction  # noqa: E402
from capienza.trace.ranks.world import World, worlds_of  # noqa: E402

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
import rank_programs  # noqa: E402

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]
WIDTH, FLOAT = 256, 4
MATRIX = WIDTH * WIDTH * FLOAT


def started(width: int = WIDTH) -> nn.Module:
    """What most programs begin with."""
    init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    return nn.Linear(width, width, bias=False, device="cuda")


def row(width: int = WIDTH) -> torch.Tensor:
    return torch.ones(1, width, device="cuda")


def traced(build, step, **told) -> Prediction:
    return predict_peak(build, step, **({"device": "H100 SXM", "world_size": 2, "rank": 1} | told))


def sharded(world_size: int, ranks: tuple[int, ...], width: int = WIDTH, count: int = 2) -> Prediction:
    """FSDP2 on every layer, AdamW."""

    def build():
        from torch.distributed.fsdp import fully_shard

        started()
        with torch.device("cuda"):
            model = nn.Sequential(*(nn.Linear(width, width, bias=False) for _ in range(count)))
        for layer in model:
            fully_shard(layer)
        fully_shard(model)
        return model, torch.optim.AdamW(model.parameters())

    def step(state) -> None:
        model, optimizer = state
        model(row(width)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    return traced(build, step, world_size=world_size, rank=None, ranks=ranks)


def amounts(found: Prediction, phase: str, gpu: str) -> dict[str, int]:
    return {
        entry.name: entry.amount.expected
        for entry in found.ledger.on(gpu)
        if entry.amount is not None and entry.phases[0] == phase
    }


# Sums by hand


def test_each_rank_holds_its_share_of_weights_gradients_and_states() -> None:
    found = sharded(4, (0, 3))
    assert found.ledger.gpus == ("gpu:0", "gpu:3")
    share = 2 * MATRIX // 4
    for gpu in found.ledger.gpus:
        steady = amounts(found, "optimizer_step_steady", gpu)
        assert steady["weights"] == share
        assert steady["gradients"] == share
        assert steady["optimizer_states"] == 2 * share
        forward = amounts(found, "forward", gpu)
        assert forward["unsharded_weights"] >= MATRIX


def test_the_replica_of_ddp_holds_everything_and_its_buckets() -> None:
    def build():
        model = nn.parallel.DistributedDataParallel(started(), device_ids=[1])
        return model, torch.optim.AdamW(model.parameters())

    def step(state) -> None:
        model, optimizer = state
        model(row()).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    steady = amounts(traced(build, step), "optimizer_step_steady", "gpu:1")
    assert {name: steady[name] for name in ("weights", "gradients", "communication_buffers")} == dict.fromkeys(
        ("weights", "gradients", "communication_buffers"), MATRIX
    )


def test_a_block_of_a_side_stream_serves_no_other_stream() -> None:
    size = 30 << 20

    def build():
        return started()

    def step(_model) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            torch.empty(size, dtype=torch.uint8, device="cuda")
        torch.empty(size, dtype=torch.uint8, device="cuda")

    def step_in_one(_model) -> None:
        for _ in range(2):
            torch.empty(size, dtype=torch.uint8, device="cuda")

    apart, together = traced(build, step, steps=1), traced(build, step_in_one, steps=1)
    assert apart.reserved_bytes - together.reserved_bytes == size
    assert apart.allocated_bytes == together.allocated_bytes


def test_the_streams_of_fsdp2_are_followed() -> None:
    (found,) = sharded(2, (1,)).ranks
    assert len({stream for code, _, _, stream in found.traced.recording.events[1] if code == ALLOC}) == 3


# What must hold


@given(world_size=st.integers(1, 9), width=st.integers(1, 40))
@settings(max_examples=5, deadline=None)
def test_shares_cover_the_weights_and_no_rank_has_more_than_the_first(world_size: int, width: int) -> None:
    found = sharded(world_size, (0, world_size - 1) if world_size > 1 else (0,), width, count=1)
    shares = [amounts(found, "optimizer_step_steady", gpu).get("weights", 0) for gpu in found.ledger.gpus]
    rows = -(-width // world_size)
    assert shares[0] == rows * width * FLOAT
    assert shares[-1] <= shares[0]
    assert shares[0] * world_size >= width * width * FLOAT


def test_nothing_is_left_behind() -> None:
    before = dict(os.environ), dist.init_process_group, torch.cuda.Stream, torch._C._get_accelerator()
    found = sharded(2, (1,))
    assert (dict(os.environ), dist.init_process_group, torch.cuda.Stream, torch._C._get_accelerator()) == before
    assert dist.all_reduce is all_reduce
    assert dist.init_process_group is init_process_group
    assert not dist.is_initialized()
    assert found.gpus[0].gpu == "gpu:1"


def test_what_the_library_holds_is_unknown_and_not_zero() -> None:
    found = sharded(2, (0,))
    assert "communication_library" in found.ledger.predicted_peak("gpu:0").missing
    assert [message.code for message in found.unknown] == ["trace.communication-unseen"]


def test_frees_that_wait_for_a_stream_are_unknown() -> None:
    def step(_model) -> None:
        row().record_stream(torch.cuda.Stream())

    found = traced(started, step)
    assert "deferred_frees" in found.ledger.predicted_peak("gpu:1").missing


# Which rank


@pytest.mark.parametrize(
    ("told", "code"),
    [
        ({"world_size": None, "rank": 0}, "trace.rank-alone"),
        ({"world_size": None, "ranks": (0,)}, "trace.rank-alone"),
        ({"world_size": 0}, "trace.no-world"),
        ({"world_size": True}, "trace.no-world"),
        ({"world_size": 10**9}, "trace.no-world"),
        ({"world_size": 2, "rank": 2}, "trace.no-rank"),
        ({"world_size": 2, "rank": -1}, "trace.no-rank"),
        ({"world_size": 2, "ranks": ()}, "trace.no-rank"),
        ({"world_size": 2, "ranks": (0, 0)}, "trace.rank-twice"),
        ({"world_size": 2, "rank": 0, "ranks": (1,)}, "trace.rank-twice"),
    ],
)
def test_a_rank_that_is_not_there_is_refused(told, code: str) -> None:
    with pytest.raises(UsageError) as refused:
        worlds_of(**({"rank": None, "ranks": None} | told))
    assert refused.value.message.code == code


@pytest.mark.parametrize(
    ("world", "local", "on_node"), [((17, 9), "1", "8"), ((17, 16), "0", "1"), ((4, 3), "3", "4"), ((1, 0), "0", "1")]
)
def test_the_environment_is_that_of_a_node_of_eight(world, local: str, on_node: str) -> None:
    told = World(*world).environment()
    assert (told["LOCAL_RANK"], told["LOCAL_WORLD_SIZE"]) == (local, on_node)


# Programs


def exchanging(_model) -> None:
    other = 1 - dist.get_rank()
    dist.all_to_all_single(torch.empty(8, device="cuda"), torch.ones(8, device="cuda"))
    dist.all_to_all([row(), row()], [row(), row()])
    for work in (dist.isend(row(), other), dist.irecv(row(), other)):
        work.wait()
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, row(), other), dist.P2POp(dist.irecv, row(), other)]):
        work.wait()
    dist.send(row(), other)
    assert dist.recv(row(), other) == other
    assert dist.recv(row()) == other
    gathered = [row(), row()]
    dist.all_gather(gathered, row())
    dist.reduce_scatter(row(), gathered)
    dist.gather(row(), gathered if dist.get_rank() == 0 else None)
    assert dist.all_reduce(row(), async_op=True).get_future().then(lambda done: done.value()[0]).wait().shape == (
        1,
        WIDTH,
    )


def asking(_model) -> None:
    dist.barrier()
    dist.monitored_barrier()
    found = [None, None]
    dist.all_gather_object(found, {"rank": dist.get_rank()})
    assert all(found)
    dist.broadcast_object_list([dist.get_rank()], src=0)
    dist.gather_object(1, [None, None] if dist.get_rank() == 0 else None, dst=0)
    assert dist.is_nccl_available()
    assert dist.get_backend() == "nccl"
    assert torch.cuda.current_device() == dist.get_rank() == row().device.index == row().cpu().to("cuda").device.index


@pytest.mark.parametrize("step", [exchanging, asking])
def test_a_program_may_exchange_and_ask(step) -> None:
    assert traced(started, step).gpus[0].gpu == "gpu:1"


def scattering(_model) -> None:
    found = [None]
    dist.scatter_object_list(found, [10, 11] if dist.get_rank() == 0 else None, src=0)
    assert found[0] == 10 + dist.get_rank()


def test_objects_come_from_the_ranks_that_were_traced_before() -> None:
    assert len(traced(started, scattering, rank=None, ranks=(0, 1)).ranks) == 2
    with pytest.raises(UsageError) as refused:
        traced(started, scattering)
    assert refused.value.message.code == "trace.not-sent"


def again():
    model = started()
    dist.destroy_process_group()
    init_process_group("nccl")
    return model


def destroyed():
    model = started()
    dist.destroy_process_group()
    return model


def twice():
    init_process_group("nccl")
    init_process_group("nccl")


def elsewhere():
    init_process_group("nccl", init_method="tcp://10.0.0.1:1", rank=0, world_size=4)


@pytest.mark.parametrize(
    ("build", "step", "code", "words"),
    [
        (destroyed, lambda _model: dist.get_rank(), "trace.on-rank", "Default process group has not been initialized"),
        (twice, lambda _model: None, "trace.on-rank", "twice"),
        (elsewhere, lambda _model: None, "trace.other-world", "rank 0 of 4"),
        (started, lambda _model: {}["mine"], "trace.on-rank", "KeyError"),
    ],
)
def test_a_program_that_would_fail_fails_by_name(build, step, code: str, words: str) -> None:
    with pytest.raises(CapienzaError) as refused:
        traced(build, step)
    assert refused.value.message.code == code
    assert words in str(refused.value)
    assert not dist.is_initialized()


def test_a_program_may_make_the_group_again() -> None:
    assert traced(again, lambda _model: dist.barrier()).gpus[0].gpu == "gpu:1"


def test_ranks_are_not_traced_beside_a_real_group() -> None:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        with pytest.raises(UsageError) as refused:
            traced(started, lambda _model: None)
    finally:
        dist.destroy_process_group()
    assert refused.value.message.code == "trace.group-there"


def test_a_rank_on_the_gpu_of_another_is_told() -> None:
    def everywhere():
        model = started()
        model.stray = torch.ones(1000, device="cuda:0")
        return model

    def nowhere():
        init_process_group("nccl")
        return nn.Linear(WIDTH, WIDTH, device="cuda")

    assert [message.code for message in traced(everywhere, lambda _model: None).warnings] == ["trace.rank-elsewhere"]
    assert [message.code for message in traced(nowhere, lambda _model: None).warnings] == ["trace.rank-not-chosen"]


def of_another_backend():
    model = started()
    model.group = dist.new_group([0, 1], None, "gloo")
    return model


def made_on_meta():
    from torch.distributed.fsdp import fully_shard

    started()
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH))
    fully_shard(model).to_empty(device="cuda")
    for layer in model:
        layer.reset_parameters()
    return model


def normalised():
    started()
    model = nn.Sequential(nn.Unflatten(1, (4, 8, 8)), nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4), nn.Flatten())
    return nn.SyncBatchNorm.convert_sync_batchnorm(model).to("cuda")


@pytest.mark.parametrize(
    ("build", "step"),
    [
        (of_another_backend, lambda model: dist.all_reduce(torch.ones(3), group=model.group)),
        (made_on_meta, lambda model: model(row()).sum().backward()),
        (normalised, lambda model: model(row()).sum().backward()),
    ],
)
def test_what_programs_of_many_ranks_do_besides(build, step) -> None:
    assert traced(build, step).gpus[0].gpu == "gpu:1"


def test_accelerate_finds_its_gpu() -> None:
    accelerate = pytest.importorskip("accelerate")

    def build():
        accelerator = accelerate.Accelerator()
        model = nn.Linear(WIDTH, WIDTH)
        return accelerator, *accelerator.prepare(model, torch.optim.AdamW(model.parameters()))

    def step(state) -> None:
        accelerator, model, optimizer = state
        accelerator.backward(model(row()).sum())
        optimizer.step()

    found = traced(build, step, rank=None, ranks=(0, 1))
    for gpu in ("gpu:0", "gpu:1"):
        assert amounts(found, "optimizer_step_steady", gpu)["communication_buffers"] == MATRIX + WIDTH * FLOAT
    assert not accelerate.PartialState._shared_state


@pytest.mark.parametrize("options", [{"find_unused_parameters": True}, {"static_graph": True}])
def test_ddp_may_look_for_unused_parameters(options) -> None:
    def build():
        return nn.parallel.DistributedDataParallel(started(), device_ids=[1], **options)

    found = traced(build, lambda model: model(row()).sum().backward())
    assert found.gpus[0].gpu == "gpu:1"


@pytest.mark.parametrize(
    "name",
    ["ddp-fp16/net", "fsdp1/net", "fsdp2-mixed/net", "fsdp2-offloaded/net", "hsdp/net", "tp-fsdp2/net", "pipeline/net"],
)
def test_every_scheme_runs_on_cuda(name: str) -> None:
    build, step = rank_programs.program(name, "cuda", lambda _phase: None)
    ranks = (0, 1) if name.startswith("pipeline") else (3,)
    found = traced(build, step, world_size=4, rank=None, ranks=ranks)
    assert [gpu.gpu for gpu in found.gpus] == [f"gpu:{rank}" for rank in ranks]
    assert all(gpu.reserved_bytes >= gpu.allocated_bytes > 0 for gpu in found.gpus)


def test_a_stage_that_waits_for_shapes_says_what_to_trace() -> None:
    build, step = rank_programs.program("pipeline/net", "cuda", lambda _phase: None)
    with pytest.raises(UsageError) as refused:
        traced(build, step, rank=1)
    assert refused.value.message.code == "trace.not-sent"


def test_the_backward_pass_of_silu_is_one_kernel() -> None:
    def build():
        return nn.Linear(8, 8, device="cuda")

    found = predict_peak(build, lambda model: nn.functional.silu(model(row(8))).sum().backward(), device="H100 SXM")
    assert found.traced.op_names.count("aten.silu_backward.default") == 2
    assert "aten.sigmoid.default" not in found.traced.op_names


def test_an_input_error_names_the_rank() -> None:
    with pytest.raises(InputError, match="on rank 1"):
        traced(started, lambda _model: 1 / 0)
