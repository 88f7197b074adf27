"""More wrappers: tensors of the text side, and the cache of a text alone, inside the whole model of transformers."""

from __future__ import annotations

import inspect
import json
from random import Random

import pytest
from hybrid_configs import GENERATORS as HYBRIDS
from small_configs import encoders, seq2seq
from test_architecture_wrappers_oracle import TEXTS as EARLIER
from test_architecture_wrappers_oracle import VISION, text_name
from test_families_oracle import CACHE_NAMES, GENERATORS, held_bytes
from whole_texts import WHOLE
from wrapped_texts import TEXTS as WRAPPED

from capienza.architecture.registry import describe
from capienza.errors import InputError
from capienza.predict.cache import TRANSFORMERS_RULE, cache_need

transformers = pytest.importorskip("transformers")
torch = pytest.importorskip("torch")

pytestmark = pytest.mark.oracle

TEXTS = {**HYBRIDS, **EARLIER, **GENERATORS, **WRAPPED}
WRAPPERS = [
    ("apertus1p5", "apertus1p5_text"),
    ("aria", "aria_text"),
    ("aya_vision", "cohere2"),
    ("blip", "blip_text_model"),
    ("blip-2", "opt"),
    ("blip-2", "llama"),
    ("cohere2_vision", "cohere2"),
    ("cohere_compass", "cohere_compass_text"),
    ("cosmos3_edge", "cosmos3_edge_text"),
    ("cosmos3_omni", "qwen3_vl_text"),
    ("deepseek_ocr2", "deepseek_ocr2_text"),
    ("deepseek_vl", "llama"),
    ("deepseek_vl_hybrid", "llama"),
    ("ernie4_5_vl_moe", "ernie4_5_vl_moe_text"),
    ("exaone4_5", "exaone4"),
    ("fast_vlm", "qwen2"),
    ("glm46v", "glm4v_text"),
    ("glm46v", "glm4v_moe_text"),
    ("glm4v", "glm4v_text"),
    ("glm4v_moe", "glm4v_moe_text"),
    ("glm5_next", "glm5_next_text"),
    ("glm_ocr", "glm_ocr_text"),
    ("glmga", "glm4v_text"),
    ("granite4_vision", "granite4_vision_text"),
    ("granite_docling", "granite_docling_text"),
    ("hunyuan_vl", "hunyuan_vl_text"),
    ("hy_v4_vl", "hy_v4_vl_text"),
    ("hyperclovax_vision_v2", "hyperclovax"),
    ("idefics2", "mistral"),
    ("instructblip", "llama"),
    ("instructblip", "opt"),
    ("instructblipvideo", "opt"),
    ("janus", "llama"),
    ("kimi_k25", "deepseek_v3"),
    ("kosmos-2", "kosmos_2_text_model"),
    ("kosmos-2.5", "kosmos_2_5_text_model"),
    ("lfm2_vl", "lfm2"),
    ("lfm3_vl", "lfm3"),
    ("lighton_ocr", "qwen3"),
    ("llava_next_video", "llama"),
    ("llava_next_video", "mistral"),
    ("minicpm_ocr", "qwen3_5_text"),
    ("minicpmv4_6", "qwen3_5_text"),
    ("minicpmv4_7", "qwen3_5_text"),
    ("mistral3", "mistral4"),
    ("mistral_large4", "mistral_large4_text"),
    ("molmo2", "molmo2_text"),
    ("muse_glimmer", "muse_glimmer_text"),
    ("muse_spark", "muse_spark_text"),
    ("nemotron_h_omni", "nemotron_h"),
    ("ovis2", "qwen2"),
    ("ovis2", "gemma2"),
    ("paddleocr_vl", "paddleocr_vl_text"),
    ("perception_lm", "llama"),
    ("qianfan_ocr", "qwen3"),
    ("qwen2_5_omni_thinker", "qwen2_5_omni_text"),
    ("qwen3_omni_moe_thinker", "qwen3_omni_moe_text"),
    ("shieldgemma2", "gemma3_text"),
    ("step3p7", "step3p5"),
    ("unlimited_ocr", "unlimited_ocr_text"),
    ("video_llama_3", "qwen2"),
    ("video_llava", "llama"),
    ("vipllava", "llama"),
]
CLIP = {**VISION, "model_type": "clip_vision_model"}
TOKENS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
LENGTH = 12
NOT_COUNTED = ("model.vqmodel.", "model.vocabulary_mapping.", "model.vision_model.", "model.protein_encoder.")


