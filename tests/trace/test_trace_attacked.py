"""What people do to a trace that nobody meant: bad arguments, programs that misbehave, Ctrl-C, files of weights."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.utils._python_dispatch import _get_current_dispatch_mode_stack  # noqa: E402

from capienza.errors import CapienzaError, InputError, UsageError  # noqa: E402
from capienza.ledger.phase import Phase  # noqa: E402
from capienza.trace import phase, predict_peak  # noqa: E402

pytestmark = pytest.mark.oracle
WIDTH = 64
WEIGHTS_BYTES = WIDTH * WIDTH * 4 + 512
"""The bias takes a whole granule of the allocator."""


@pytest.fixture(autouse=True)
def _interrupts() -> Iterator[None]:
    """A shell that starts the tests in the background has them ignore interrupts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def build() -> Any:
    model = torch.nn.Linear(WIDTH, WIDTH).to("cuda")
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


def step(state: Any) -> None:
    model, optimizer = state
    model(torch.randn(8, WIDTH, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()


def traced(program: Callable[[Any], object] = step, make: Callable[[], Any] = build, **options: Any) -> Any:
    return predict_peak(make, program, device=options.pop("device", "L40S"), **options)


def assert_as_before() -> None:
    assert not torch.cuda.is_available()
    assert not _get_current_dispatch_mode_stack()
    assert type(torch.empty(2)) is torch.Tensor
    layer = torch.nn.Linear(2, 2)
    layer(torch.ones(1, 2)).sum().backward()
    assert type(layer.weight.grad) is torch.Tensor
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(
    "options",
    [
        {"device": None},
        {"device": 5},
        {"steps": "2"},
        {"steps": None},
        {"steps": 1.5},
        {"steps": True},
        {"steps": -1},
        {"steps": 0},
        {"settings": None},
        {"settings": "nonsense:1"},
        {"routing": "wrost"},
        {"most_ops": -1},
        {"most_seconds": -1},
        {"most_seconds": "9"},
    ],
)
def test_an_argument_of_another_kind_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        traced(**options)


def test_settings_are_written_as_in_the_environment() -> None:
    assert traced(settings="roundup_power2_divisions:4").allocated_bytes >= traced().allocated_bytes
    assert traced(settings="per_process_memory_fraction:0.5").reserved_bytes == traced().reserved_bytes


def test_a_prediction_is_shown_by_its_figures() -> None:
    found = traced()
    assert len(repr(found)) < 200
    assert str(found.reserved_bytes) in repr(found)


def generated(_state: Any) -> Generator[int, None, None]:
    yield 1


async def awaited(_state: Any) -> None:
    step(_state)


@pytest.mark.parametrize("program", [generated, awaited])
def test_a_step_that_only_begins_is_refused(program: Callable[[Any], object]) -> None:
    with pytest.raises(UsageError, match="nothing of it was run"):
        traced(program)


class DumbError(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize("error", [SystemExit(0), SystemExit(3), DumbError(), KeyError(), RuntimeError("two\nlines")])
def test_a_program_that_ends_is_told_so(error: BaseException) -> None:
    def program(_state: Any) -> None:
        raise error

    with pytest.raises(InputError, match=type(error).__name__):
        traced(program)
    assert_as_before()


@pytest.mark.parametrize("name", ["", " ", None, 5])
def test_a_phase_has_a_name(name: Any) -> None:
    with pytest.raises(UsageError, match="no name of a phase"), phase(name):
        pass


def test_phases_of_a_programs_own_are_not_added_up_in_the_ledger() -> None:
    def program(state: Any) -> None:
        for name, size in (("warm up", 1 << 20), ("measure", 1 << 22), ("cool down", 1 << 21)):
            with phase(name):
                torch.empty(size, device="cuda")
        step(state)

    found = traced(program)
    assert found.ledger.peak(Phase.UNKNOWN, "gpu:0").amount.expected <= found.reserved_bytes
    assert found.ledger.predicted_peak("gpu:0").amount.expected == found.reserved_bytes
    names = [one.phase for one in found.gpus[0].phases]
    assert {"warm up", "measure", "cool down"} <= set(names)


def test_the_next_rows_are_inputs_and_not_the_optimizers() -> None:
    found = traced(steps=3)
    rows = 8 * WIDTH * 4
    forward = {entry.name: entry.amount.expected for entry in found.ledger.entries if entry.phases == (Phase.FORWARD,)}
    assert forward["inputs"] >= rows
    assert "optimizer_transient" not in forward


def test_an_interrupt_leaves_everything_as_it_was() -> None:
    def program(state: Any) -> None:
        while True:
            step(state)

    def interrupted(clock: threading.Timer) -> None:
        clock.start()
        traced(program, most_seconds=60)

    chance = random.Random(6)
    for _ in range(6):
        waits_s = chance.random() * 0.2
        clock = threading.Timer(waits_s, os.kill, (os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            interrupted(clock)
        clock.join()
        assert_as_before()


def test_an_interrupt_inside_a_note_of_a_death_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    from capienza.trace.recording import Recording

    def interrupted(_recording: Recording, _block: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Recording, "free", interrupted)
    with pytest.raises(KeyboardInterrupt):
        traced()


def test_what_the_program_sets_ends_with_it() -> None:
    def program(state: Any) -> None:
        step(state)
        torch.set_default_device("cuda")
        torch.set_default_dtype(torch.float16)
        torch.set_grad_enabled(False)
        torch.use_deterministic_algorithms(True)
        torch.manual_seed(7)

    torch.manual_seed(1)
    number = torch.rand(1)
    torch.manual_seed(1)
    traced(program, steps=1)
    assert torch.get_default_dtype() is torch.float32
    assert torch.is_grad_enabled()
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.equal(torch.rand(1), number)
    assert torch.empty(1).device.type == "cpu"


def test_a_loss_is_printed_as_a_number() -> None:
    told = []

    def program(state: Any) -> None:
        rows = state[0](torch.randn(8, WIDTH, device="cuda"))
        told.append(f"{rows.sum():.3f} {rows.argmax():d}")

    traced(program, steps=1)
    assert told == ["0.000 0"]


def test_addresses_tell_which_tensors_share_memory() -> None:
    def program(_state: Any) -> None:
        one, other = torch.ones(8, device="cuda"), torch.ones(8, device="cuda")
        assert one.data_ptr() == one[:4].data_ptr() == one.view(2, 4).untyped_storage().data_ptr()
        assert one[2:].data_ptr() - one.data_ptr() == 2 * 4
        assert one.data_ptr() != other.data_ptr()
        assert torch.empty(0, device="cuda").data_ptr() == 0

    traced(program)


@pytest.mark.parametrize("device", ["cpu", "cuda", "cuda:0", 0])
def test_files_of_safetensors_are_read(tmp_path: Path, device: str | int) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    file = tmp_path / "weights.safetensors"
    safetensors.save_file(torch.nn.Linear(WIDTH, WIDTH).state_dict(), file)
    taken = []

    def make() -> Any:
        weights = safetensors.load_file(file, device=device)
        taken.append(torch.cuda.memory_allocated())
        model = torch.nn.Linear(WIDTH, WIDTH).to("cuda")
        model.load_state_dict(weights)
        return model, torch.optim.SGD(model.parameters(), lr=0.1)

    traced(make=make)
    assert taken == [0 if device == "cpu" else WEIGHTS_BYTES]
    assert safetensors.load_file(file)["weight"].shape == (WIDTH, WIDTH)


@pytest.mark.parametrize("device_map", [None, "cuda", "auto"])
def test_a_model_of_transformers_is_loaded(tmp_path: Path, device_map: str | None) -> None:
    transformers = pytest.importorskip("transformers")
    shape = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(vocab_size=1000, **shape))
    model.save_pretrained(tmp_path)
    parameters = sum(one.numel() for one in model.parameters())

    def make() -> Any:
        found = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.bfloat16, device_map=device_map)
        return found.to("cuda") if device_map is None else found

    found = traced(lambda model: model(input_ids=torch.zeros(1, 8, dtype=torch.int64, device="cuda")), make)
    weights = [one for one in found.ledger.entries if one.name == "weights" and one.phases == (Phase.FORWARD,)]
    assert [one.amount.expected for one in weights] == [parameters * 2]


def test_nothing_is_saved_and_what_was_not_is_not_loaded(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.torch")

    def save(state: Any) -> None:
        safetensors.save_file(state[0].state_dict(), tmp_path / "weights.safetensors")
        torch.save(state[0].state_dict(), tmp_path / "weights.pt")

    found = traced(save)
    assert {str(one).split()[0] for one in found.assumed} == {"torch.save", "safetensors.torch.save_file"}
    assert not list(tmp_path.iterdir())

    def again(state: Any) -> None:
        save(state)
        torch.load(tmp_path / "weights.pt")

    with pytest.raises(UsageError, match="nothing was written"):
        traced(again)

    def again_from_safetensors(state: Any) -> None:
        save(state)
        safetensors.load_file(tmp_path / "weights.safetensors")

    with pytest.raises(UsageError, match="nothing was written"):
        traced(again_from_safetensors)


def test_a_recording_of_the_programs_own_is_left_out(tmp_path: Path) -> None:
    def program(state: Any) -> None:
        torch.cuda.memory._record_memory_history()
        step(state)
        torch.cuda.memory._dump_snapshot(str(tmp_path / "run.pickle"))

    found = traced(program)
    assert [one.code for one in found.assumed] == ["trace.not-recorded"]
    assert found.allocated_bytes == traced().allocated_bytes
    with pytest.raises(UsageError, match="pools"):
        traced(lambda _state: torch.cuda.MemPool())


def test_an_operation_without_a_fake_kernel_is_named() -> None:
    library = torch.library.Library("capienza_attacked", "DEF")
    library.define("twice(Tensor rows) -> Tensor")
    library.impl("twice", lambda rows: rows + rows, "CUDA")
    with pytest.raises(CapienzaError, match=r"capienza_attacked.twice.default.*no fake kernel"):
        traced(lambda _state: torch.ops.capienza_attacked.twice(torch.ones(2, device="cuda")))
