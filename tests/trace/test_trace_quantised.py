"""bitsandbytes on fake tensors, against sums worked out by hand and against bitsandbytes itself on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
bnb = pytest.importorskip("bitsandbytes")
peft = pytest.importorskip("peft")
transformers = pytest.importorskip("transformers")
from torch._subclasses.fake_tensor import FakeTensor  # noqa: E402

from capienza.trace import phase, predict_peak  # noqa: E402
from capienza.trace.peak import Prediction  # noqa: E402
from capienza.trace.quantised import parts, quantise_linears  # noqa: E402

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]
CARD = "H100 SXM"
WIDTH, ROWS = 256, 64


@pytest.fixture(autouse=True)
def without_workspaces(monkeypatch: pytest.MonkeyPatch) -> None:
    """The workspaces of cuBLAS are larger than everything here."""
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":0:0")


def traced(build: Callable[[], Any], step: Callable[[Any], object] = lambda _state: None, **options: Any) -> Prediction:
    return predict_peak(build, step, steps=options.pop("steps", 1), device=CARD, **options)


def requested(found: Prediction) -> dict[str, int]:
    return {one.phase: one.requested_bytes for one in found.gpus[0].phases}


def stored(modules: Iterable[Any]) -> int:
    """Bytes of all storages of weights, biases, buffers and what goes with quantised weights."""
    sizes = {}
    for module in modules:
        for tensor in (*module.parameters(False), *module.buffers(False), *parts(module)):
            storage = tensor.untyped_storage()
            sizes[storage._cdata] = storage.nbytes()
    return sum(sizes.values())


def four_bit_bytes(rows: int, columns: int, double: bool) -> int:
    """Half a byte an element; a scale a block of 64; if these are quantised too a byte each, a scale for each 256 of
    them, their table of 256 and their mean; and the table of 16 values."""
    blocks = -(-rows * columns // 64)
    scales = blocks + 4 * -(-blocks // 256) + 4 * 256 + 4 if double else 4 * blocks
    return -(-rows * columns // 2) + scales + 4 * 16


def four_bit(rows: int, columns: int, double: bool, dtype: Any = torch.bfloat16) -> Any:
    layer = bnb.nn.Linear4bit(columns, rows, bias=False, compress_statistics=double, quant_type="nf4")
    layer.weight.data = layer.weight.data.to(dtype)
    return layer


SHAPES = [(64, 64), (256, 128), (100, 30), (512, 300)]


@pytest.mark.parametrize("double", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_four_bit_weight_takes_what_it_takes_for_real(shape: tuple[int, int], double: bool) -> None:
    sizes = []
    traced(lambda: sizes.append(stored([four_bit(*shape, double).cuda()])))
    assert sizes == [four_bit_bytes(*shape, double)]
    assert stored([four_bit(*shape, double).to("cpu")]) == sizes[0]


def test_a_weight_is_of_its_library_and_goes_where_it_is_sent() -> None:
    told = []

    def build() -> None:
        layer = four_bit(WIDTH, WIDTH, double=True).cuda()
        weight = layer.weight
        told.append((isinstance(weight, bnb.nn.Params4bit), type(weight).__name__, weight.device.type, weight.dtype))
        told.append(layer.cpu().weight.quant_state.absmax.device.type)
        told.append(layer.cuda().weight.quant_state.state2.code.device.type)
        told.append(bnb.functional.dequantize_4bit(layer.weight.data, layer.weight.quant_state).shape)

    traced(build)
    assert told == [(True, "Params4bit", "cuda", torch.uint8), "cpu", "cuda", (WIDTH, WIDTH)]


def product(layer: Callable[[], Any], rows: int, columns: int = WIDTH, width_bytes: int = 2) -> int:
    """What a product takes at most over its weights and its input."""

    def step(model: Any) -> None:
        dtype = {2: torch.bfloat16, 4: torch.float32}[width_bytes]
        with torch.no_grad():
            model(torch.randn(rows, columns, device="cuda", dtype=dtype))

    held: list[int] = []

    def build() -> Any:
        model = layer()
        held.append(stored([model]))
        return model

    found = traced(build, step)
    spans = [span for span in found.gpus[0].replay.phases if span.name == "forward"]
    return max(span.requested_bytes for span in spans) - held[0] - rows * columns * width_bytes


def test_many_rows_dequantise_the_weight_and_a_few_do_not() -> None:
    def layer() -> Any:
        return four_bit(WIDTH, WIDTH, double=True).cuda()

    # The result, the weight, and its scales before and after their mean is added.
    scales = 4 * WIDTH * WIDTH // 64
    assert product(layer, 2048) == 2048 * WIDTH * 2 + WIDTH * WIDTH * 2 + 2 * scales
    assert product(layer, 4) == 4 * WIDTH * 2


def test_a_weight_that_was_loaded_in_float32_is_dequantised_to_it() -> None:
    def peak(dtype: Any) -> int:
        def step(model: Any) -> None:
            rows = torch.randn(ROWS, WIDTH, device="cuda", dtype=torch.bfloat16, requires_grad=True)
            out = model(rows)
            out.backward(torch.ones_like(out))

        found = traced(lambda: four_bit(WIDTH, WIDTH, double=True, dtype=dtype).cuda(), step)
        return requested(found)["backward"]

    # In the backward pass it is dequantised to the type in which it was quantised, and then cast, which is the peak;
    # where there is nothing to cast the peak is the product, with its result.
    assert peak(torch.float32) - peak(torch.bfloat16) == WIDTH * WIDTH * 4 - ROWS * WIDTH * 2


def test_int8_products_take_their_int32_results() -> None:
    def layer() -> Any:
        return bnb.nn.Linear8bitLt(WIDTH, WIDTH, bias=False, has_fp16_weights=False).cuda()

    sizes: list[int] = []
    traced(lambda: sizes.append(stored([layer()])))
    assert sizes == [WIDTH * WIDTH + 4 * WIDTH]
    # int8 rows, their scales, the int32 product, its float16, and that cast to the input's type.
    took = product(layer, 2048)
    assert took >= 2048 * WIDTH * (1 + 4 + 2)


def eight_bit_states(device: str) -> dict[str, int]:
    parameters = [torch.nn.Parameter(torch.ones(size, device=device)) for size in (100, 4096, 70_000)]
    optimizer = bnb.optim.AdamW8bit(parameters)
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    states = list(optimizer.state.values())
    return {
        f"{place} {name}": value.nbytes
        for place, state in enumerate(states)
        for name, value in state.items()
        if isinstance(value, torch.Tensor)
    }


def test_states_of_an_eight_bit_optimizer_are_those_of_a_real_one() -> None:
    found: list[dict[str, int]] = []
    traced(lambda: torch.empty(1, device="cuda"), lambda _state: found.append(eight_bit_states("cuda")))
    assert found == [eight_bit_states("cpu")]
    assert found[0]["0 state1"] == 400  # under 4096 elements they stay float32
    assert found[0]["2 state1"] == 70_000
    assert found[0]["2 absmax2"] == 4 * 274


@pytest.mark.parametrize("kind", ["PagedAdamW8bit", "PagedAdamW32bit"])
def test_paged_states_are_named_and_not_counted(kind: str) -> None:
    elements = 200_000
    width_bytes = 1 if kind.endswith("8bit") else 4

    def build() -> Any:
        parameter = torch.nn.Parameter(torch.ones(elements, device="cuda"))
        return parameter, getattr(bnb.optim, kind)([parameter])

    def step(state: Any) -> None:
        parameter, optimizer = state
        parameter.grad = torch.ones_like(parameter)
        optimizer.step()

    found = traced(build, step, steps=2)
    assert [one.parameters["size_bytes"] for one in found.unknown] == [2 * width_bytes * elements]
    held = requested(found)["optimizer_step_steady"]
    assert held < 3 * 4 * elements + 40_000


def llama(**changed: Any) -> Any:
    config = transformers.LlamaConfig(
        **{
            "num_hidden_layers": 2, "hidden_size": WIDTH, "intermediate_size": 2 * WIDTH, "num_attention_heads": 4,
            "num_key_value_heads": 2, "vocab_size": 1000, **changed,
        }
    )  # fmt: skip
    return transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)


@pytest.mark.parametrize("kind", ["nf4", "int8"])
def test_the_layers_that_are_quantised_are_those_that_transformers_chooses(kind: str) -> None:
    from transformers.integrations.bitsandbytes import replace_with_bnb_linear
    from transformers.quantizers.base import get_keys_to_not_convert

    asked = {"load_in_8bit": True} if kind == "int8" else {"load_in_4bit": True, "bnb_4bit_quant_type": kind}
    with torch.device("meta"):
        theirs = llama()
    theirs = replace_with_bnb_linear(theirs, get_keys_to_not_convert(theirs), transformers.BitsAndBytesConfig(**asked))
    ours: list[dict[str, str]] = []

    def build() -> None:
        with torch.device("meta"):
            model = llama()
        model = quantise_linears(model, kind)
        ours.append({name: type(module).__name__ for name, module in model.named_modules()})
        assert {one.device.type for one in model.parameters()} == {"cuda"}

    traced(build)
    assert ours == [{name: type(module).__name__ for name, module in theirs.named_modules()}]


def eight_billion(layers: int) -> tuple[int, int]:
    """Bytes asked for at the end of loading Llama-3-8B, or a model of fewer such layers, in nf4; and by formula."""
    sizes = {"hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8}

    def build() -> Any:
        with torch.device("meta"):
            model = llama(**sizes, vocab_size=128256, num_hidden_layers=layers)
        return quantise_linears(model)

    held: list[int] = []
    traced(lambda: held.append(stored(build().modules())))
    linears = [(4096, 4096), (1024, 4096), (1024, 4096), (4096, 4096), (14336, 4096), (14336, 4096), (4096, 14336)]
    rest = 2 * 128256 * 4096 + (2 * layers + 1) * 4096
    rotary = 2 * 4 * 64
    return held[0], layers * sum(four_bit_bytes(*one, double=True) for one in linears) + 2 * rest + rotary


def test_weights_of_a_large_model_in_four_bits() -> None:
    found, worked = eight_billion(1)
    assert found == worked


@pytest.mark.slow
def test_weights_of_eight_billion_parameters_in_four_bits() -> None:
    assert eight_billion(32) == (5_702_540_672, 5_702_540_672)


def adapted(model: Any, **options: Any) -> Any:
    model = peft.prepare_model_for_kbit_training(model)
    return peft.get_peft_model(model, peft.LoraConfig(r=8, target_modules="all-linear", **options))


@pytest.mark.parametrize("kind", ["nf4", "int8"])
@pytest.mark.parametrize("dora", [False, True])
def test_adapters_on_a_quantised_model_train_and_merge(kind: str, dora: bool) -> None:
    def build() -> Any:
        with torch.device("cuda"):
            model = llama()
        model = adapted(quantise_linears(model, kind, threshold=0.0), use_dora=dora).train()
        return model, bnb.optim.AdamW8bit([one for one in model.parameters() if one.requires_grad])

    def step(state: Any) -> None:
        model, optimizer = state
        ids = torch.zeros(1, ROWS, dtype=torch.int64, device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        steps.append(1)
        if len(steps) == 2:
            with phase("export"):
                model.merge_and_unload()

    steps: list[int] = []
    found = traced(build, step, steps=2)
    assert found.guesses == ()
    categories = {one.category for one in found.gpus[0].holders}
    assert "weights" in categories
    assert "loading" not in categories
    assert requested(found)["export"] > 0


def test_everything_is_put_back_and_a_second_trace_meets_nothing_of_the_first() -> None:
    before = set(vars(torch.Tensor)), set(vars(FakeTensor)), dict(vars(bnb.functional))
    for _ in range(2):
        traced(lambda: four_bit(WIDTH, WIDTH, double=True).cuda())
        traced(lambda: torch.empty(1, device="cuda"), lambda _state: eight_bit_states("cuda"))
    assert (set(vars(torch.Tensor)), set(vars(FakeTensor)), dict(vars(bnb.functional))) == before
    assert not any(isinstance(one, FakeTensor) for one in bnb.functional.name2qmap.values())
    assert stored([four_bit(64, 64, double=True).to("cpu")]) == four_bit_bytes(64, 64, double=True)


def test_a_release_without_its_code_for_cuda_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("capienza.trace.quantised.BACKENDS", ("bitsandbytes.backends.not_there",))
    found = traced(lambda: four_bit(WIDTH, WIDTH, double=True).cuda())
    assert [one.code for one in found.unknown] == ["trace.no-bitsandbytes-kernels"]
