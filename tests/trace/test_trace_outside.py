"""What a traced program does with the world outside the card, and what it is told of the card: nothing is changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader, Dataset  # noqa: E402

from capienza.errors import InputError, UsageError  # noqa: E402
from capienza.trace import predict_peak  # noqa: E402
from capienza.trace.peak import Prediction  # noqa: E402

pytestmark = pytest.mark.oracle
WIDTH, MIB = 1024, 1 << 20
compiled_before = torch.compile(lambda rows: rows * 2, backend="eager")


def layer(device: str = "cuda") -> Any:
    return torch.nn.Linear(WIDTH, WIDTH).to(device)


def rows(count: int = 4) -> Any:
    return torch.randn(count, WIDTH, device="cuda")


def traced(
    step: Callable[[Any], object], build: Callable[[], Any] = layer, steps: int = 2, device: str = "L40S"
) -> Any:
    return predict_peak(build, step, steps=steps, device=device)


class Rows(Dataset):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return 8

    def __getitem__(self, place: int) -> tuple[Any, int]:
        return torch.randn(WIDTH), place


def test_a_checkpoint_that_is_there_stays_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "checkpoint.pt"
    torch.save({"epoch": 7}, file)
    before = file.read_bytes()
    found = traced(lambda model: torch.save(model.state_dict(), file))
    assert file.read_bytes() == before
    assert [one.code for one in found.assumed] == ["trace.not-saved"]


@pytest.mark.parametrize("fails", [False, True])
def test_a_model_made_before_the_trace_is_given_back(fails: bool) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.BatchNorm1d(WIDTH))
    before = {name: (id(one), one.clone()) for name, one in (*model.named_parameters(), *model.named_buffers())}

    def step(moved: Any) -> None:
        moved(rows()).sum().backward()
        if fails:
            raise ValueError

    if fails:
        with pytest.raises(InputError):
            traced(step, model.cuda)
    else:
        assert traced(step, model.cuda).gpus[0].requested_bytes > WIDTH * WIDTH * 4 * 2
    after = dict((*model.named_parameters(), *model.named_buffers()))
    assert {name: id(one) for name, one in after.items()} == {name: one for name, (one, _) in before.items()}
    assert all(torch.equal(after[name], value) for name, (_, value) in before.items())
    assert all(one.grad is None for one in model.parameters())


def test_an_optimizer_made_before_the_trace_is_refused() -> None:
    """It keeps the parameters that the model had, so its states would be missing."""
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.AdamW(model.parameters())

    def step(moved: Any) -> None:
        moved(torch.randn(2, 4, device="cuda")).sum().backward()
        optimizer.step()

    with pytest.raises(UsageError, match="made before the trace"):
        traced(step, model.cuda)


def test_what_was_compiled_before_the_trace_is_refused() -> None:
    with pytest.raises(UsageError, match=r"torch\.compile is not supported"):
        traced(lambda _model: compiled_before(rows()))


@pytest.mark.parametrize("steps", [0, -1])
def test_a_trace_has_steps(steps: int) -> None:
    with pytest.raises(UsageError, match=f"{steps} steps"):
        traced(lambda model: model, steps=steps)


@pytest.mark.parametrize(("workers", "pinned"), [(0, False), (0, True), (2, False), (2, True)])
def test_rows_of_worker_processes_are_read_in_this_one(workers: int, pinned: bool) -> None:
    loader = DataLoader(Rows(), 4, shuffle=True, num_workers=workers, pin_memory=pinned)
    seen: list[list[int]] = []

    def step(model: Any) -> None:
        for batch, places in loader:
            model(batch.to("cuda", non_blocking=True))
            seen.append(places.tolist())

    traced(step, steps=1)
    assert seen == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert loader.num_workers == workers


def test_values_become_arrays_known_or_zero() -> None:
    numpy = pytest.importorskip("numpy")
    seen: list[Any] = []

    def step(model: Any) -> None:
        out = model(rows(2)).detach()
        with pytest.raises(TypeError, match="cuda"):
            out.numpy()
        seen.extend([torch.arange(3).numpy(), numpy.asarray(out.cpu())])

    found = traced(step, steps=1)
    assert seen[0].tolist() == [0, 1, 2]
    assert seen[1].shape == (2, WIDTH)
    assert not seen[1].any()
    assert ("numpy", "0") in [(one.op, one.answer) for one in found.guesses]


# Each is what programs really do; none takes memory of the card.
TOLD: dict[str, Callable[[], object]] = {
    "a device": lambda: torch.cuda.device(0).__enter__(),
    "how many": lambda: torch.cuda.get_device_name(torch.cuda.device_count() - 1),
    "streams": lambda: torch.zeros(1, device="cuda").record_stream(torch.cuda.current_stream()),
    "a generator": lambda: torch.Generator(device="cuda").manual_seed(1),
    "states of chance": lambda: torch.cuda.set_rng_state(torch.cuda.get_rng_state()),
    "a share": lambda: torch.cuda.set_per_process_memory_fraction(0.5),
    "statistics": lambda: torch.cuda.memory_stats()["allocated_bytes.all.peak"],
    "a summary": lambda: torch.cuda.memory_summary(),
    "marks": lambda: torch.cuda.nvtx.range_push("step"),
    "pinned": lambda: torch.zeros(4).pin_memory(),
    "distinct": lambda: torch.zeros(4, device="cuda").unique(),
}


@pytest.mark.parametrize("name", TOLD)
def test_a_program_may_ask(name: str) -> None:
    traced(lambda _model: TOLD[name](), steps=1)
    assert not torch.cuda.is_available()
    assert torch.cuda.device_count() == 0
    assert isinstance(torch.default_generator, torch.Generator)


def test_memory_that_the_program_reads() -> None:
    """Of 4 MiB taken and given back the most remains, until it is reset."""
    seen: list[int] = []

    def step(_state: None) -> None:
        kept = torch.empty(MIB, dtype=torch.uint8, device="cuda")
        torch.empty(4 * MIB, dtype=torch.uint8, device="cuda")
        seen.extend([torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()])
        torch.cuda.reset_peak_memory_stats()
        seen.append(torch.cuda.max_memory_allocated("cuda:0"))
        del kept
        seen.extend([torch.cuda.memory_allocated(0), torch.cuda.max_memory_allocated(device=0)])

    traced(step, lambda: None, steps=1)
    assert seen == [MIB, 5 * MIB, MIB, 0, MIB]


@pytest.mark.parametrize("graph", [lambda: torch.cuda.CUDAGraph(), lambda: torch.cuda.graph(None)])
def test_graphs_are_refused(graph: Callable[[], object]) -> None:
    with pytest.raises(UsageError, match="CUDA graphs are not supported"):
        traced(lambda _model: graph())


@pytest.mark.parametrize(("kind", "gates"), [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
@pytest.mark.parametrize("packed", [False, True])
def test_recurrent_layers_are_one_call_of_cudnn(kind: str, gates: int, packed: bool) -> None:
    """Weights of one layer: gates x hidden x (inputs + hidden + two biases), and their gradients as many."""
    steps, inputs, hidden = 16, 256, 512
    weights = gates * hidden * (inputs + hidden + 2) * 4
    kept: list[Any] = []

    def step(model: Any) -> None:
        given: Any = torch.randn(2, steps, inputs, device="cuda")
        if packed:
            given = torch.nn.utils.rnn.pack_padded_sequence(given, torch.tensor([steps, 4]), batch_first=True)
        out, _ = model(given)
        if packed:
            out, lengths = torch.nn.utils.rnn.pad_packed_sequence(out, batch_first=True)
            assert lengths.tolist() == [steps, 4]
        assert tuple(out.shape) == (2, steps, hidden)
        out.sum().backward()
        kept.extend(one.grad for one in model.parameters())

    found: Prediction = traced(step, lambda: getattr(torch.nn, kind)(inputs, hidden, batch_first=True).cuda(), steps=1)
    assert all(one is not None for one in kept)
    assert 2 * weights <= found.gpus[0].requested_bytes < 2.2 * weights
    assert any("cuDNN recurrent" in str(one) for one in found.unknown)


def test_a_padded_encoder_in_evaluation() -> None:
    def step(model: Any) -> None:
        with torch.no_grad():
            padding = torch.zeros(2, 8, dtype=torch.bool, device="cuda")
            padding[:, 6:] = True
            model(torch.randn(2, 8, 64, device="cuda"), src_key_padding_mask=padding)

    def build() -> Any:
        encoder = torch.nn.TransformerEncoderLayer(64, 2, 128, batch_first=True)
        return torch.nn.TransformerEncoder(encoder, 1).cuda().eval()

    assert "trace.not-nested" in [one.code for one in traced(step, build).assumed]


def test_what_pytorch_logs_is_not_repeated(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError, match="the program stopped") as caught:
        traced(lambda model: model(torch.randn(2, 7, device="cuda")))
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert "Traceback" not in capfd.readouterr().err
