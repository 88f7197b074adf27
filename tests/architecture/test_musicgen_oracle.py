"""MusicGen's decoders, which transformers builds from a part of the file and not through its mapping."""

from __future__ import annotations

from random import Random

import pytest
from test_architecture_oracle import named_shapes
from test_families_oracle import TOKENS, held_bytes

from capienza.architecture.registry import describe
from capienza.errors import InputError
from capienza.predict.cache import TRANSFORMERS_RULE, cache_need

transformers = pytest.importorskip("transformers")
torch = pytest.importorskip("torch")

pytestmark = pytest.mark.oracle

CLASSES = {"musicgen": "MusicgenForCausalLM", "musicgen_melody": "MusicgenMelodyForCausalLM"}


def small_config(model_type, seed):
    random = Random(f"{model_type} {seed}")
    heads = random.choice([1, 2, 4])
    decoder = {
        "hidden_size": heads * random.choice([4, 8]),
        "num_hidden_layers": random.randint(1, 4),
        "num_attention_heads": heads,
        "ffn_dim": random.randint(1, 40),
        "vocab_size": random.randint(40, 90),
        "num_codebooks": random.randint(1, 4),
        "max_position_embeddings": 64,
        "tie_word_embeddings": random.random() < 0.5,
        "bos_token_id": 1,
        "pad_token_id": 0,
    }
    return {"model_type": model_type, "decoder": decoder}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("model_type", CLASSES)
def test_decoder_has_the_tensors_and_the_cache_of_transformers(model_type, seed):
    config = small_config(model_type, seed)
    whole = transformers.AutoConfig.for_model(model_type, decoder=config["decoder"])
    torch.manual_seed(0)
    model = getattr(transformers, CLASSES[model_type])(whole.decoder).to(torch.bfloat16).eval()
    architecture = describe(config)
    assert {parameter.name: parameter.shape for parameter in architecture.parameters} == named_shapes(model)
    codes = torch.arange(TOKENS).repeat(config["decoder"]["num_codebooks"], 1)
    with torch.no_grad():
        cache = model(input_ids=codes[:, :-1], use_cache=True).cache
        cache = model(input_ids=codes[:, -1:], cache=cache, use_cache=True).cache
    need = cache_need(architecture, TOKENS, "bf16", "bf16", TRANSFORMERS_RULE)
    assert need.windowed_bytes + need.state_bytes == held_bytes(cache)


@pytest.mark.parametrize("model_type", CLASSES)
def test_a_file_without_its_decoder_part_is_refused(model_type):
    with pytest.raises(InputError) as caught:
        describe({"model_type": model_type})
    assert caught.value.place.key == "decoder"
