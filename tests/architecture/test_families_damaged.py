"""Every family of `small_configs/` with one key at a time damaged: an architecture or an `InputError`, and quickly."""

from __future__ import annotations

import copy
import importlib
import pkgutil
import time
from pathlib import Path
from random import Random

import pytest

from capienza.architecture.registry import describe
from capienza.errors import InputError

GENERATORS = {
    model_type: generator
    for found in pkgutil.iter_modules([str(Path(__file__).parent / "small_configs")])
    for model_type, generator in importlib.import_module(f"small_configs.{found.name}").GENERATORS.items()
}
ODD = [0, -1, 1.5, "x", None, True, 10**12, 2**31 - 1, [], [0], ["x"], [None], {}, {"0": 1}]
ALWAYS = ("layer_types", "mlp_layer_types", "per_layer_config", "sliding_window", "num_key_value_heads")


def damaged(config):
    """Each key of the file and of its parts, removed and then replaced by each odd value."""
    for path in [(), *((key,) for key, value in config.items() if isinstance(value, dict))]:
        part = config[path[0]] if path else config
        for key in {*part, *ALWAYS} - {"model_type"}:
            for value in (*ODD, ...):
                made = copy.deepcopy(config)
                inside = made[path[0]] if path else made
                inside.pop(key, None)
                if value is not ...:
                    inside[key] = value
                yield made


def outcome(config):
    """The architecture, or the one kind of error that a bad config may end in."""
    start = time.process_time()
    try:
        return describe(config)
    except InputError as error:
        return error
    finally:
        assert time.process_time() - start < 1


@pytest.mark.parametrize("model_type", GENERATORS)
def test_a_damaged_config_ends_in_an_architecture_or_an_input_error(model_type):
    refused = 0
    for config in damaged({"model_type": model_type, **GENERATORS[model_type](Random(f"{model_type} 1"))}):
        result = outcome(config)
        if isinstance(result, InputError):
            refused += 1
            assert result.place.key
            continue
        assert result.num_parameters > 0
        assert all(str(note) for note in result.notes)
        assert all(size >= 0 for parameter in result.parameters for size in parameter.shape)
    assert refused


@pytest.mark.parametrize("model_type", GENERATORS)
def test_equal_configs_give_equal_architectures(model_type):
    config = {"model_type": model_type, **GENERATORS[model_type](Random(f"{model_type} 2"))}
    assert describe(config) == describe(copy.deepcopy(config))
