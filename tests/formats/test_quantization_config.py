"""`quantization_config` as published checkpoints write it, and what is wrong with the others."""

from __future__ import annotations

from typing import Any

import pytest
from formats_models import MISTRAL_7B, decoder

from capienza.errors import InputError, InputErrors
from capienza.formats.scheme import READERS, REFUSED, quantised, scheme_from_config, scheme_named, stored

LAYER = "model.layers.3."
NAMES: dict[str, tuple[tuple[int, ...], str]] = {
    "model.embed_tokens.weight": ((512, 256), "embedding"),
    f"{LAYER}self_attn.q_proj.weight": ((256, 256), "attention"),
    f"{LAYER}self_attn.q_proj.bias": ((256,), "attention"),
    f"{LAYER}mlp.down_proj.weight": ((256, 512), "mlp"),
    f"{LAYER}mlp.gate.weight": ((128, 256), "router"),
    f"{LAYER}mlp.experts.gate_up_proj": ((128, 512, 256), "expert"),
    f"{LAYER}mlp.experts.gate_up_proj_bias": ((128, 512), "expert"),
    f"{LAYER}mixer.conv1d.weight": ((256, 1, 4), "state"),
    f"{LAYER}mixer.in_proj.weight": ((512, 256), "state"),
    f"{LAYER}input_layernorm.weight": ((256,), "norm"),
    "visual.blocks.0.attn.qkv.weight": ((256, 256), "vision"),
    "lm_head.weight": ((512, 256), "head"),
}
ATTENTION, MLP, ROUTER, EXPERTS, STATE, VISION, HEAD, EMBEDDING = (
    f"{LAYER}self_attn.q_proj.weight", f"{LAYER}mlp.down_proj.weight", f"{LAYER}mlp.gate.weight",
    f"{LAYER}mlp.experts.gate_up_proj", f"{LAYER}mixer.in_proj.weight", "visual.blocks.0.attn.qkv.weight",
    "lm_head.weight", "model.embed_tokens.weight",
)  # fmt: skip
LINEAR = {ATTENTION, MLP, EXPERTS, STATE, VISION}


def chosen(config: dict[str, Any] | str) -> set[str]:
    """Which of `NAMES` the scheme quantises."""
    scheme = scheme_named(config) if isinstance(config, str) else scheme_from_config(config, "config.json")
    return {name for name, (shape, role) in NAMES.items() if quantised(name, shape, role, scheme)}


