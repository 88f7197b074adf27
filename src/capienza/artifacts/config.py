"""`config.json` as it is written, and the quantisation file that some repositories keep beside it."""

from __future__ import annotations

import os
from typing import Any

from capienza.artifacts.folder import Folder, LocalFolder
from capienza.artifacts.json_text import read_json
from capienza.artifacts.source import LocalFile

CONFIG_NAME = "config.json"
QUANTIZATION_NAMES = {"hf_quant_config.json": "modelopt", "quantize_config.json": "gptq"}
"""Files read when the config has no `quantization_config`, and the method that each stands for."""


def read_config(path: str | os.PathLike[str]) -> dict[str, Any]:
    """A local `config.json` (or the folder that holds it), with the quantisation file beside it.

    Everything stays as written. When there is no `quantization_config` and a file of `QUANTIZATION_NAMES` lies beside,
    its content becomes `quantization_config`, with `quant_method` added where it names none.
    Raises `InputError` for a file that is no bounded JSON object, `UnreachableError` when it cannot be read.
    """
    path = os.fspath(path)
    if os.path.isdir(path):
        path = os.path.join(path, CONFIG_NAME)
    with LocalFile(path) as source:
        config = read_json(source)
    add_quantization(config, LocalFolder(os.path.dirname(path) or "."))
    return config


def add_quantization(config: dict[str, Any], folder: Folder) -> str | None:
    """Complete `config` in place from a quantisation file of the folder; the name of that file, if one was read."""
    if config.get("quantization_config") is not None:
        return None
    for name, method in QUANTIZATION_NAMES.items():
        if folder.has(name):
            with folder.open(name) as source:
                config["quantization_config"] = {"quant_method": method, **read_json(source)}
            return name
    return None
