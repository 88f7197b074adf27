"""Models whose files contradict each other: it is named, and nothing that it touches counts as proved."""

import json
import math
import shutil
import struct

import pytest

from capienza.architecture.registry import describe
from capienza.card.model import ModelRef
from capienza.formats.scheme import scheme_from_config, stored
from capienza.predict.model import load_model, resident_format

CONFIG = "Qwen--Qwen3-8B"
SMALL = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 96,
    "vocab_size": 128,
}
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": False, "sym": True}
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 32, "q_group_size": 64}
FP8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}
BNB = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}
WIDTHS = {"F32": 4, "BF16": 2, "F16": 2, "I32": 4, "F8_E4M3": 1, "U8": 1}


def safetensors(tensors) -> bytes:
    """A file of tensors, (dtype, shape) by name, whose data are zeros."""
    header, end = {}, 0
    for name, (dtype, shape) in tensors.items():
        begin, end = end, end + WIDTHS[dtype] * math.prod(shape)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(end)


def tensors_of(config, dtype):
    """The tensors that the files of such a model hold; packed ones where the configuration states GPTQ."""
    architecture = describe(config)
    scheme = scheme_from_config(GPTQ) if dtype == "I32" else None
    names = {"int32": "I32", "fp16": "F16", "bf16": "BF16"}
    return {
        tensor.name: (names.get(tensor.dtype, dtype) if scheme else dtype, list(tensor.shape))
        for one in architecture.parameters
        for tensor in stored(one.name, one.shape, one.role, scheme, "bf16")
    }


@pytest.fixture
def model(examples, tmp_path):
    """A folder with the config of Qwen3-8B made small, changed, and the weights that the unchanged one has."""

    def make(*, held="BF16", index=None, also=(), without="", renamed=(), **changes):
        folder = tmp_path / "m"
        shutil.copytree(examples / "configs" / CONFIG, folder)
        config = folder / "config.json"
        unchanged = json.loads(config.read_text()) | SMALL
        config.write_text(json.dumps(unchanged | changes))
        tensors = tensors_of(unchanged, held)
        tensors = {name: one for name, one in tensors.items() if not without or without not in name}
        tensors |= dict(renamed)
        name = "model.safetensors" if index is None else "model-00001-of-00001.safetensors"
        (folder / name).write_bytes(safetensors(tensors))
        if index is not None:
            document = {"metadata": {"total_size": index}, "weight_map": dict.fromkeys(tensors, name)}
            (folder / "model.safetensors.index.json").write_text(json.dumps(document))
        for other in also:
            (folder / other).write_bytes(b"x")
        return folder

    return make


def entry_of(document, name):
    (entry,) = [entry for entry in document["entries"] if entry["name"] == name]
    return entry


def sized(capienza, folder, *arguments):
    """The codes of the notes, and the weights entry."""
    document = json.loads(capienza("size", folder, *arguments, "--json").out)
    return {note["code"] for note in document["model"]["notes"]}, entry_of(document, "weights")


