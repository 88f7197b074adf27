"""4-bit and 8-bit bytes against bitsandbytes itself, on CPU."""

from __future__ import annotations

import itertools

import pytest
from formats_models import LLAMA_31_8B, MISTRAL_7B, decoder
from hypothesis import given, settings
from hypothesis import strategies as st

from capienza.errors import InputError
from capienza.formats.scheme import quantised, scheme_from_config, scheme_named, stored
from capienza.units import GIB


def total(parameters: list[tuple[str, tuple[int, ...], str]], name: str, dtype: str = "bf16") -> int:
    scheme = scheme_named(name)
    return sum(t.bytes for p in parameters for t in stored(*p, scheme, dtype))


@pytest.mark.parametrize(
    ("name", "shape", "expected"),
    [
        # 64 x 64: 4096 weights, 64 blocks, 1 nested block
        ("nf4", (64, 64), 2048 + 4 * 64 + 64),
        ("nf4_double", (64, 64), 2048 + 64 + 4 + 4 + 64 + 1024),
        ("fp4", (64, 64), 2048 + 4 * 64 + 64),
        # 3 x 5: 15 weights in 8 bytes, one partial block
        ("nf4", (3, 5), 8 + 4 + 64),
        ("nf4_double", (3, 5), 8 + 1 + 4 + 4 + 64 + 1024),
        ("int8", (3, 5), 15 + 12),
        # 4096 x 4096: 262 144 blocks, 1024 nested blocks
        ("nf4_double", (4096, 4096), 8388608 + 262144 + 4096 + 4 + 64 + 1024),
    ],
)
def test_bytes_by_hand(name: str, shape: tuple[int, int], expected: int) -> None:
    assert sum(t.bytes for t in stored("m.w.weight", shape, "mlp", scheme_named(name), "bf16")) == expected