def sides(wrapper: str, hidden: int, vocab: int) -> dict:
    """What else a class needs of the parts that are not described; some must fit the text part."""
    return {
        "apertus1p5": {
            "image_token_offset": 8,
            "audio_token_offset": 12,
            "vision_config": {"codebook_size": 4, "embed_dim": 4, "z_channels": 4, "base_channels": 32},
            "audio_config": {"model_type": "wavtokenizer_encoder", "codebook_size": 4},
        },
        "ernie4_5_vl_moe": {"vision_config": {**VISION, "hidden_size": 16}},
        "fast_vlm": {"vision_config": CLIP},
        "granite4_vision": {
            "deepstack_layer_map": [[0, 0]],
            "downsample_rate": "1/1",
            "vision_config": {**VISION, "hidden_size": 64},
        },
        "granite_docling": {"vision_config": {**VISION, "out_hidden_size": hidden}},
        "molmo2": {
            "vision_config": {**VISION, "image_size": [16, 16]},
            "adapter_config": {"vision_feature_layer": [0], "intermediate_size": 8, "text_hidden_size": hidden},
        },
        "muse_spark": {
            "audio_config": {"hidden_sizes": [4] * 4, "depths": [1] * 4, "out_hidden_size": hidden},
        },
        "nemotron_h_omni": {"vision_config": {**VISION, "video_temporal_patch_size": 2}},
        "ovis2": {"hidden_size": hidden, "vocab_size": vocab + 3},
        "perception_lm": {"vision_config": {**CLIP, "model_args": {"embed_dim": 8}}},
    }.get(wrapper, {})


def own_name(name: str) -> str | None:
    """The name a tensor has in the text model alone, which some wrappers keep whole inside them."""
    for inside in ("language_model.", "text_model.", "text_decoder."):
        if name.startswith(inside):
            return name.removeprefix(inside)
    return text_name(name)


def wrapped(wrapper: str, text_type: str, seed: int) -> dict:
    random = Random(f"{wrapper} {text_type} {seed}")
    text = {"model_type": text_type, **TEXTS[text_type](random)}
    if text_type == "deepseek_v3":
        text["num_key_value_heads"] = text["num_attention_heads"]  # transformers runs no other
    config = {"model_type": wrapper, "text_config": text, "vision_config": dict(VISION)}
    config["tie_word_embeddings"] = random.random() < 0.5
    return config | sides(wrapper, text.get("hidden_size", 0), text["vocab_size"])


def configure(config):
    values = {**config, "text_config": config["text_config"] | TOKENS}
    return transformers.AutoConfig.for_model(**values)


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("wrapper, text_type", WRAPPERS)
def test_text_side_equals_that_of_transformers(wrapper, text_type, seed):
    config = wrapped(wrapper, text_type, seed)
    with torch.device("meta"):
        model = transformers.AutoModelForImageTextToText.from_config(configure(config))
    parameters = {
        alone: tuple(parameter.shape)
        for name, parameter in model.named_parameters()
        if (alone := own_name(name)) is not None
    }
    architecture = describe(config)
    assert {parameter.name: parameter.shape for parameter in architecture.parameters} == parameters
    every = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    stored = {
        alone: tuple(tensor.shape)
        for name, tensor in model.state_dict().items()
        if name not in every and (alone := own_name(name)) is not None
    }
    assert {buffer.name: buffer.shape for buffer in architecture.buffers} == stored
    assert architecture.notes[0].code == "architecture.text-side-only"


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("wrapper, text_type", WRAPPERS)
def test_a_text_alone_fills_the_cache_that_is_described(wrapper, text_type, seed):
    """Only the text model is built with memory: it is the part of the whole model that fills the cache."""
    config = wrapped(wrapper, text_type, seed)
    with torch.device("meta"):
        decoder = transformers.AutoModelForImageTextToText.from_config(configure(config)).get_decoder()
    decoder.config._experts_implementation = "eager"
    torch.manual_seed(0)
    model = type(decoder)._from_config(decoder.config, dtype=torch.bfloat16).eval()
    tokens = torch.arange(LENGTH)[None] % 40
    with torch.no_grad():
        cache = transformers.DynamicCache(config=decoder.config)
        name = next(name for name in CACHE_NAMES if name in inspect.signature(model.forward).parameters)
        for step in (tokens[:, :-1], tokens[:, -1:]):
            model(input_ids=step, **{name: cache}, use_cache=True)
    need = cache_need(describe(config), LENGTH, "bf16", "bf16", TRANSFORMERS_RULE)
    assert need.windowed_bytes + need.state_bytes == held_bytes(cache)


