"""Fine-tunings that see, hear or draw: `size` by the files' headers beside the trace of the same card."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.oracle

from capienza.api import size, trace  # noqa: E402 - after the libraries are known to be there
from capienza.errors import CapienzaError, InputError, UsageError  # noqa: E402

CARD = """capienza: 1
name: seeing
model: {{path: model}}
task: fine-tuning
engine: {{name: transformers, version: "5.24.0"}}
tokens: {{required: 8}}
microbatch: 2
training: {{{training}}}
"""
FULL = "method: full, optimizer: adamw, eval: none, export: none"
GPU = "A100 80GB SXM"


@pytest.fixture
def card(tmp_path: Path):
    def write(model, training=FULL):
        model.save_pretrained(tmp_path / "model")
        path = tmp_path / "card.yaml"
        path.write_text(CARD.format(training=training))
        return path

    return write


def vit():
    config = transformers.ViTConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2, image_size=32, patch_size=8,
        num_labels=3, architectures=["ViTForImageClassification"],
    )  # fmt: skip
    return transformers.ViTForImageClassification(config)


def resnet():
    config = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[16, 16, 32, 32], depths=[1, 1, 1, 1], num_labels=3,
        architectures=["ResNetForImageClassification"],
    )  # fmt: skip
    return transformers.ResNetForImageClassification(config)


def whisper():
    config = transformers.WhisperConfig(
        encoder_layers=1, decoder_layers=1, d_model=32, encoder_attention_heads=2, decoder_attention_heads=2,
        encoder_ffn_dim=64, decoder_ffn_dim=64, vocab_size=128, max_source_positions=50, num_mel_bins=8,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
        architectures=["WhisperForConditionalGeneration"],
    )  # fmt: skip
    return transformers.WhisperForConditionalGeneration(config)


def amount(sizing, name, phase="optimizer_step_steady"):
    return sum(
        one.amount.expected
        for one in sizing.ledger.entries
        if one.name == name and phase in map(str, one.phases) and one.amount is not None
    )


def traced_amount(found, name, phase="optimizer_step_steady"):
    ledger = found.prediction.ledger
    return sum(
        one.amount.expected
        for one in ledger.entries
        if one.name == name and phase in map(str, one.phases) and one.amount is not None
    )


def blocks_of(parameters):
    """What fp32 tensors take from the allocator, each rounded up to 512 B."""
    return sum(-(-4 * one.numel() // 512) * 512 for one in parameters)


@pytest.mark.parametrize("make, more", [(vit, ""), (resnet, ", image_size: 32")])
def test_what_size_knows_is_what_the_trace_holds(card, make, more):
    path = card(make(), FULL + more)
    sizing, found = size(path), trace(path, GPU)
    blocks = blocks_of(make().parameters())
    assert amount(sizing, "gradients") == blocks
    assert amount(sizing, "optimizer_states") == 2 * blocks
    requested = sum(4 * one.numel() for one in make().parameters())
    assert traced_amount(found, "gradients") == requested
    assert traced_amount(found, "optimizer_states") == pytest.approx(2 * requested, abs=1024)
    missing = sizing.ledger.predicted_peak("gpu:0").missing
    assert {"activations", "side_activations", "inputs"} <= set(missing)
    entry = next(one for one in sizing.ledger.entries if one.name == "side_activations")
    assert "trace" in str(entry.expected_proof)


def test_whisper_hears(card):
    path = card(whisper())
    assert "side_activations" in size(path).ledger.predicted_peak("gpu:0").missing
    assert trace(path, GPU).prediction.allocated_bytes > 0


def test_targets_that_the_files_name_otherwise_are_not_refused(card):
    """Checkpoints of ViT say query where the program's module is q_proj, or the other way round."""
    path = card(vit(), "method: lora, rank: 4, target_modules: [nowhere], optimizer: adamw, eval: none")
    assert "adapters" in size(path).ledger.predicted_peak("gpu:0").missing


def test_adapters_on_every_linear_module_by_hand(card):
    """Two layers: q, k, v, o 32 x 32 and the two of the MLP 32 x 64, rank 4, fp32."""
    path = card(vit(), "method: lora, rank: 4, target_modules: all-linear, optimizer: adamw, eval: none")
    pairs = 2 * (4 * (2 * 4 * 32) + 2 * (4 * 32 + 4 * 64))
    assert amount(size(path), "adapters") == pairs * 4


def test_a_larger_image_holds_more(card):
    small = trace(card(resnet(), FULL + ", image_size: 32"), GPU).prediction.allocated_bytes
    assert trace(card(resnet(), FULL + ", image_size: 128"), GPU).prediction.allocated_bytes > small


def test_an_image_of_no_size_is_asked_for(card):
    with pytest.raises(UsageError, match="image_size"):
        trace(card(resnet()), GPU)


def test_a_model_of_text_and_images_is_traced_on_text_alone_or_refused(tmp_path, examples):
    path = tmp_path / "card.yaml"
    model = examples / "configs" / "google--gemma-3-27b-it"
    training = "method: lora, rank: 4, targets: q_proj, optimizer: adamw, images: {images}"
    text = CARD.replace("path: model", f"path: {model}")
    path.write_text(text.format(training=training.format(images=1)))
    assert "side_activations" in size(path).ledger.predicted_peak("gpu:0").missing
    path.write_text(text.format(training=training.format(images=0)))
    assert "side_activations" not in size(path).ledger.predicted_peak("gpu:0").missing


@pytest.mark.parametrize("name", ["DiTTransformer2DModel", "AutoencoderKL"])
def test_another_class_of_diffusers_is_refused_by_name(tmp_path, name):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps({"_class_name": name, "in_channels": 4}))
    path = tmp_path / "card.yaml"
    path.write_text(CARD.format(training=FULL))
    with pytest.raises(CapienzaError) as caught:
        trace(path, GPU)
    assert isinstance(caught.value, InputError)


def test_a_unet_draws(card):
    diffusers = pytest.importorskip("diffusers")
    model = diffusers.UNet2DConditionModel(
        sample_size=8, block_out_channels=(32, 64), layers_per_block=1, cross_attention_dim=32, attention_head_dim=8,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
    )  # fmt: skip
    path = card(model, FULL + ", image_size: 64")
    sizing, found = size(path), trace(path, GPU)
    assert amount(sizing, "optimizer_states") == 2 * blocks_of(model.parameters())
    assert found.prediction.allocated_bytes > amount(sizing, "optimizer_states")
    with pytest.raises(UsageError, match="image_size"):
        trace(card(model), GPU)
