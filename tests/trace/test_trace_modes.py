"""What a program switches on: autocast, loss scaling, inference mode, devices, and what is refused."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as functions  # noqa: E402

from capienza.errors import UsageError  # noqa: E402
from capienza.trace import predict_peak  # noqa: E402
from capienza.trace.peak import Prediction  # noqa: E402

pytestmark = pytest.mark.oracle
WIDTH, ROWS = 128, 32
HALF, FLOAT = 2, 4
BLOCK = 512
BLAS = (4096 * 2 + 16 * 8) * 1024
"""What cuBLAS keeps for a thread from its first product on (kernels_blas); `memory_allocated` counts it too."""


def traced(step: Callable[[Any], object], build: Callable[[], Any] = lambda: None, steps: int = 1) -> Prediction:
    return predict_peak(build, step, steps=steps, device="A100 40GB SXM")


def cuda(*shape: int, dtype: Any = torch.float32) -> Any:
    return torch.randn(*shape, device="cuda", dtype=dtype, requires_grad=True)


def half(*shape: int) -> Any:
    return cuda(*shape, dtype=torch.bfloat16)


# The lists of torch's documentation, "CUDA ops that can autocast to ...".
CAST: dict[str, tuple[Callable[[], Any], Any]] = {
    "linear": (lambda: functions.linear(cuda(4, 8), cuda(8, 8)), torch.bfloat16),
    "matmul": (lambda: cuda(4, 8) @ cuda(8, 4), torch.bfloat16),
    "conv2d": (lambda: functions.conv2d(cuda(1, 3, 8, 8), cuda(4, 3, 3, 3)), torch.bfloat16),
    "attention": (
        lambda: functions.scaled_dot_product_attention(*(cuda(1, 2, 8, 16) for _ in range(3))), torch.bfloat16
    ),
    "layer norm": (lambda: functions.layer_norm(half(4, 8), (8,)), torch.float32),
    "softmax": (lambda: half(4, 8).softmax(-1), torch.float32),
    "log softmax": (lambda: half(4, 8).log_softmax(-1), torch.float32),
    "cross entropy": (lambda: functions.cross_entropy(half(4, 8), torch.zeros(4, device="cuda").long()), torch.float32),
    "mse": (lambda: functions.mse_loss(half(4), half(4)), torch.float32),
    "sum": (lambda: half(4, 8).sum(), torch.float32),
    "exp": (lambda: half(4).exp(), torch.float32),
    "pow": (lambda: half(4) ** 2, torch.float32),
    "rsqrt": (lambda: half(4).rsqrt(), torch.float32),
    "norm": (lambda: half(4).norm(), torch.float32),
    "gelu": (lambda: functions.gelu(half(4)), torch.bfloat16),
    "mean": (lambda: half(4).mean(), torch.bfloat16),
    "addcmul, the widest": (lambda: torch.addcmul(cuda(4), half(4), cuda(4)), torch.float32),
    "add": (lambda: half(4) + half(4), torch.bfloat16),
}  # fmt: skip


@pytest.mark.parametrize("name", CAST)
def test_autocast_casts_as_on_a_gpu(name: str) -> None:
    program, dtype = CAST[name]
    found = []

    def step(_state: object) -> None:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            found.append(program().dtype)

    traced(step)
    assert found == [dtype]


def test_casts_of_weights_are_kept_until_autocast_ends() -> None:
    casts = []

    def step(state: Any) -> None:
        weight, rows = state
        with torch.autocast("cuda", dtype=torch.bfloat16):
            for _ in range(2):
                functions.linear(rows, weight)
            casts.append(torch.cuda.memory_allocated())
        casts.append(torch.cuda.memory_allocated())

    def build() -> Any:
        return cuda(WIDTH, WIDTH), torch.randn(ROWS, WIDTH, device="cuda")

    traced(step, build)
    # One cast for both products; the results and the cast rows are gone.
    tensors = BLAS + (WIDTH + ROWS) * WIDTH * FLOAT
    assert casts == [tensors + WIDTH * WIDTH * HALF, tensors]


def scaled(state: Any) -> None:
    model, optimizer, scaler = state
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(torch.randn(ROWS, WIDTH, device="cuda")).square().mean()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()


def scaling() -> Any:
    model = torch.nn.Linear(WIDTH, WIDTH, bias=False, device="cuda")
    return model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), torch.amp.GradScaler("cuda")


def test_loss_scaling_takes_its_scale_and_its_counter_and_says_what_it_assumes() -> None:
    held = []

    def step(state: Any) -> None:
        scaled(state)
        held.append(torch.cuda.memory_allocated())

    found = traced(step, scaling, steps=2)
    # The weight, its momentum, the scale and the count of good steps in a block each; the backward pass is a thread
    # of its own.
    assert held == [2 * BLAS + 2 * WIDTH * WIDTH * FLOAT + 2 * BLOCK] * 2
    assert {(one.answer, one.count) for one in found.guesses} == {("0.0", 2)}
    assert any("foreach_non_finite" in str(op) for op in found.traced.op_names)


def test_inference_mode_does_what_no_grad_does() -> None:
    def program(mode: Callable[[], Any]) -> Prediction:
        def step(_state: object) -> None:
            with mode():
                rows = torch.randn(2, 16, 64, device="cuda", dtype=torch.bfloat16)
                heads = rows.view(2, 16, 4, 16).transpose(1, 2)
                out = functions.scaled_dot_product_attention(heads, heads, heads, is_causal=True)
                out = functions.linear(
                    out.transpose(1, 2).reshape(2, 16, 64), torch.randn(64, 64, device="cuda").bfloat16()
                )
                bool((torch.ones(3, device="cuda") == 1).all())
                functions.silu(torch.matmul(out, out.transpose(1, 2)))

        return traced(step)

    without, inference = program(torch.no_grad), program(torch.inference_mode)
    assert inference.traced.op_names == without.traced.op_names
    assert inference.traced.recording.events == without.traced.recording.events
    assert inference.kernels == without.kernels
    assert inference.guesses == ()


def test_a_model_goes_from_one_device_to_another() -> None:
    places = []

    def step(_state: object) -> None:
        with torch.device("meta"):
            model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8))
        weight = model[0].weight
        model = model.to_empty(device="cuda")
        places.append((model[0].weight is weight, weight.device.type, model[1].running_mean.device.type))
        model = model.cpu().to(torch.bfloat16).cuda()
        places.append((model[0].weight is weight, weight.device.type, weight.dtype))

    traced(step)
    assert places == [(True, "cuda", "cuda"), (True, "cuda", torch.bfloat16)]


def test_a_copy_in_depth_is_as_large_as_its_model() -> None:
    def build() -> Any:
        model = torch.nn.Linear(WIDTH, WIDTH, device="cuda")
        model.register_buffer("places", torch.arange(WIDTH, device="cuda"))
        copied = copy.deepcopy(model)
        assert isinstance(copied.weight, torch.nn.Parameter)
        assert copied.weight.requires_grad
        assert int(copied.places.max()) == WIDTH - 1
        held.append(torch.cuda.memory_allocated())
        return model, copied

    held: list[int] = []
    traced(lambda _state: None, build)
    assert held == [2 * (WIDTH * WIDTH + WIDTH) * FLOAT + 2 * WIDTH * 8]


@pytest.mark.parametrize(
    "program",
    [lambda: torch.compile(torch.nn.Linear(2, 2)), lambda: torch.nn.Linear(2, 2).compile()],
    ids=["torch.compile", "Module.compile"],
)
def test_what_would_be_compiled_is_refused(program: Callable[[], Any]) -> None:
    with pytest.raises(UsageError, match=r"torch\.compile is not supported"):
        traced(lambda _state: program())


@pytest.mark.filterwarnings("ignore")
def test_flex_attention_is_refused_by_name() -> None:
    def alone(_state: object) -> None:
        from torch.nn.attention.flex_attention import flex_attention

        flex_attention(*(cuda(1, 2, 128, 16) for _ in range(3)))

    def in_a_model(_state: object) -> None:
        transformers = pytest.importorskip("transformers")
        config = transformers.LlamaConfig(
            num_hidden_layers=1, hidden_size=64, intermediate_size=64, num_attention_heads=4, num_key_value_heads=4,
            vocab_size=100, attn_implementation="flex_attention",
        )  # fmt: skip
        with torch.device("cuda"):
            transformers.LlamaForCausalLM(config)(torch.zeros(1, 64, dtype=torch.int64))

    for program in (alone, in_a_model):
        with pytest.raises(UsageError, match="flex_attention is not supported"):
            traced(program)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_an_rms_norm_keeps_its_input_and_one_factor_a_row(dtype: str) -> None:
    held, kind = [], getattr(torch, dtype)

    def step(_state: object) -> None:
        norm = torch.nn.RMSNorm(WIDTH, device="cuda", dtype=kind)
        rows = cuda(4, ROWS, WIDTH, dtype=kind)
        before = torch.cuda.memory_allocated()
        out = norm(rows)
        held.append(torch.cuda.memory_allocated() - before)
        out.backward(torch.ones_like(out))
        assert rows.grad.shape == rows.shape
        assert norm.weight.grad.shape == (WIDTH,)

    found = traced(step)
    assert held == [4 * ROWS * WIDTH * kind.itemsize + 4 * ROWS * FLOAT]
    names = [name for name in found.traced.op_names if "rms" in name]
    assert names == ["aten._fused_rms_norm.default", "aten._fused_rms_norm_backward.default"]


@pytest.mark.filterwarnings("ignore")
def test_an_rms_norm_whose_weight_is_of_another_type_is_taken_apart() -> None:
    def step(_state: object) -> None:
        functions.rms_norm(cuda(ROWS, WIDTH, dtype=torch.bfloat16), (WIDTH,), cuda(WIDTH))
        with torch.inference_mode():
            functions.rms_norm(cuda(ROWS, WIDTH), (WIDTH,), cuda(WIDTH))

    names = traced(step).traced.op_names
    assert [name for name in names if "rms" in name] == ["aten._fused_rms_norm.default"]
    assert "aten.rsqrt.default" in names