def compressed(ignore: list[str], *targets: list[str]) -> dict[str, Any]:
    weights = {"num_bits": 8, "type": "float", "strategy": "channel", "symmetric": True, "dynamic": False}
    groups = {f"group_{i}": {"targets": list(names), "weights": weights} for i, names in enumerate(targets)}
    return {
        "quant_method": "compressed-tensors", "format": "float-quantized", "ignore": ignore, "config_groups": groups
    }  # fmt: skip


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ("bf16", set()),
        ("fp8", LINEAR),
        ("w8a8", LINEAR),
        ("nvfp4", LINEAR),
        ("nf4", LINEAR - {EXPERTS}),
        ("int8", LINEAR - {EXPERTS}),
        ("mxfp4", {EXPERTS}),
        ("gptq-int4-g128", LINEAR - {VISION}),
        ("awq-int4-g128", LINEAR - {VISION}),
        # DeepSeek-V3: no list, the head stays
        (
            {
                "quant_method": "fp8",
                "fmt": "e4m3",
                "activation_scheme": "dynamic",
                "weight_block_size": [128, 128],
            },
            LINEAR,
        ),
        ({"quant_method": "fp8", "modules_to_not_convert": ["visual", "lm_head"]}, LINEAR - {VISION}),
        ({"quant_method": "fp8", "ignored_layers": ["model.layers.3.mlp"]}, {ATTENTION, STATE, VISION}),
        ({"quant_method": "fp8", "dequantize": True}, set()),
        ({"quant_method": "fp8", "modules_to_convert": ["embed_tokens"]}, LINEAR | {EMBEDDING}),
        ({"quant_method": "mxfp8"}, LINEAR),
        ({"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0}, LINEAR - {EXPERTS}),
        # gpt-oss
        (
            {
                "quant_method": "mxfp4",
                "modules_to_not_convert": [
                    "model.layers.*.self_attn",
                    "model.layers.*.mlp.router",
                    "model.embed_tokens",
                    "lm_head",
                ],
            },
            {EXPERTS},
        ),
        ({"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.3"]}, set()),
        # an explicit list replaces transformers' default one
        ({"load_in_4bit": True, "llm_int8_skip_modules": []}, LINEAR - {EXPERTS} | {HEAD}),
        ({"load_in_8bit": True, "llm_int8_skip_modules": ["lm_head", "q_proj"]}, {MLP, STATE, VISION}),
        ({"load_in_8bit": True, "llm_int8_has_fp16_weight": True}, set()),
        ({"quant_method": "gptq", "bits": 4, "lm_head": True}, LINEAR - {VISION} | {HEAD}),
        (
            {
                "quant_method": "gptq",
                "bits": 4,
                "modules_in_block_to_quantize": [["self_attn.q_proj"], ["mlp.experts.0.up_proj"]],
            },
            {ATTENTION, EXPERTS},
        ),
        ({"quant_method": "gptq", "bits": 4, "dynamic": {r"-:.*mlp.*": {}}}, {ATTENTION, STATE}),
        ({"quant_method": "awq", "bits": 4, "modules_to_not_convert": ["gate", "q_proj"]}, {MLP, EXPERTS, STATE}),
        (compressed(["lm_head", "re:.*gate$", "re:visual.*"], ["Linear"]), LINEAR - {VISION}),
        (compressed([], ["Linear"]), LINEAR | {HEAD, ROUTER}),
        (compressed([], ["Embedding"]), {EMBEDDING}),
        (compressed([], ["re:.*self_attn\\.(q|k|v|o)_proj$"], ["re:.*mlp\\.experts\\.\\d+\\.(gate|up|down)_proj"]), {
            ATTENTION,
            EXPERTS,
        }),
        (compressed([f"{LAYER}mlp", f"{LAYER}self_attn.q_proj"], ["Linear"]), LINEAR - {ATTENTION} | {HEAD, ROUTER}),
        ({**compressed([], ["Linear"]), "run_compressed": False}, set()),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head", "*self_attn*", f"{LAYER}mixer"]}, {
            MLP,
            EXPERTS,
            VISION,
        }),
        ({"quant_method": "modelopt", "quant_algo": "fp8", "exclude_modules": ["model.layers.3.mlp*"]}, {
            ATTENTION,
            STATE,
            VISION,
        }),
    ],
)  # fmt: skip
def test_which_modules_are_quantised(config: dict[str, Any] | str, expected: set[str]) -> None:
    assert chosen(config) == expected


def test_exact_names_beat_expressions_and_classes() -> None:
    """compressed-tensors: whatever the order of the groups."""
    config = compressed([], ["Linear"], ["re:.*mlp.*"], [MLP.removesuffix(".weight")])
    for bits, group in zip((8, 4, 2), config["config_groups"].values(), strict=True):
        group["format"] = "pack-quantized"
        group["weights"] = {"num_bits": bits, "type": "int", "strategy": "channel"}
    scheme = scheme_from_config(config, "config.json")
    widths = {
        name: stored(name, *NAMES[name], scheme, "bf16")[0].bytes * 8 // (NAMES[name][0][0] * NAMES[name][0][1])
        for name in (ATTENTION, MLP, ROUTER)
    }
    assert widths == {ATTENTION: 8, MLP: 2, ROUTER: 4}


def test_gptqmodel_overrides_change_bits_and_group() -> None:
    override = {"+:.*q_proj": {"bits": 8, "group_size": 64}, "-:.*down.*": {}}
    scheme = scheme_from_config({"quant_method": "gptq", "bits": 4, "dynamic": override}, "config.json")
    parts = {t.name.rsplit(".", 1)[1]: t.shape for t in stored(ATTENTION, (256, 256), "attention", scheme, "bf16")}
    assert (parts["qweight"], parts["scales"]) == ((64, 256), (4, 256))
    assert stored(MLP, (256, 512), "mlp", scheme, "bf16")[0].dtype == "bf16"