def whole(model_type: str, seed: int) -> dict:
    return {"model_type": model_type, **WHOLE[model_type](Random(f"{model_type} {seed}"))}


def build_whole(config: dict, **more):
    made = transformers.AutoConfig.for_model(**config | TOKENS)
    if config["model_type"] == "evolla":  # its class is in no list that from_config reads
        return transformers.EvollaForProteinText2Text._from_config(made, **more)
    return transformers.AutoModelForImageTextToText.from_config(made, **more)


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("model_type", WHOLE)
def test_text_keys_at_the_top_make_the_tensors_of_transformers(model_type, seed):
    config = whole(model_type, seed)
    with torch.device("meta"):
        model = build_whole(config)
    theirs = {
        name: tuple(parameter.shape) for name, parameter in model.named_parameters() if not name.startswith(NOT_COUNTED)
    }
    assert {parameter.name: parameter.shape for parameter in describe(config).parameters} == theirs


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("model_type", ["chameleon", "evolla", "idefics", "mistral4"])
def test_text_keys_at_the_top_make_the_cache_of_transformers(model_type, seed):
    config = whole(model_type, seed)
    torch.manual_seed(0)
    model = build_whole(config, dtype=torch.bfloat16).eval()
    model.config._experts_implementation = "eager"
    tokens = torch.arange(LENGTH)[None] % 3
    cache = transformers.DynamicCache(config=model.config)
    name = next(name for name in CACHE_NAMES if name in inspect.signature(model.model.forward).parameters)
    with torch.no_grad():
        for step in (tokens[:, :-1], tokens[:, -1:]):
            seen = {}
            if model_type == "idefics":  # it runs only with the vectors of an image, and keeps nothing of them
                seen = {"image_encoder_embeddings": torch.zeros(1, 1, 4, 8, dtype=torch.bfloat16)}
                seen["image_attention_mask"] = torch.ones(1, step.shape[1], 1, dtype=torch.long)
            model(input_ids=step, **{name: cache}, use_cache=True, **seen)
    need = cache_need(describe(config), LENGTH, "bf16", "bf16", TRANSFORMERS_RULE)
    assert need.windowed_bytes + need.state_bytes == held_bytes(cache)


@pytest.mark.parametrize("name", ["qwen2_5_omni", "qwen3_omni_moe"])
def test_the_thinker_of_an_omni_file_is_what_is_described(name):
    alone = wrapped(f"{name}_thinker", f"{name}_text", 1)
    within = describe({"model_type": name, "thinker_config": alone, "talker_config": {}})
    assert within.parameters == describe(alone).parameters
    assert within.layers == describe(alone).layers


def page_readers(seed: int) -> dict[str, dict]:
    """Files whose decoder alone is described."""
    random = Random(f"page readers {seed}")
    bart = seq2seq.GENERATORS["bart"](random)
    formula = {key: value for key, value in bart.items() if key != "tie_word_embeddings"} | {"encoder_layers": 1}
    heads = random.choice([1, 2, 4])
    words = {"hidden_size": 8 * heads, "num_heads": heads, "d_kv": 8, "num_layers": random.randint(1, 4), "d_ff": 12}
    words |= {"vocab_size": 60, "relative_attention_num_buckets": 8}
    tied = {"tie_word_embeddings": random.random() < 0.5}
    vision = {"depths": [1], "embed_dim": [8], "num_heads": [2], "num_groups": [2], "patch_size": [3]}
    vision |= {"patch_stride": [2], "patch_padding": [1], "patch_prenorm": [False]}
    patches = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "d_kv": 4, "d_ff": 8, "seq_len": 8}
    vit = {"model_type": "vit", **VISION}
    text = random.choice(["bert", "mbart", "trocr", "roberta"])
    decoder = {"model_type": text, **{**encoders.GENERATORS, **seq2seq.GENERATORS}[text](random)}
    if decoder.get("cross_attention_hidden_size"):
        decoder["cross_attention_hidden_size"] = vit["hidden_size"]
    return {
        "florence2": {"text_config": {"model_type": "bart", **bart}, "vision_config": vision, **tied},
        "pix2struct": {"text_config": words, "vision_config": patches, **tied},
        "pp_formulanet": {"text_config": formula},
        "vision-encoder-decoder": {"decoder": decoder, "encoder": vit},
    }


