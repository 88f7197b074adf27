"""Models whose files contradict each other: it is named, and nothing that it touches counts as proved."""

import json
import shutil
import struct

import pytest

CONFIG = "Qwen--Qwen3-8B"
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": True}
BNB = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}


@pytest.fixture
def model(examples, tmp_path):
    """A folder with the real config of Qwen3-8B, changed, and weights files of one small tensor each."""

    def make(*, dtype="BF16", index=None, also=(), **changes):
        folder = tmp_path / "m"
        shutil.copytree(examples / "configs" / CONFIG, folder)
        config = folder / "config.json"
        config.write_text(json.dumps(json.loads(config.read_text()) | changes))
        width = {"F32": 4, "BF16": 2, "I32": 4}[dtype]
        header = json.dumps({"t": {"dtype": dtype, "shape": [4], "data_offsets": [0, 4 * width]}}).encode()
        name = "model.safetensors" if index is None else "model-00001-of-00001.safetensors"
        (folder / name).write_bytes(struct.pack("<Q", len(header)) + header + bytes(4 * width))
        if index is not None:
            document = {"metadata": {"total_size": index}, "weight_map": {"t": name}}
            (folder / "model.safetensors.index.json").write_text(json.dumps(document))
        for other in also:
            (folder / other).write_bytes(b"x")
        return folder

    return make


def sized(capienza, folder, *arguments):
    """The codes of the notes, and the weights entry."""
    document = json.loads(capienza("size", folder, *arguments, "--json").out)
    (weights,) = [entry for entry in document["entries"] if entry["name"] == "weights"]
    return {note["code"] for note in document["model"]["notes"]}, weights


@pytest.mark.parametrize(
    "how, code",
    [
        ({"dtype": "F32"}, "predict.stored-in-another-format"),
        ({"quantization_config": GPTQ}, "predict.quantised-on-paper"),
        ({"quantization_config": BNB}, "predict.quantised-on-paper"),
        ({"torch_dtype": "bfloat17"}, "predict.unknown-dtype"),
        ({"torch_dtype": ["bfloat16"]}, "predict.unknown-dtype"),
        ({"index": 1}, "artifacts.index-other-total"),
        ({"also": ("pytorch_model.bin",)}, "predict.files-left-out"),
        ({"max_position_embeddings": 0}, "predict.refused"),
    ],
)
def test_what_contradicts_is_named(capienza, model, how, code):
    codes, _ = sized(capienza, model(**how))
    assert code in codes


@pytest.mark.parametrize(
    "how", [{}, {"index": 8}, {"torch_dtype": None}, {"dtype": "I32", "quantization_config": GPTQ}]
)
def test_what_agrees_is_not(capienza, model, how):
    codes, weights = sized(capienza, model(**how))
    assert not {code for code in codes if code.startswith(("predict.", "artifacts."))}
    assert weights["amount"]["floor_bytes"] == weights["amount"]["expected_bytes"] > 0


@pytest.mark.parametrize("quantization", [GPTQ, BNB])
def test_weights_that_an_engine_may_quantise_while_loading_prove_nothing(capienza, model, quantization):
    folder = model(quantization_config=quantization)
    _, weights = sized(capienza, folder)
    assert (weights["amount"]["floor_bytes"], weights["amount"]["expected_bytes"]) == (0, 8)
    assert weights["status"] == "estimated"
    _, stated = sized(capienza, folder, "--weights", "bf16")
    assert stated["amount"]["floor_bytes"] == stated["amount"]["expected_bytes"] > 10**10


def test_a_refused_config_is_named_with_its_key_in_both_languages(capienza, model):
    folder = model(max_position_embeddings=0)
    for language in ("en", "it"):
        shown = capienza("size", folder, "--lang", language)
        assert shown.code == 0
        assert "config.json: max_position_embeddings: " in shown.out
    assert "whole number" not in capienza("size", folder, "--lang", "it").out