def test_wrapped_models_answer_to_both_spellings() -> None:
    scheme = scheme_from_config(
        {"quant_method": "fp8", "modules_to_not_convert": ["language_model.model.layers.0.mlp"]}, "config.json"
    )
    for prefix in ("model.language_model.", "model.", "language_model.model."):
        assert not quantised(f"{prefix}layers.0.mlp.up_proj.weight", (64, 64), "mlp", scheme)
        assert quantised(f"{prefix}layers.1.mlp.up_proj.weight", (64, 64), "mlp", scheme)


PUBLISHED: list[dict[str, Any]] = [
    # TheBloke's GPTQ, as AutoGPTQ wrote it
    {
        "bits": 4, "group_size": 128, "damp_percent": 0.1, "desc_act": True, "static_groups": False, "sym": True,
        "true_sequential": True, "model_name_or_path": None, "model_file_base_name": "model", "quant_method": "gptq",
        "is_marlin_format": False, "pad_token_id": 0,
    },
    # optimum's
    {
        "batch_size": 1, "bits": 4, "block_name_to_quantize": None, "cache_block_outputs": True, "damp_percent": 0.01,
        "dataset": None, "desc_act": False, "exllama_config": {"version": 2}, "group_size": 128,
        "max_input_length": None, "model_seqlen": None, "module_name_preceding_first_block": None,
        "modules_in_block_to_quantize": [["self_attn.k_proj"]], "pad_token_id": None, "quant_method": "gptq",
        "sym": True, "tokenizer": None, "true_sequential": True, "use_cuda_fp16": False, "use_exllama": True,
    },
    # GPTQModel's
    {
        "bits": 4, "checkpoint_format": "gptq", "desc_act": False, "dynamic": {}, "group_size": 128, "hyb_act": False,
        "lm_head": False, "meta": {"quantizer": ["gptqmodel:2.2.0"]}, "pack_dtype": "int32", "quant_method": "gptq",
        "sym": True,
    },
    # AutoAWQ's, as transformers rewrote it
    {
        "backend": "autoawq", "bits": 4, "do_fuse": False, "exllama_config": None, "fuse_max_seq_len": None,
        "group_size": 128, "modules_to_fuse": None, "modules_to_not_convert": None, "quant_method": "awq",
        "version": "GEMM", "zero_point": True,
    },
    {"w_bit": 4, "q_group_size": 64, "zero_point": True, "version": "gemm", "quant_method": "awq"},
    # bitsandbytes, as transformers saves it
    {
        "_load_in_4bit": True, "_load_in_8bit": False, "bnb_4bit_compute_dtype": "bfloat16",
        "bnb_4bit_quant_storage": "uint8", "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True,
        "llm_int8_enable_fp32_cpu_offload": False, "llm_int8_has_fp16_weight": False,
        "llm_int8_skip_modules": ["lm_head", "multi_modal_projector"], "llm_int8_threshold": 6.0,
        "load_in_4bit": True, "load_in_8bit": False, "quant_method": "bitsandbytes",
    },
    # llm-compressor's
    {
        "config_groups": {"group_0": {
            "format": "pack-quantized", "input_activations": None, "output_activations": None, "targets": ["Linear"],
            "weights": {
                "actorder": None, "block_structure": None, "dynamic": False, "group_size": 128, "num_bits": 4,
                "observer": "mse", "observer_kwargs": {}, "scale_dtype": None, "strategy": "group",
                "symmetric": False, "type": "int", "zp_dtype": "torch.int8",
            },
        }},
        "format": "pack-quantized", "global_compression_ratio": None, "ignore": ["lm_head"], "kv_cache_scheme": None,
        "quant_method": "compressed-tensors", "quantization_status": "compressed", "sparsity_config": {},
        "transform_config": {}, "version": "0.12.3",
    },
    # Model Optimizer's
    {
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "group_size": 16}}},
        "ignore": ["lm_head", "model.layers.*.self_attn*"], "kv_cache_scheme": {"num_bits": 8, "type": "float"},
        "producer": {"name": "modelopt", "version": "0.34.1"}, "quant_algo": "NVFP4", "quant_method": "modelopt",
    },
]  # fmt: skip