# Where the decoder's tensors lie in the whole model, and where in the decoder alone.
DECODERS = {
    "florence2": {"model.language_model.decoder.": "model.decoder.", "lm_head.": "lm_head."},
    "pix2struct": {"decoder.": ""},
    "pp_formulanet": {"model.decoder.": "model.decoder.", "lm_head.": "lm_head."},
    "vision-encoder-decoder": {"decoder.": ""},
}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("model_type", DECODERS)
def test_the_decoder_of_a_page_reader_is_that_of_transformers(model_type, seed):
    config = {"model_type": model_type, **page_readers(seed)[model_type]}
    made = transformers.AutoConfig.for_model(**config)
    with torch.device("meta"):
        model = transformers.AutoModelForImageTextToText.from_config(made)
    theirs = {}
    for name, parameter in model.named_parameters():
        for inside, alone in DECODERS[model_type].items():
            if name.startswith(inside):
                theirs[alone + name.removeprefix(inside)] = tuple(parameter.shape)
    if model_type == "florence2":  # BART's two sides share one table, which has a name of its own
        theirs["model.decoder.embed_tokens.weight"] = tuple(model.model.language_model.shared.weight.shape)
    architecture = describe(config)
    assert {parameter.name: parameter.shape for parameter in architecture.parameters} == theirs
    assert "architecture.decoder-only" in {note.code for note in architecture.notes}


@pytest.mark.parametrize("model_type", ["diffusion_gemma", "pi0", "t5gemma2", "udop"])
def test_what_is_not_described_is_refused_by_its_name(model_type):
    with pytest.raises(InputError, match=f"model type {model_type} is not described") as caught:
        describe({"model_type": model_type, "text_config": {}})
    assert caught.value.place.key == "model_type"


SILENT = ["aya_vision", "deepseek_vl", "ernie4_5_vl_moe", "hunyuan_vl", "janus", "kimi_k25", "kosmos-2", "ovis2"]


@pytest.mark.parametrize("wrapper", SILENT)
def test_a_silent_file_keeps_the_head_of_its_text_part_and_a_note_gives_the_difference(wrapper):
    """transformers ties these, unless it finds a head in the model's files."""
    config = wrapped(wrapper, dict(WRAPPERS)[wrapper], 1)
    del config["tie_word_embeddings"]
    config["text_config"]["tie_word_embeddings"] = False
    own = describe(config)
    config["text_config"]["tie_word_embeddings"] = True
    shared = describe(config)
    note = next(note for note in own.notes if note.code == "architecture.silent-head")
    assert note.parameters["count"] == own.num_parameters - shared.num_parameters > 0
    assert "architecture.silent-head" not in {note.code for note in shared.notes}


@pytest.mark.parametrize(
    "name, text_type, older",
    [
        ("nemotron_h_omni", "nemotron_h", "llm_config"),
        ("unlimited_ocr", "unlimited_ocr_text", "language_config"),
    ],
)
def test_a_text_part_under_its_older_name_is_the_same(name, text_type, older):
    config = wrapped(name, text_type, 1)
    renamed = {key: value for key, value in config.items() if key != "text_config"} | {older: config["text_config"]}
    assert describe(renamed).parameters == describe(config).parameters


@pytest.mark.parametrize(
    "name, text_type",
    [
        ("glm5_next", "glm5_next_text"),
        ("hunyuan_vl", "hunyuan_vl_text"),
        ("paddleocr_vl", "paddleocr_vl_text"),
    ],
)
def test_text_keys_at_the_top_are_read_like_those_of_a_text_part(name, text_type):
    config = wrapped(name, text_type, 1) | {"tie_word_embeddings": True}
    flat = {"model_type": name, "tie_word_embeddings": True}
    flat |= {key: value for key, value in config["text_config"].items() if key not in flat}
    assert describe(flat).parameters == describe(config).parameters
    assert describe(flat).layers == describe(config).layers


@pytest.mark.parametrize("wrapper, text_type", WRAPPERS)
def test_a_file_written_by_transformers_describes_the_same_text_side(wrapper, text_type):
    """All defaults written out, nulls and derived keys included."""
    config = wrapped(wrapper, text_type, 1)
    written = json.loads(configure(config).to_json_string(use_diff=False))
    ours, theirs = describe(config), describe(written)
    assert theirs.parameters == ours.parameters
    assert theirs.layers == ours.layers


@pytest.mark.parametrize("wrapper, text_type", [pair for pair in WRAPPERS if pair[0] != "shieldgemma2"])
def test_the_class_that_transformers_builds_raises_no_note(wrapper, text_type):
    """ShieldGemma 2 is built by Gemma's class; its files name one of their own."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES as CLASSES

    config = wrapped(wrapper, text_type, 1) | {"architectures": [CLASSES[wrapper]]}
    codes = {note.code for note in describe(config).notes}
    assert not codes & {"architecture.other-head", "architecture.other-class"}
