"""Which tensors are trained and what the base holds: PEFT's own modules and traced loads beside the closed forms."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from training_cards import FULL, TINY, TINY_LLAMA, replaced, with_adapters

from capienza.architecture.registry import describe
from capienza.predict.training.base import base_of
from capienza.predict.training.export import merge_bytes
from capienza.predict.training.load import loading
from capienza.predict.training.modules import pieces
from capienza.predict.training.trained import block_bytes, num_trained, trained_tensors

MIXTRAL = describe(TINY | {"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2})
OLD = {"framework_version": "transformers 4.48.1, bitsandbytes 0.43.3"}


def parameters(recipe, architecture=TINY_LLAMA):
    return num_trained(trained_tensors(architecture, recipe))


def test_worked_counts():
    assert parameters(FULL) == TINY_LLAMA.num_parameters
    # 3 layers x 8 x (256 + 256 for q, 256 + 128 for v)
    assert parameters(with_adapters()) == 3 * 8 * (512 + 384)
    linear = 512 + 384 + 384 + 512 + 3 * (256 + 768)
    assert parameters(with_adapters(targets=("all-linear",))) == 3 * 8 * linear
    assert parameters(with_adapters(is_dora=True)) == 3 * (8 * (512 + 384) + 256 + 128)
    assert parameters(with_adapters(modules_to_save=("lm_head",))) == 3 * 8 * (512 + 384) + 256_000


def test_experts_are_modules_of_their_own_before_transformers_5():
    fused, apart = pieces(MIXTRAL, FULL), pieces(MIXTRAL, replaced(**OLD))
    assert sum(one.count * one.elements for one in fused) == sum(one.count * one.elements for one in apart)
    assert {one.module for one in apart if one.role == "expert"} == {"w1", "w2", "w3"}
    linear = with_adapters(targets=("all-linear",))
    of_experts = 3 * 4 * 3 * 8 * (256 + 768)
    router = 3 * 8 * (256 + 4)
    old, new = parameters(replaced(linear, **OLD), MIXTRAL), parameters(linear, MIXTRAL)
    assert old - new in (of_experts, of_experts + router)
    quantised = replaced(linear, precision_quantised="nf4_double")
    assert base_of(MIXTRAL, replaced(quantised, **OLD)).num_modules - base_of(MIXTRAL, quantised).num_modules == 36


def test_norms_stay_as_they_are_where_the_kernels_give_no_gradient():
    plain, foak = parameters(FULL), parameters(replaced(kernels="foak"))
    assert plain - foak == 7 * 256


@given(st.integers(1, 64), st.sampled_from(["fp32", "bf16"]))
def test_a_higher_rank_never_trains_less(rank, dtype):
    lower, higher = (trained_tensors(TINY_LLAMA, with_adapters(rank=one, dtype=dtype)) for one in (rank, rank + 1))
    assert num_trained(lower) < num_trained(higher)
    assert block_bytes(lower) <= block_bytes(higher)


def test_what_is_widened_beside_a_quantised_base():
    recipe = with_adapters(replaced(precision_quantised="nf4_double"))
    rest = 2 * 1000 * 256 + 7 * 256
    base = base_of(TINY_LLAMA, recipe)
    assert (base.num_rest, base.widened_bytes) == (rest, 0)
    assert base_of(TINY_LLAMA, replaced(recipe, precision_widens_rest=True)).widened_bytes == 2 * rest
    assert base_of(TINY_LLAMA, replaced(recipe, precision_widens_norms=True)).widened_bytes == 2 * 7 * 256


def test_added_tokens_are_rows_of_embedding_and_head():
    more = base_of(TINY_LLAMA, replaced(added_tokens=1)).weights_bytes - base_of(TINY_LLAMA, FULL).weights_bytes
    assert more == 2 * 256 * 2


def test_litgpt_holds_a_head_of_its_own():
    tied = describe(TINY | {"tie_word_embeddings": True})
    assert base_of(tied, replaced(framework="litgpt", kernels="litgpt")).untied_head_bytes == 256 * 1000 * 2
    assert base_of(tied, FULL).untied_head_bytes == base_of(TINY_LLAMA, FULL).untied_head_bytes == 0


def test_loading_holds_a_weight_beside_its_codes():
    plain = loading(TINY_LLAMA, FULL)
    base = base_of(TINY_LLAMA, FULL)
    assert (plain.peak_bytes, plain.slack_bytes) == (base.weights_bytes + base.rounding_bytes, 0)
    recipe = with_adapters(replaced(precision_quantised="nf4_double"))
    held = base_of(TINY_LLAMA, recipe)
    more = loading(TINY_LLAMA, recipe).peak_bytes - held.weights_bytes - held.rounding_bytes
    assert 0 <= more <= 2 * 768 * 256 + 4 * 768 * 256 // 64
    wide = replaced(recipe, precision_widens_rest=True)
    assert loading(TINY_LLAMA, wide).peak_bytes >= loading(TINY_LLAMA, recipe).peak_bytes


def test_merging_takes_the_product_of_the_largest_pair_twice():
    made = pieces(TINY_LLAMA, FULL)
    assert merge_bytes(made, with_adapters(targets=("all-linear",))) == 2 * 4 * 768 * 256
    assert merge_bytes(made, FULL) == 0


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")
@pytest.mark.parametrize(
    "words",
    [
        {},
        {"targets": ("all-linear",)},
        {"targets": ("q_proj", "down_proj"), "rank": 3},
        {"is_dora": True},
        {"modules_to_save": ("lm_head", "embed_tokens")},
        {"dtype": "bf16"},
        {"targets": ("q_proj", "embed_tokens")},
    ],
)
def test_peft_trains_the_tensors_that_are_computed(words):
    torch, transformers, peft = (pytest.importorskip(name) for name in ("torch", "transformers", "peft"))
    recipe = with_adapters(**words)
    config = transformers.LlamaConfig(**{name: value for name, value in TINY.items() if name != "model_type"})
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    adapters = recipe.adapters
    targets = "all-linear" if adapters.targets == ("all-linear",) else list(adapters.targets)
    asked = peft.LoraConfig(
        r=adapters.rank, target_modules=targets, use_dora=adapters.is_dora,
        modules_to_save=list(adapters.modules_to_save) or None,
    )  # fmt: skip
    built = peft.get_peft_model(model, asked, autocast_adapter_dtype=adapters.dtype == "fp32")
    real = sorted((tuple(sorted(one.shape)), one.element_size()) for one in built.parameters() if one.requires_grad)
    found = sorted((tuple(sorted(one.shape)), one.bytes_per_element) for one in trained_tensors(TINY_LLAMA, recipe))
    assert found == real


@pytest.mark.oracle
@pytest.mark.parametrize("kind", ["nf4_double", "nf4", None])
def test_a_traced_load_holds_what_is_computed(kind):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("bitsandbytes")
    from capienza.trace.peak import predict_peak
    from capienza.trace.quantised import quantise_linears
    from capienza.trace.run import enter

    config = transformers.LlamaConfig(**{name: value for name, value in TINY.items() if name != "model_type"})

    def build():
        with torch.device("meta" if kind else "cuda"):
            model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
        if kind:
            quantise_linears(model, double_quant=kind == "nf4_double")
        enter("data")
        return model, torch.empty(1, device="cuda")

    found = predict_peak(build, lambda _state: None, steps=1, device="A100-SXM4-80GB")
    (after,) = (one for one in found.gpus[0].phases if one.phase == "data")
    recipe = with_adapters(replaced(precision_quantised=kind)) if kind else FULL
    # the library's own table of 256 entries is beside those that every matrix has
    table = 1024 if kind == "nf4_double" else 0
    assert after.allocated_bytes - 512 - table == base_of(TINY_LLAMA, recipe).total_bytes