@pytest.mark.parametrize("config", PUBLISHED, ids=lambda config: str(config["quant_method"]))
def test_published_configurations_are_read(config: dict[str, Any]) -> None:
    scheme = scheme_from_config(config, "config.json")
    assert scheme.method in {config["quant_method"], "modelopt"}
    name = f"{LAYER}self_attn.k_proj.weight"
    shrunk = sum(t.bytes for t in stored(name, (256, 256), "attention", scheme, "bf16"))
    assert (shrunk < 2 * 256 * 256) == (config["quant_method"] != "modelopt")


@pytest.mark.parametrize(
    ("config", "key", "text"),
    [
        ({"quant_method": "gptq", "bits": 5}, "bits", "found 5; accepted: 2, 3, 4, 8"),
        ({"quant_method": "gptq", "bits": "4"}, "bits", "found '4'"),
        ({"quant_method": "gptq", "bits": True}, "bits", "found True"),
        ({"quant_method": "gptq"}, "bits", "this key is missing; accepted: 2, 3, 4, 8"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 0}, "group_size", "found 0; accepted: >= 1, -1"),
        ({"quant_method": "gptq", "bits": 4, "groupsize": 128}, "groupsize", "did you mean group_size?"),
        ({"quant_method": "gptq", "bits": 4, "checkpoint_format": "marlin"}, "checkpoint_format", "'marlin'"),
        ({"quant_method": "gptq", "bits": 4, "is_marlin_format": True}, "is_marlin_format", "accepted: false"),
        ({"quant_method": "gptq", "bits": 4, "dynamic": {".*": {"bit": 8}}}, "dynamic..*.bit", "did you mean bits?"),
        ({"quant_method": "gptq", "bits": 4, "dynamic": {"(?!a)": {}}}, "dynamic", "the pattern (?!a)"),
        ({"quant_method": "gptq", "bits": 4, "dynamic": {".*": 3}}, "dynamic", "found 3; accepted: {"),
        (
            {"quant_method": "gptq", "bits": 4, "modules_in_block_to_quantize": "q"},
            "modules_in_block_to_quantize",
            "'q'",
        ),
        ({"quant_method": "awq", "bits": 8}, "bits", "accepted: 4"),
        ({"quant_method": "awq", "bits": 4, "version": "gemv"}, "version", "found 'gemv'; accepted: gemm"),
        ({"quant_method": "awq", "bits": 4, "modules_to_not_convert": [1]}, "modules_to_not_convert", "found [1]"),
        (
            {"load_in_4bit": True, "load_in_8bit": True},
            "load_in_4bit",
            "accepted: load_in_4bit: true, load_in_8bit: true",
        ),
        ({"quant_method": "bitsandbytes"}, "load_in_4bit", "accepted: load_in_4bit: true, load"),
        ({"load_in_4bit": True, "bnb_4bit_quant_type": "nf5"}, "bnb_4bit_quant_type", "accepted: fp4, nf4"),
        ({"load_in_4bit": True, "bnb_4bit_quant_storage": "int4"}, "bnb_4bit_quant_storage", "uint8, int8"),
        ({"quant_method": "fp8", "weight_block_size": [128]}, "weight_block_size", "found [128]"),
        ({"quant_method": "fp8", "weight_block_size": [128, 0]}, "weight_block_size", "found [128, 0]"),
        ({"quant_method": "fp8", "fmt": "e5m2"}, "fmt", "found 'e5m2'"),
        ({"quant_method": "fp8", "modules_to_not_convert": "lm_head"}, "modules_to_not_convert", "'lm_head'"),
        ({"quant_method": "modelopt"}, "quant_algo", "this key is missing"),
        ({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}, "quant_algo", "accepted: fp8, nvfp4"),
        ({"quant_method": "compressed-tensors", "format": "marlin-24"}, "format", "found 'marlin-24'"),
        ({**compressed([], ["Linear"]), "sparsity_config": {"format": "sparse-24-bitmask"}}, "sparsity_config", "null"),
        ({**compressed([], ["Linear"]), "format": None}, "config_groups.group_0.format", "found None"),
        (compressed(["Attention"], ["Linear"]), "ignore", "by the class Attention"),
        (compressed([], ["FusedMoE"]), "config_groups.group_0.targets", "by the class FusedMoE"),
        (compressed([], ["re:(x"]), "config_groups.group_0.targets", "the pattern (x is not understood"),
        ({"quant_method": "hqq"}, "quant_method", "hqq is not computed: its groups"),
        ({"quant_method": "gtpq"}, "quant_method", "found gtpq; did you mean gptq?"),
    ],
)
def test_what_is_wrong_is_named_with_its_key(config: dict[str, Any], key: str, text: str) -> None:
    with pytest.raises(InputError) as caught:
        scheme_from_config(config, "m/config.json")
    assert str(caught.value).startswith(f"m/config.json: quantization_config.{key}: ")
    assert text in str(caught.value)


