"""How far the scaling of rotary positions reaches beyond the length that a model states."""

import json
from pathlib import Path

import pytest
from gguf_cases import described

from capienza.architecture.registry import describe
from capienza.errors import InputError

EXAMPLES = Path(__file__).parents[2] / "examples" / "configs"
QWEN2 = json.loads((EXAMPLES / "Qwen--Qwen2.5-7B" / "config.json").read_text()) | {"max_position_embeddings": 32768}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}


@pytest.mark.parametrize(
    "scaling, reach",
    [
        (None, None),
        ({}, None),
        (YARN, 131_072),
        ({"type": "yarn", "factor": 4, "original_max_position_embeddings": 32768}, 131_072),
        ({"type": "mrope", "rope_type": "yarn", "factor": 4.0}, 131_072),
        ({"rope_type": "yarn", "original_max_position_embeddings": 8192}, None),
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8192}, None),
        ({"type": "linear", "factor": 2.5}, 81_920),
        ({"type": "dynamic", "factor": 2.0}, 65_536),
        ({"type": "dynamic", "factor": 1.0}, None),
        ({"rope_type": "llama3", "factor": 32.0, "original_max_position_embeddings": 8192}, None),
        ({"rope_type": "longrope", "factor": 32.0, "original_max_position_embeddings": 4096}, None),
        ({"rope_type": "default", "rope_theta": 1e6}, None),
        ({"type": "mrope", "mrope_section": [16, 24, 24]}, None),
        ({"full_attention": YARN, "sliding_attention": {"rope_type": "default"}}, 131_072),
    ],
)
@pytest.mark.parametrize("key", ["rope_scaling", "rope_parameters"])
def test_reach(key, scaling, reach):
    assert describe({**QWEN2, key: scaling}).stretched_positions == reach


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*/config.json")), ids=lambda path: path.parent.name)
def test_published_configs_whose_limit_includes_the_scaling(path):
    # Gemma 3 states a linear factor beside a limit that includes it, which its keys do not tell.
    expected = 8 * 131_072 if path.parent.name.startswith("google--gemma-3-27b") else None
    assert describe(json.loads(path.read_text())).stretched_positions == expected


@pytest.mark.parametrize(
    "scaling, key",
    [
        ("yarn", "rope_scaling"),
        ({**YARN, "factor": "4"}, "rope_scaling.factor"),
        ({**YARN, "factor": 0}, "rope_scaling.factor"),
        ({**YARN, "factor": True}, "rope_scaling.factor"),
        ({**YARN, "rope_type": 3}, "rope_scaling.rope_type"),
        ({**YARN, "original_max_position_embeddings": -1}, "rope_scaling.original_max_position_embeddings"),
    ],
)
def test_what_is_not_understood_is_refused_with_its_key(scaling, key):
    with pytest.raises(InputError) as caught:
        describe({**QWEN2, "rope_scaling": scaling})
    assert caught.value.place.key == key


@pytest.mark.parametrize(
    "keys, reach",
    [
        ({}, None),
        ({"rope__scaling__type": "yarn", "rope__scaling__factor": 4.0}, 4 * 4096),
        ({"rope__scaling__type": "linear", "rope__scaling__factor": 0.0}, None),
        ({"rope__scaling__type": "none", "rope__scaling__factor": 4.0}, None),
        ({"rope__scaling__type": "yarn", "rope__scaling__factor": 4.0,
          "rope__scaling__original_context_length": 1024}, None),
    ],
)  # fmt: skip
def test_reach_of_a_gguf_file(keys, reach):
    assert described("qwen2", context_length=4096, **keys).stretched_positions == reach