@pytest.mark.parametrize(
    "how, code",
    [
        ({"held": "F32"}, "predict.stored-in-another-format"),
        ({"quantization_config": GPTQ}, "predict.quantised-on-paper"),
        ({"quantization_config": BNB}, "predict.quantised-on-paper"),
        ({"torch_dtype": "bfloat17"}, "predict.unknown-dtype"),
        ({"torch_dtype": ["bfloat16"]}, "predict.unknown-dtype"),
        ({"torch_dtype": 5}, "predict.unknown-dtype"),
        ({"dtype": 5, "torch_dtype": "bfloat16"}, "predict.unknown-dtype"),
        ({"dtype": "float32", "torch_dtype": "bfloat16"}, "predict.several-number-formats"),
        ({"text_config": {"torch_dtype": "float32"}}, "predict.several-number-formats"),
        ({"torch_dtype": "float8_e4m3fn"}, "predict.stored-in-another-format"),
        ({"held": "F8_E4M3", "quantization_config": GPTQ}, "predict.quantised-on-paper"),
        ({"held": "I32", "quantization_config": FP8}, "predict.quantised-on-paper"),
        ({"held": "U8"}, "predict.quantised-unstated"),
        ({"held": "F8_E4M3"}, "predict.quantised-unstated"),
        ({"held": "I32"}, "predict.quantised-unstated"),
        ({"quantization_config": AWQ}, "predict.refused"),
        ({"quantization_config": GPTQ, "compression_config": FP8}, "predict.refused"),
        ({"quantization_config": GPTQ, "text_config": {"quantization_config": FP8}}, "predict.refused"),
        ({"without": ".layers.1."}, "architecture.elements-differ"),
        ({"num_hidden_layers": 1}, "architecture.more-layers"),
        ({"num_key_value_heads": 1, "intermediate_size": 96}, "architecture.elements-differ"),
        ({"index": 1}, "artifacts.index-other-total"),
        ({"index": -5}, "artifacts.index-other-total"),
        ({"index": 1.5}, "artifacts.index-odd-total"),
        ({"index": "lots"}, "artifacts.index-odd-total"),
        ({"index": [1]}, "artifacts.index-odd-total"),
        ({"also": ("pytorch_model.bin",)}, "predict.files-left-out"),
        ({"max_position_embeddings": 0}, "predict.refused"),
    ],
)
def test_what_contradicts_is_named(capienza, model, how, code):
    codes, _ = sized(capienza, model(**how))
    assert code in codes


BYTES = 2 * describe({"model_type": "qwen3", **SMALL}).num_parameters


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"index": BYTES},
        {"index": float(BYTES)},
        {"torch_dtype": None},
        {"torch_dtype": "torch.bfloat16"},
        {"held": "I32", "quantization_config": GPTQ},
        {"held": "I32", "compression_config": GPTQ},
        {"held": "I32", "quantization_config": GPTQ, "text_config": {"quantization_config": GPTQ}},
    ],
)
def test_what_agrees_is_not(capienza, model, how):
    codes, weights = sized(capienza, model(**how))
    assert not {code for code in codes if code.startswith(("predict.", "artifacts."))}
    assert weights["amount"]["floor_bytes"] == weights["amount"]["expected_bytes"] > 0
    assert weights["is_exact"]


@pytest.mark.parametrize("quantization", [GPTQ, BNB])
def test_weights_that_an_engine_may_quantise_while_loading_prove_nothing(capienza, model, quantization):
    folder = model(quantization_config=quantization)
    _, weights = sized(capienza, folder)
    assert (weights["amount"]["floor_bytes"], weights["amount"]["expected_bytes"]) == (0, BYTES)
    assert weights["status"] == "estimated"
    _, stated = sized(capienza, folder, "--weights", "bf16")
    assert stated["amount"]["floor_bytes"] == stated["amount"]["expected_bytes"] == BYTES


# what is changed, and the entries that keep a floor
DOUBTED = [
    ({"held": "F8_E4M3", "quantization_config": GPTQ}, {"kv_cache"}),
    ({"held": "U8"}, {"kv_cache"}),
    ({"torch_dtype": "float8_e4m3fn"}, set()),
    ({"torch_dtype": "float32"}, set()),
    ({"torch_dtype": "float16"}, {"weights", "kv_cache"}),
    ({"dtype": 5, "torch_dtype": "bfloat16"}, {"weights"}),
    ({"text_config": {"torch_dtype": "float32"}}, {"weights"}),
    ({"text_config": {"torch_dtype": "float16"}}, {"weights", "kv_cache"}),
    ({"num_hidden_layers": 1}, set()),
    ({"num_hidden_layers": 3}, {"weights"}),
    ({"without": ".layers.1."}, {"weights"}),
    ({"num_key_value_heads": 1, "intermediate_size": 96 + 21}, {"weights"}),
]