def test_qlora_base_of_llama_31_8b() -> None:
    """reference/peers.md 3c: 5.31 GiB with embeddings and head in bf16; trace-notes section 6 gives the terms."""
    parameters = decoder(**LLAMA_31_8B)
    q = sum(shape[0] * shape[1] for _, shape, role in parameters if role in {"attention", "mlp"})
    p = sum(shape[0] * (shape[1] if len(shape) == 2 else 1) for _, shape, _ in parameters)
    assert (p, q) == (8_030_261_248, 6_979_321_856)
    tables = 224 * (4 + 64 + 1024)
    assert total(parameters, "nf4_double") == q // 2 + q // 64 + 4 * q // (64 * 256) + tables + 2 * (p - q)
    assert round(total(parameters, "nf4_double") / GIB, 2) == 5.31
    # trace-notes: 5,702,755,328 B with every tensor rounded up to the allocator's 512 B, and the table itself that
    # bitsandbytes copies for each layer and keeps once more
    rounded = sum(-(-t.bytes // 512) * 512 for x in parameters for t in stored(*x, scheme_named("nf4_double"), "bf16"))
    assert rounded + 1024 == 5_702_755_328


def test_mistral_7b_differs_from_gptq_as_measured() -> None:
    """training-mechanics: GPTQ int4 g128 of Mistral-7B, terms 0.5 + 2/128 + 0.5/128 and 4 B an input feature."""
    parameters = decoder(**MISTRAL_7B)
    linear = [shape for _, shape, role in parameters if role in {"attention", "mlp"}]
    q = sum(rows * columns for rows, columns in linear)
    rest = total(parameters, "bf16") - 2 * q
    expected = q // 2 + q * 2 // 128 + q // 256 + 4 * sum(columns for _, columns in linear) + rest
    assert total(parameters, "gptq-int4-g128") == expected


@pytest.mark.parametrize("storage", ["uint8", "int8", "float16", "bfloat16", "float32", "float64"])
def test_storage_word_changes_no_byte(storage: str) -> None:
    config = {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_quant_storage": storage}
    tensors = stored("a.weight", (64, 64), "mlp", scheme_from_config(config, "config.json"), "bf16")
    assert tensors[0].bytes == 2048


def test_storage_word_must_divide_the_codes() -> None:
    config = {"load_in_4bit": True, "bnb_4bit_quant_storage": "float64"}
    with pytest.raises(InputError, match=r"^a\.weight: 4 features cannot be stored"):
        stored("a.weight", (2, 2), "mlp", scheme_from_config(config, "config.json"), "bf16")


@given(rows=st.integers(1, 300), columns=st.integers(1, 300), more=st.integers(1, 20))
def test_bytes_are_monotone(rows: int, columns: int, more: int) -> None:
    for name in ("nf4", "nf4_double", "int8"):
        here, taller, wider = (
            sum(t.bytes for t in stored("m.weight", shape, "mlp", scheme_named(name), "bf16"))
            for shape in ((rows, columns), (rows + more, columns), (rows, columns + more))
        )
        assert here <= min(taller, wider)


# Oracles: bitsandbytes on CPU.

torch = pytest.importorskip("torch")


def real_4bit(shape: tuple[int, int], kind: str, double: bool) -> dict[str, int]:
    functional = pytest.importorskip("bitsandbytes").functional
    packed, state = functional.quantize_4bit(
        torch.randn(shape, dtype=torch.bfloat16), quant_type=kind, compress_statistics=double
    )
    sizes = {"weight": packed.nbytes, "weight.absmax": state.absmax.nbytes, "weight.quant_map": state.code.nbytes}
    if double:
        sizes["weight.nested_absmax"] = state.state2.absmax.nbytes
        sizes["weight.nested_quant_map"] = state.state2.code.nbytes
        sizes["weight.nested_offset"] = state.offset.nbytes
    return sizes


@pytest.mark.oracle
@pytest.mark.parametrize(("kind", "double"), list(itertools.product(("nf4", "fp4"), (False, True))))
@settings(max_examples=15, deadline=None)
@given(rows=st.integers(1, 130), columns=st.integers(1, 130))
def test_4bit_state_has_our_bytes(kind: str, double: bool, rows: int, columns: int) -> None:
    name = f"{kind}_double" if double else kind
    ours = {
        t.name.removeprefix("m."): t.bytes
        for t in stored("m.weight", (rows, columns), "mlp", scheme_named(name), "bf16")
    }
    assert ours == real_4bit((rows, columns), kind, double)


@pytest.mark.oracle
def test_parameter_made_by_bitsandbytes_has_our_bytes() -> None:
    bnb = pytest.importorskip("bitsandbytes")
    made = bnb.nn.Params4bit(
        torch.randn(96, 80, dtype=torch.bfloat16), requires_grad=False, quant_type="nf4", compress_statistics=True
    ).to("cpu")
    state = made.quant_state
    real = made.nbytes + state.absmax.nbytes + state.code.nbytes + state.offset.nbytes
    real += state.state2.absmax.nbytes + state.state2.code.nbytes
    assert real == sum(t.bytes for t in stored("m.weight", (96, 80), "mlp", scheme_named("nf4_double"), "bf16"))


@pytest.mark.oracle
@pytest.mark.parametrize("shape", [(1, 1), (7, 5), (64, 100), (128, 256)])
def test_8bit_rows_have_our_bytes(shape: tuple[int, int]) -> None:
    functional = pytest.importorskip("bitsandbytes").functional
    weight, scales, _ = functional.int8_vectorwise_quant(torch.randn(shape, dtype=torch.float16))
    tensors = stored("m.weight", shape, "mlp", scheme_named("int8"), "fp16")
    assert [t.bytes for t in tensors] == [weight.nbytes, scales.nbytes]


def role_of(name: str) -> str:
    for part, role in (
        ("embed", "embedding"),
        ("wte", "embedding"),
        ("wpe", "position"),
        ("lm_head", "head"),
        ("norm", "norm"),
        ("experts", "expert"),
    ):
        if part in name:
            return role
    if name.endswith("gate.weight"):
        return "router"
    return "attention" if "attn" in name else "mlp"


@pytest.mark.oracle
@pytest.mark.parametrize(
    "skipped", [None, [], ["lm_head", "model.layers.1.mlp"], ["q_proj", "layers.0"], ["model.*.o_proj"]]
)
@pytest.mark.parametrize("model_type", ["llama", "qwen3_moe", "mixtral", "gpt2"])
def test_transformers_replaces_the_modules_we_quantise(model_type: str, skipped: list[str] | None) -> None:
    transformers = pytest.importorskip("transformers")
    bnb = pytest.importorskip("bitsandbytes")
    from transformers.integrations.bitsandbytes import replace_with_bnb_linear
    from transformers.quantizers.base import HfQuantizer

    sizes = {
        "num_hidden_layers": 2, "hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4,
        "num_key_value_heads": 2, "vocab_size": 96, "head_dim": 8, "num_experts": 4, "num_local_experts": 4,
        "moe_intermediate_size": 16, "tie_word_embeddings": False,
    }  # fmt: skip
    config = transformers.AutoConfig.for_model(model_type, **({} if model_type == "gpt2" else sizes))
    if model_type == "gpt2":
        config.n_layer, config.n_embd, config.n_head, config.vocab_size = 2, 32, 4, 96
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    named = {name: tuple(value.shape) for name, value in model.named_parameters()}
    settings = {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "llm_int8_skip_modules": skipped}
    scheme = scheme_from_config(settings, "config.json")
    keep = HfQuantizer.get_modules_to_not_convert(model, skipped, None)
    replace_with_bnb_linear(model, keep, transformers.BitsAndBytesConfig(**settings))
    real = {f"{name}.weight" for name, module in model.named_modules() if isinstance(module, bnb.nn.Linear4bit)}
    ours = {
        name
        for name, shape in named.items()
        if quantised(name, shape, role_of(name), scheme, transposed=model_type == "gpt2" and ".h." in name)
    }
    tied = {"lm_head.weight"} if "lm_head.weight" not in named else set()
    assert ours == real - tied
    assert skipped is not None or ours
