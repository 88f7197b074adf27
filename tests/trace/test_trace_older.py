"""Releases before those that this room is written for: transformers that import flash attention, bitsandbytes without
operations of its own. Neither is installed here; what stands for them has what the trace looks at."""

from __future__ import annotations

import importlib.machinery
import sys
import types

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from capienza.trace import attention_older, attention_packages, predict_peak, quantised  # noqa: E402

pytestmark = pytest.mark.oracle


class Base:
    """The class of all models, as it was before 4.55."""

    _supports_flash_attn_2 = True

    @classmethod
    def _check_and_enable_flash_attn_2(cls, _config, **_told):
        message = "the package flash_attn seems to be not installed"
        raise ImportError(message)


@pytest.fixture
def older(monkeypatch: pytest.MonkeyPatch):
    """The two modules of transformers in which its releases before 4.55 look for the package."""
    loading = types.ModuleType(attention_packages.LOADING)
    models = types.ModuleType(attention_packages.MODELS)
    models.PreTrainedModel = type("PreTrainedModel", (Base,), {})
    for module in (loading, models):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return loading, models


def test_an_older_transformers_finds_the_functions_while_it_is_traced(older) -> None:
    from transformers.utils import import_utils

    loading, models = older
    config = types.SimpleNamespace(_attn_implementation="sdpa")
    with attention_packages.installed((8, 0), lambda *_told: None):
        assert import_utils.is_flash_attn_2_available()
        assert "cu_seqlens_q" not in str(loading.flash_attn_func.__signature__)
        assert "cu_seqlens_q" in str(loading.flash_attn_varlen_func.__signature__)
        assert models.PreTrainedModel._check_and_enable_flash_attn_2(config, hard_check_only=True) is config
        assert config._attn_implementation == "sdpa"
        models.PreTrainedModel._check_and_enable_flash_attn_2(config, torch_dtype=torch.bfloat16)
        assert config._attn_implementation == "flash_attention_2"
        models.PreTrainedModel._supports_flash_attn_2 = False
        with pytest.raises(ValueError, match="does not support"):
            models.PreTrainedModel._check_and_enable_flash_attn_2(config)
    assert not hasattr(loading, "flash_attn_func")
    with pytest.raises(ImportError):
        models.PreTrainedModel._check_and_enable_flash_attn_2(config)


def test_the_installed_transformers_is_not_older() -> None:
    from transformers import modeling_flash_attention_utils

    assert not attention_older.is_older(modeling_flash_attention_utils)


@pytest.fixture
def direct(monkeypatch: pytest.MonkeyPatch):
    """bitsandbytes before 0.46, as far as it is looked at: functions that call the native library directly."""
    package = types.ModuleType("bitsandbytes")
    package.__spec__ = importlib.machinery.ModuleSpec("bitsandbytes", None, is_package=True)
    package.__path__ = []
    functional = types.ModuleType("bitsandbytes.functional")

    class GlobalPageManager:
        paged_tensors: list[object] = []
        one = None

        @classmethod
        def get_instance(cls):
            cls.one = cls.one or cls()
            return cls.one

    def no_library(_tensor):
        message = "this build has no native library"
        raise RuntimeError(message)

    def dequantised(packed, shape):
        out = torch.empty(shape, dtype=torch.bfloat16, device=packed.device)
        functional.lib.cdequantize_blockwise_bf16_nf4(functional.get_ptr(packed), functional.get_ptr(out))
        return out

    functional.GlobalPageManager, functional.get_ptr, functional.lib = GlobalPageManager, no_library, None
    functional.dequantised = dequantised
    for module in (package, functional):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.delitem(sys.modules, "bitsandbytes._ops", raising=False)
    return functional


def test_an_older_bitsandbytes_takes_its_memory_without_its_library(direct) -> None:
    assert quantised.is_older()
    elements = 1 << 22

    def step(packed) -> None:
        assert "adam" in direct.str2optimizer32bit
        for function in direct.str2optimizer8bit_blockwise["adam"]:
            function(direct.get_ptr(packed))
        direct.dequantised(packed, (elements,))

    found = predict_peak(lambda: torch.empty(elements // 2, dtype=torch.uint8, device="cuda"), step, steps=1)
    assert found.gpus[0].requested_bytes == elements // 2 + 2 * elements
    assert direct.lib is None
    assert not hasattr(direct, "str2optimizer32bit")
