"""flash_attention_2 and 3 of transformers without the packages: what they keep, what they refuse, and undone."""

from __future__ import annotations

import contextlib
import inspect
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from transformers import LlamaConfig, LlamaForCausalLM, modeling_flash_attention_utils, modeling_utils  # noqa: E402

from capienza.trace import attention_packages, attention_reasons, probe  # noqa: E402
from capienza.trace.attention_packages import VERSION_2, VERSION_3  # noqa: E402
from capienza.trace.guard import cuda_accepted  # noqa: E402

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(not probe.works(), reason="this PyTorch accepts no fake cuda tensors"),
]


@contextlib.contextmanager
def stage(card=(8, 0)):
    chosen = []
    with (
        cuda_accepted(),
        torch.autograd.set_multithreading_enabled(False),
        FakeTensorMode(allow_non_fake_inputs=True),
        attention_packages.installed(card, lambda choice, call: chosen.append((choice, call))),
    ):
        yield chosen


def llama(implementation):
    config = LlamaConfig(
        hidden_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=256,
        vocab_size=1000, attn_implementation=implementation, dtype=torch.bfloat16,
    )  # fmt: skip
    with torch.device("cuda"):
        return LlamaForCausalLM._from_config(config)


@pytest.mark.parametrize("implementation", [VERSION_2, VERSION_3])
def test_a_model_trains(implementation):
    with stage() as chosen:
        model = llama(implementation)
        ids = torch.randint(0, 1000, (2, 64), device="cuda")
        model(input_ids=ids, labels=ids, use_cache=False).loss.backward()
        assert all(one.grad is not None for one in model.parameters())
    assert [choice.kernel for choice, _ in chosen] == [implementation] * 2
    assert chosen[0][1].query.shape == (2, 4, 64, 32)
    assert chosen[0][1].key.shape == (2, 2, 64, 32)
    told = [one.code for one in chosen[0][0].assumed]
    assert told == ([attention_reasons.AS_VERSION_2.code] if implementation == VERSION_3 else [])


def functions(implementation):
    return modeling_flash_attention_utils._lazy_imports(implementation)[:2]


def test_heads_are_padded_and_cut_and_the_backward_pass_keeps_what_flash_keeps():
    with stage():
        dense, _ = functions(VERSION_2)
        query = torch.randn(2, 48, 4, 60, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        out = dense(query, query, query, causal=True)
        assert out.shape == query.shape
        assert out.untyped_storage().nbytes() == 2 * 48 * 4 * 64 * 2
        out.sum().backward()
        assert query.grad.shape == query.shape


def test_packed_sequences():
    with stage() as chosen:
        _, packed = functions(VERSION_2)
        starts = torch.tensor([0, 10, 48], device="cuda", dtype=torch.int32)
        query = torch.randn(48, 4, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        out = packed(query, query, query, starts, starts, 38, 38, causal=True)
        out.sum().backward()
        assert out.shape == query.shape == query.grad.shape
    assert chosen[0][1].query.shape == (48, 4, 64)


def test_parameters_are_those_transformers_looks_for():
    with stage():
        for implementation, takes_dropout in ((VERSION_2, True), (VERSION_3, False)):
            dense, packed = functions(implementation)
            assert ("dropout_p" in inspect.signature(dense).parameters) == takes_dropout
            assert {"cu_seqlens_q", "max_seqlen_k", "window_size", "softcap"} <= set(
                inspect.signature(packed).parameters
            )
            with pytest.raises(TypeError):
                dense()


@pytest.mark.parametrize(
    ("card", "dtype", "size", "told"),
    [
        ((7, 5), torch.float16, 64, "Ampere"),
        ((8, 0), torch.float32, 64, "fp16 and bf16"),
        ((8, 0), torch.bfloat16, 320, "at most 256"),
    ],
)
def test_what_the_package_refuses(card, dtype, size, told):
    with stage(card):
        dense, _ = functions(VERSION_2)
        query = torch.randn(2, 48, 4, size, device="cuda", dtype=dtype)
        with pytest.raises(RuntimeError, match=told):
            dense(query, query, query)


def test_all_is_put_back():
    def state():
        return (
            {
                name: getattr(modeling_flash_attention_utils, name)
                for name in (*attention_packages.REMEMBERED, "_lazy_imports")
            },
            modeling_utils.PreTrainedModel._flash_attn_can_dispatch,
            modeling_utils.FLASH_ATTENTION_COMPATIBILITY_MATRIX,
        )

    before = state()
    with stage():
        llama(VERSION_2)
        assert state() != before
    assert state() == before
    with pytest.raises(ImportError):
        llama(VERSION_2)


def test_where_transformers_is_imported_only_in_the_program():
    program = """
import sys
from capienza.trace import attention_packages
with attention_packages.installed((8, 0), print):
    from transformers import modeling_flash_attention_utils, modeling_utils
    inside = modeling_flash_attention_utils._lazy_imports("flash_attention_2")
    assert modeling_utils.FLASH_ATTENTION_COMPATIBILITY_MATRIX[2]["general_availability_check"]()
assert callable(inside[0]) and "load" not in modeling_flash_attention_utils._lazy_imports.__qualname__
assert not any(type(one).__name__ == "_AfterImport" for one in sys.meta_path)
"""
    subprocess.run([sys.executable, "-c", program], check=True)
