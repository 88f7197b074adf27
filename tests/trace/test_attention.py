"""Attention on fake cuda tensors: what comes out of each kernel, what is prepared for it, and that all is put back."""

from __future__ import annotations

import contextlib

import pytest

torch = pytest.importorskip("torch")

from torch._subclasses import fake_impls  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402
from torch.nn.functional import scaled_dot_product_attention as attention  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from capienza.trace import probe  # noqa: E402
from capienza.trace.attention import installed  # noqa: E402
from capienza.trace.attention_call import CUDNN, EFFICIENT, FLASH, MATH  # noqa: E402
from capienza.trace.guard import cuda_accepted  # noqa: E402

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(not probe.works(), reason="this PyTorch accepts no fake cuda tensors"),
]

A100, T4, H100 = (8, 0), (7, 5), (9, 0)


class Names(TorchDispatchMode):
    """The operators that pass, by name, and the storages they make on cuda."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.__name__.partition(".")[0])
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def stage(card=A100, **more):
    """Fake cuda tensors on that card; gives the list of choices."""
    chosen = []
    with (
        cuda_accepted(),
        torch.autograd.set_multithreading_enabled(False),
        FakeTensorMode(),
        installed(card, lambda choice, call: chosen.append((choice, call)), **more),
    ):
        yield chosen


def tensor(*shape, dtype=torch.bfloat16, grad=True):
    return torch.randn(*shape, device="cuda", dtype=dtype, requires_grad=grad)


CASES = [
    (FLASH, A100, torch.bfloat16, {}),
    (CUDNN, H100, torch.bfloat16, {}),
    (EFFICIENT, A100, torch.float32, {}),
    (EFFICIENT, A100, torch.bfloat16, {"mask": True}),
    (MATH, T4, torch.bfloat16, {}),
    (MATH, T4, torch.bfloat16, {"mask": True}),
    (FLASH, A100, torch.bfloat16, {"causal": True}),
    (MATH, T4, torch.bfloat16, {"causal": True}),
    (FLASH, A100, torch.float16, {"groups": 2}),
    (CUDNN, H100, torch.float16, {"groups": 2}),
    (MATH, A100, torch.float32, {"groups": 2}),
    (FLASH, A100, torch.bfloat16, {"dropout": 0.1}),
    (MATH, T4, torch.bfloat16, {"dropout": 0.1}),
    (FLASH, A100, torch.bfloat16, {"size": 60}),
    (EFFICIENT, A100, torch.bfloat16, {"size": 512}),
    (EFFICIENT, A100, torch.bfloat16, {"size": 96, "value": 64}),
]


@pytest.mark.parametrize(("kernel", "card", "dtype", "more"), CASES)
def test_results_and_gradients_have_the_shapes_of_the_real_formula(kernel, card, dtype, more):
    heads, size = 4, more.get("size", 64)
    groups, value = more.get("groups", heads), more.get("value", size)
    shapes = [(2, heads, 48, size), (2, groups, 48, size), (2, groups, 48, value)]

    def run(device):
        inputs = [torch.randn(*shape, device=device, dtype=dtype, requires_grad=True) for shape in shapes]
        mask = torch.ones(2, 1, 48, 48, dtype=torch.bool, device=device) if more.get("mask") else None
        dropout = more.get("dropout", 0.0)
        out = attention(*inputs, mask, dropout, more.get("causal", False), enable_gqa=groups != heads)
        out.sum().backward()
        return [(tuple(one.shape), one.dtype) for one in (out, *(given.grad for given in inputs))]

    with stage(card) as chosen:
        seen = run("cuda")
    assert [choice.kernel for choice, _ in chosen] == [kernel]
    assert seen == run("cpu")


def test_the_result_lies_as_each_kernel_lays_it():
    with stage() as _:
        query = tensor(2, 48, 4, 64).transpose(1, 2)
        assert attention(query, query, query).stride() == query.stride()
        rows = tensor(2, 4, 48, 64, dtype=torch.float32)
        assert attention(rows, rows, rows).stride() == (48 * 4 * 64, 64, 4 * 64, 1)


@pytest.mark.parametrize(
    ("card", "mask_dtype", "shape"),
    [
        (A100, torch.bool, (2, 1, 1, 48)),
        (A100, torch.bool, (48, 48)),
        (A100, torch.bool, (1, 1, 48, 48)),
        (A100, torch.bfloat16, (2, 4, 48, 48)),
        (T4, torch.bfloat16, (2, 1, 48, 48)),
    ],
)
def test_masks_of_every_form(card, mask_dtype, shape):
    with stage(card) as chosen:
        mask = torch.ones(shape, device="cuda", dtype=mask_dtype)
        query = tensor(2, 4, 48, 64)
        out = attention(query, query, query, mask)
        out.sum().backward()
    assert out.shape == query.shape
    assert chosen[0][0].kernel == (EFFICIENT if card == A100 else MATH)


def test_a_mask_with_a_gradient_gets_it():
    with stage():
        mask = tensor(2, 4, 48, 40)
        query, key = tensor(2, 4, 48, 64), tensor(2, 4, 40, 64)
        attention(query, key, key, mask).sum().backward()
        assert mask.grad.shape == mask.shape


def test_heads_are_padded_for_flash_and_cut_after():
    with stage(), Names() as seen:
        query = tensor(2, 4, 48, 60)
        out = attention(query, query, query)
    assert out.shape[-1] == 60
    assert seen.names.count("constant_pad_nd") == 3
    assert out.untyped_storage().nbytes() == 2 * 4 * 48 * 64 * 2


@pytest.mark.parametrize(("keys", "padded_to"), [(48, None), (50, 56), (47, 48)])
def test_a_mask_is_padded_to_rows_of_eight(keys, padded_to):
    with stage(), Names() as seen:
        mask = tensor(2, 1, 48, keys, grad=False)
        query, key = tensor(2, 4, 48, 64), tensor(2, 4, keys, 64)
        out = attention(query, key, key, mask)
        saved = out.grad_fn._saved_attn_bias
        rows = saved.untyped_storage().nbytes() // (2 * 2 * 48)
    assert ("constant_pad_nd" in seen.names) == (padded_to is not None)
    assert rows == (padded_to or keys)


def test_a_mask_whose_rows_are_whole_but_lie_askew_gets_a_whole_step_more():
    with stage():
        wide = tensor(2, 1, 48, 49, grad=False)
        query = tensor(2, 4, 48, 64)
        out = attention(query, query, query, wide[..., :48])
        assert out.grad_fn._saved_attn_bias.untyped_storage().nbytes() == 2 * 48 * 56 * 2


def test_the_efficient_kernel_keeps_its_seed_in_main_memory():
    with stage():
        query = tensor(2, 4, 100, 64, dtype=torch.float32)
        saved = attention(query, query, query).grad_fn
        assert saved._saved_philox_seed.device.type == "cpu"
        assert saved._saved_log_sumexp.shape == (2, 4, 128)


def test_cudnn_keeps_no_sums_where_no_gradient_is_asked_for():
    operator = torch.ops.aten._scaled_dot_product_cudnn_attention
    with stage(H100):
        query = tensor(2, 4, 100, 64, grad=False)
        assert operator(query, query, query, None, False)[1].numel() == 0
        assert operator(query, query, query, None, True)[1].numel() == 800


def test_the_formula_adds_the_mask_in_place():
    with stage(T4), Names() as seen:
        query = tensor(2, 4, 48, 64)
        attention(query, query, query, is_causal=True)
    assert "add_" in seen.names
    assert "add" not in seen.names


def test_without_a_gradient_and_in_inference_mode_too():
    for mode in (torch.no_grad, torch.inference_mode):
        with stage() as chosen:
            query = tensor(2, 4, 48, 64)
            with mode():
                attention(query, query, query)
        assert [choice.kernel for choice, _ in chosen] == [FLASH]


def test_autocast_decides_the_type():
    with stage() as chosen, _autocast_on():
        query = tensor(2, 4, 48, 64, dtype=torch.float32)
        with torch.autocast("cuda", torch.float16):
            assert attention(query, query, query).dtype == torch.float16
    assert chosen[0][0].kernel == FLASH


@contextlib.contextmanager
def _autocast_on():
    from torch.cuda.amp import common

    before = common.amp_definitely_not_available
    common.amp_definitely_not_available = lambda: False
    try:
        yield
    finally:
        common.amp_definitely_not_available = before


def test_kernels_that_the_program_chose():
    with stage() as chosen:
        query = tensor(2, 4, 48, 64)
        with sdpa_kernel(SDPBackend.MATH):
            attention(query, query, query)
        with sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION, SDPBackend.FLASH_ATTENTION], set_priority=True):
            attention(query, query, query)
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION), pytest.raises(RuntimeError, match="No available kernel"):
            attention(query.float(), query.float(), query.float())
        attention(query, query, query)
    assert [choice.kernel for choice, _ in chosen] == [MATH, EFFICIENT, None, FLASH]


def test_a_switch_set_by_flag():
    torch.backends.cuda.enable_flash_sdp(False)
    try:
        with stage() as chosen:
            query = tensor(2, 4, 48, 64)
            attention(query, query, query)
    finally:
        torch.backends.cuda.enable_flash_sdp(True)
    assert chosen[0][0].kernel == EFFICIENT


def test_multi_head_attention_of_torch_passes_through_it():
    with stage() as chosen:
        layer = torch.nn.MultiheadAttention(64, 4, device="cuda", dtype=torch.bfloat16, batch_first=True)
        x = tensor(2, 48, 64)
        layer(x, x, x, need_weights=False)[0].sum().backward()
        encoder = torch.nn.TransformerEncoderLayer(64, 4, 128, device="cuda", dtype=torch.bfloat16, batch_first=True)
        encoder(x).sum().backward()
    assert [choice.kernel for choice, _ in chosen] == [FLASH, FLASH]


@pytest.mark.parametrize("shape", [(0, 4, 48, 64), (2, 4, 0, 64), (2, 4, 48, 0)])
def test_empty_operands_reach_no_kernel(shape):
    with stage() as chosen:
        query = tensor(*shape)
        out = attention(query, query, query)
        out.sum().backward()
        assert query.grad.shape == out.shape == shape
    assert chosen == []


def test_other_numbers_of_dimensions_go_to_the_formula():
    with stage() as chosen:
        for shape in ((48, 64), (4, 48, 64), (2, 3, 4, 48, 64)):
            query = tensor(*shape)
            assert attention(query, query, query).shape == shape
    assert {choice.kernel for choice, _ in chosen} == {MATH}


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ({"dtype": torch.float32}, "same dtype"),
        ({"device": "cpu"}, "one device"),
        ({"mask": torch.float16}, "attn_mask dtype"),
    ],
)
def test_what_no_kernel_takes_is_refused_as_by_torch(other, told):
    with stage():
        query = tensor(2, 4, 48, 64)
        key = torch.randn(2, 4, 48, 64, dtype=other.get("dtype", torch.bfloat16), device=other.get("device", "cuda"))
        mask = torch.zeros(48, 48, device="cuda", dtype=other["mask"]) if "mask" in other else None
        with pytest.raises(RuntimeError, match=told):
            attention(query, key, key, mask)


def test_two_masks_and_a_mask_of_another_type():
    with stage(T4):
        query, mask = tensor(2, 4, 48, 64), torch.ones(48, 48, device="cuda", dtype=torch.bool)
        with pytest.raises(RuntimeError, match="is_causal"):
            attention(query, query, query, mask, is_causal=True)
    with stage(A100):
        query, mask = tensor(2, 4, 48, 64), torch.zeros(48, 48, device="cuda")
        with pytest.raises(RuntimeError, match="invalid dtype for bias"):
            attention(query, query, query, mask)


def test_all_is_put_back():
    operator = torch.ops.aten.scaled_dot_product_attention.default
    table = dict(fake_impls.op_implementations_dict)
    kernels = dict(operator.py_kernels)

    def chosen_by_torch():
        with cuda_accepted(), FakeTensorMode():
            query = tensor(2, 4, 48, 64)
            return type(attention(query, query, query).grad_fn).__name__

    before = chosen_by_torch()
    for _ in range(2):
        with stage():
            query = tensor(2, 4, 48, 64)
            attention(query, query, query)
        with pytest.raises(ZeroDivisionError), stage():
            1 / 0  # noqa: B018
    assert chosen_by_torch() == before
    assert fake_impls.op_implementations_dict == table
    assert operator.py_kernels == kernels


def test_cpu_tensors_are_left_alone():
    with stage() as chosen:
        query = torch.randn(2, 4, 48, 64, requires_grad=True)
        attention(query, query, query).sum().backward()
    assert chosen == []
