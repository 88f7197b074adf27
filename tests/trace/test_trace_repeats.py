"""Results made from what an operation did before are those that `FakeTensorMode` makes: it is the oracle."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as functions  # noqa: E402
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from capienza.allocator.events import FREE  # noqa: E402
from capienza.trace import predict_peak  # noqa: E402
from capienza.trace.repeats import Repeats  # noqa: E402
from capienza.trace.run import Traced  # noqa: E402

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]


def traced(build: Callable[[], Any], step: Callable[[Any], object], steps: int = 2) -> Traced:
    return predict_peak(build, step, steps=steps, device="A100 40GB SXM").traced


def each_anew(self: Repeats, func: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    return func(*args, **named)


def told(found: Traced) -> tuple[Any, ...]:
    recording = found.recording
    return found.op_names, found.op_ends, settled(recording.events[0]), recording.ops, recording.modules, found.guesses


def settled(events: list[tuple[int, ...]]) -> list[list[tuple[int, ...]]]:
    """Runs of what comes into being and of what dies; autocast drops its casts in the order of their addresses."""
    runs = [list(run) for _, run in itertools.groupby(events, key=lambda event: event[0])]
    return [sorted(run) if run[0][0] == FREE else run for run in runs]


def training(layers: Callable[[], Any], rows: Callable[[], Any]) -> Traced:
    def build() -> Any:
        with torch.device("cuda"):
            model = layers().train()
        return model, torch.optim.AdamW(model.parameters())

    def step(state: Any) -> None:
        model, optimizer = state
        with torch.autocast("cuda", dtype=torch.bfloat16):
            out = model(rows())
        out = out[0] if isinstance(out, tuple) else out
        out.float().square().mean().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return traced(build, step)


class Odd(torch.nn.Module):
    """Views of views, results in lists, indexing, in-place writes, chance."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Parameter(torch.ones(16, 8))
        self.register_buffer("seen", torch.zeros(8))

    def forward(self, rows: Any) -> Any:
        first, second = rows.chunk(2, -1)
        pieces = [piece.squeeze(0) for piece in first.transpose(0, 1)[:, 1:].split(1)]
        values, places = torch.stack(pieces).topk(2, -1)
        rows = self.table[places.flatten() % 16].view(-1, 8).T.contiguous().T + self.seen
        rows = functions.dropout(rows.clone().mul_(2).add_(1), 0.5, training=True)
        self.seen.add_(rows.detach().mean(0))
        weights = torch.where(rows > 0, rows, rows.new_zeros(())).unfold(1, 4, 2).cumsum(-1)
        return torch.cat([weights.flatten(), values.flatten(), second.flatten(), rows.expand(3, -1, -1).flatten()])


PROGRAMS = {
    "convolutions": lambda: training(
        lambda: torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(inplace=True),
            torch.nn.MaxPool2d(2), torch.nn.GroupNorm(2, 8), torch.nn.Dropout(0.1), torch.nn.Flatten(),
            torch.nn.Linear(512, 10),
        ),
        lambda: torch.randn(2, 3, 16, 16, device="cuda"),
    ),
    "a transformer": lambda: training(
        lambda: torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 2),
        lambda: torch.randn(2, 16, 32, device="cuda"),
    ),
    "views, lists, places": lambda: training(Odd, lambda: torch.randn(6, 4, 16, device="cuda", requires_grad=True)),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_does_the_same_with_and_without(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = told(PROGRAMS[name]())
    monkeypatch.setattr(Repeats, "run", each_anew)
    assert told(PROGRAMS[name]()) == found


TYPES = ("llama", "gpt2", "qwen3_moe", "mamba", "gemma3_text", "deepseek_v3", "falcon", "jamba", "mixtral", "bloom")


@pytest.mark.slow
@pytest.mark.parametrize("model_type", TYPES)
def test_a_language_model_does_the_same_with_and_without(model_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    from truth.programs import generation, program

    for made in (program(model_type, device="cuda"), generation(model_type, new_tokens=3, device="cuda")):
        found = told(traced(*made))
        with monkeypatch.context() as patch:
            patch.setattr(Repeats, "run", each_anew)
            assert told(traced(*made)) == found


OPERATIONS: tuple[Callable[[Any], Any], ...] = (
    lambda rows: rows + 1,
    lambda rows: rows + 1.0,
    lambda rows: rows.double(),
    lambda rows: rows > 0,
    lambda rows: rows.transpose(0, -1),
    lambda rows: rows[1:],
    lambda rows: rows.flatten(),
    lambda rows: rows.sum(0, keepdim=True),
    lambda rows: rows.expand(2, *rows.shape),
    lambda rows: rows.unbind(0)[0],
    lambda rows: rows.to("cpu"),
    lambda rows: rows.clone().zero_(),
    lambda rows: rows.new_empty(3, 2),
    lambda rows: torch.cat([rows, rows]),
    lambda rows: rows.contiguous(),
    lambda rows: rows.half() if rows.is_floating_point() else rows.float(),
)


@settings(max_examples=25)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=3), st.lists(st.sampled_from(range(len(OPERATIONS))), max_size=6)
)
def test_a_chain_of_operations_gives_tensors_of_the_same_look(shape: list[int], chain: list[int]) -> None:
    """Every chain is run twice in one trace: the second time from what was kept, with the first as its oracle."""
    looks: list[list[tuple[Any, ...]]] = []

    def step(_state: object) -> None:
        rows = torch.zeros(2, *shape, device="cuda")
        look = []
        for place in chain:
            if rows.dim() and rows.shape[0] > 1:
                rows = OPERATIONS[place](rows)
            storage = rows.untyped_storage()
            look.append((rows.shape, rows.stride(), rows.storage_offset(), rows.dtype, rows.device, storage.nbytes()))
        looks.append(look)

    traced(lambda: torch.empty(1, device="cuda"), step)
    assert looks[0] == looks[1]
