"""`flash_attention_2` of transformers before 4.55, which takes the package's functions where its module is imported.

From 4.55 on the functions are loaded when a model first attends (`_lazy_imports`), and `attention_packages` answers
that. Seen with transformers 4.45 and 4.48. A model's module asks at its import whether the package is there; rows with
padding need the package's own functions for it, which are not here: such a run stops.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

UTILS = ("transformers.utils", "transformers.utils.import_utils")
ASKED = "is_flash_attn_2_available"


def is_older(loading: ModuleType) -> bool:
    """Does this module of transformers take the functions at its import?"""
    return not hasattr(loading, "_lazy_imports")


def changes(
    loading: ModuleType, models: ModuleType, dense: Callable[..., Any], packed: Callable[..., Any]
) -> Iterator[tuple[Any, str, Any]]:
    """What is set to what, as for the releases that follow: `dense` and `packed` are the package's two functions."""

    def enable(_class: Any, /, config: Any, *_told: Any, hard_check_only: bool = False, **_named: Any) -> Any:
        if not _class._supports_flash_attn_2:
            message = f"{_class.__name__} does not support Flash Attention 2.0 yet."
            raise ValueError(message)
        if not hard_check_only:
            config._attn_implementation = "flash_attention_2"
        return config

    yield loading, "flash_attn_func", dense
    yield loading, "flash_attn_varlen_func", packed
    yield loading, "_flash_supports_window_size", True
    yield models.PreTrainedModel, "_check_and_enable_flash_attn_2", classmethod(enable)
    for name in UTILS:
        yield importlib.import_module(name), ASKED, lambda: True