@pytest.mark.parametrize("how, kept", DOUBTED)
def test_a_floor_is_claimed_only_where_files_and_configuration_agree(capienza, model, how, kept):
    folder = model(**how)
    document = json.loads(capienza("size", folder, "--tokens", "64", "--json").out)
    entries = {name: entry_of(document, name)["amount"] for name in ("weights", "kv_cache")}
    assert {name for name, amount in entries.items() if amount["floor_bytes"]} == kept


@pytest.mark.parametrize(
    "stated, code",
    [
        ({"torch_dtype": "float8_e4m3fn"}, "predict.narrow-number-format"),
        ({"torch_dtype": "bfloat16", "dtype": "float32"}, "predict.several-number-formats"),
        ({"torch_dtype": "bfloat16", "dtype": 5}, "predict.unknown-dtype"),
    ],
)
def test_without_files_the_number_format_alone_is_doubted(capienza, model, stated, code):
    folder = model(**stated)
    (folder / "model.safetensors").unlink()
    document = json.loads(capienza("size", folder, "--tokens", "64", "--json").out)
    assert code in {note["code"] for note in document["model"]["notes"]}
    assert entry_of(document, "kv_cache")["amount"]["floor_bytes"] == 0
    assert bool(entry_of(document, "weights")["amount"]["floor_bytes"]) is (code == "predict.narrow-number-format")


@pytest.mark.parametrize("stated", ["bfloat17", ["bfloat16"], {"": "bfloat16"}, 16])
def test_a_number_format_that_is_not_known_is_named_where_nothing_else_tells_it(capienza, model, stated):
    folder = model(torch_dtype=stated)
    (folder / "model.safetensors").unlink()
    (error,) = json.loads(capienza("size", folder, "--json").out)["errors"]
    assert (error["code"], error["where"]) == ("predict.unknown-dtype", str(folder))


def test_a_stated_cache_format_does_not_follow_the_doubted_one(capienza, model, tmp_path):
    model(torch_dtype="float32")
    card = tmp_path / "card.yaml"
    card.write_text(
        "capienza: 1\nname: t\nmodel: {path: m}\ntask: inference\ntokens: {required: 64}\nconcurrency: 1\n"
        "engine: {name: vllm, options: {kv_cache_dtype: fp8}}\n"
    )
    document = json.loads(capienza("size", card, "--json").out)
    assert entry_of(document, "kv_cache")["is_exact"]
    assert entry_of(document, "weights")["amount"]["floor_bytes"] == 0


@pytest.mark.parametrize("how", [{"without": ".layers.1."}, {"without": "lm_head"}, {"num_hidden_layers": 3}])
def test_files_that_hold_a_part_of_the_weights_are_not_exact(capienza, model, how):
    codes, weights = sized(capienza, model(**how))
    amount = weights["amount"]
    assert "architecture.elements-differ" in codes
    assert not weights["is_exact"]
    assert 0 < amount["floor_bytes"] < amount["expected_bytes"] == amount["ceiling_bytes"]


def test_an_adapter_alone_is_not_the_model(capienza, model):
    folder = model()
    (folder / "model.safetensors").unlink()
    adapter = safetensors({"base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight": ("BF16", [8, 64])})
    (folder / "adapter_model.safetensors").write_bytes(adapter)
    _, weights = sized(capienza, folder)
    assert (weights["amount"]["floor_bytes"], weights["amount"]["ceiling_bytes"]) == (2 * 8 * 64, BYTES)


def test_evidence_covers_no_weight_format_that_the_files_contradict(model):
    assert resident_format(load_model(ModelRef(path=str(model(held="U8"))))) is None


def test_a_refused_config_is_named_with_its_key_in_both_languages(capienza, model):
    folder = model(max_position_embeddings=0)
    for language in ("en", "it"):
        shown = capienza("size", folder, "--lang", language)
        assert shown.code == 0
        assert "config.json: max_position_embeddings: " in shown.out
    assert "whole number" not in capienza("size", folder, "--lang", "it").out