@pytest.mark.parametrize("found", [None, [], "gptq", 4, {}, {"quant_method": 4}, {"quant_method": ""}])
def test_no_method_at_all(found: object) -> None:
    with pytest.raises(InputError, match=r"^config\.json: quantization_config: no quantization method"):
        scheme_from_config(found, "config.json")


def test_every_problem_is_reported_at_once() -> None:
    config = {"quant_method": "gptq", "bits": 5, "group_size": "x", "colour": 1, "sym": "yes"}
    with pytest.raises(InputErrors) as caught:
        scheme_from_config(config, "config.json")
    assert {problem.place.key for problem in caught.value.problems} == {
        "quantization_config.bits",
        "quantization_config.group_size",
        "quantization_config.colour",
        "quantization_config.sym",
    }


@pytest.mark.parametrize("method", sorted(REFUSED))
def test_refused_methods_say_why_and_which_way_the_error_would_go(method: str) -> None:
    with pytest.raises(InputError, match=f"{method} is not computed: .*(would|could) be too much") as caught:
        scheme_from_config({"quant_method": method.upper()}, "config.json")
    assert caught.value.message.code == REFUSED[method].code


def test_gpt2_modules_are_linear_for_some_methods_only() -> None:
    """Conv1D keeps (in, out): bitsandbytes and GPTQ take it, the others look for linear modules."""
    name, shape = "transformer.h.0.mlp.c_fc.weight", (96, 384)
    taken = {
        method: quantised(name, shape, "mlp", scheme_named(method), transposed=True)
        for method in ("nf4", "int8", "gptq-int4-g32", "fp8", "awq-int4-g32", "w8a8", "nvfp4")
    }
    assert taken == {
        "nf4": True, "int8": True, "gptq-int4-g32": True, "fp8": False, "awq-int4-g32": False, "w8a8": False,
        "nvfp4": False,
    }  # fmt: skip
    parts = {
        t.name[-7:]: t.shape for t in stored(name, shape, "mlp", scheme_named("gptq-int4-g32"), "fp16", transposed=True)
    }
    assert parts["qweight"] == (12, 384)
    by_class = scheme_from_config(compressed([], ["Linear"]), "config.json")
    assert not quantised(name, shape, "mlp", by_class, transposed=True)


@pytest.mark.oracle
def test_every_method_of_transformers_is_read_or_refused() -> None:
    auto = pytest.importorskip("transformers.quantizers.auto")
    known = {name.removesuffix("_4bit").removesuffix("_8bit") for name in auto.AUTO_QUANTIZER_MAPPING}
    assert known - READERS.keys() - REFUSED.keys() == set()
    assert not READERS.keys() & REFUSED.keys()


def test_a_configuration_and_the_name_of_the_same_format_agree() -> None:
    pairs: list[tuple[str, dict[str, Any]]] = [
        ("nf4_double", {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True}),
        ("int8", {"load_in_8bit": True}),
        ("fp8", {"quant_method": "fp8"}),
        ("fp8_block", {"quant_method": "fp8", "weight_block_size": [128, 128]}),
        ("gptq-int4-g128", {"quant_method": "gptq", "bits": 4, "group_size": 128}),
        ("gptq-int8", {"quant_method": "gptq", "bits": 8, "group_size": -1}),
        ("awq-int4-g128", {"quant_method": "awq", "bits": 4}),
        ("nvfp4", {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]}),
    ]
    parameters = decoder(**MISTRAL_7B)[:24]
    for name, config in pairs:
        named, read = scheme_named(name), scheme_from_config(config, "config.json")
        for parameter in parameters:
            assert stored(*parameter, named, "bf16") == stored(*parameter, read, "bf16"), name
