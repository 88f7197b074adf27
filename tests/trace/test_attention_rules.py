"""Which attention kernel a card runs: a table of worked cases, each with the rule that decides it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capienza.trace import attention_reasons as why
from capienza.trace.attention_call import (
    CUDNN,
    EFFICIENT,
    FLASH,
    KERNELS,
    MATH,
    Call,
    Machine,
    Operand,
    contiguous,
)
from capienza.trace.attention_rules import choose, head_alignment, order

T4, V100, A100, RTX3090, RTX4090 = (7, 5), (7, 0), (8, 0), (8, 6), (8, 9)
H100, B200, B300, RTX5090 = (9, 0), (10, 0), (10, 3), (12, 0)
OLD, NEW = (2, 8), (2, 13)


def call(
    *,
    dtype="bfloat16",
    size=128,
    heads=32,
    groups=None,
    queries=1024,
    keys=None,
    value_size=None,
    mask=None,
    trains=True,
    **more,
):
    """A call of batch 2; `groups` heads of key and value, with enable_gqa where they are fewer."""
    groups = groups or heads
    keys = keys or queries
    query = contiguous(2, heads, queries, size, dtype=dtype, requires_grad=trains)
    key = contiguous(2, groups, keys, size, dtype=dtype, requires_grad=trains)
    value = contiguous(2, groups, keys, value_size or size, dtype=dtype, requires_grad=trains)
    more.setdefault("enable_gqa", groups != heads)
    return Call(query, key, value, mask, **more)


def mask(*shape, dtype="bool", requires_grad=False):
    return contiguous(*shape, dtype=dtype, requires_grad=requires_grad)


LLAMA = {"heads": 32, "groups": 8, "is_causal": True}
PADDED = mask(2, 1, 1024, 1024)
LEARNED = mask(2, 1, 1024, 1024, dtype="bfloat16", requires_grad=True)
SPREAD = Operand((2, 1, 1024, 1024), (1024, 0, 0, 0), "bool")
# card, release of PyTorch, call, kernel, the reason for which the kernel named first was refused
CASES = [
    # Llama-8B, bf16: 32 heads over 8, heads of 128
    ("llama on an A100", A100, NEW, LLAMA, FLASH, None),
    ("llama on a 3090", RTX3090, NEW, LLAMA, FLASH, None),
    ("llama on a 4090", RTX4090, NEW, LLAMA, FLASH, None),
    ("llama on a 5090", RTX5090, NEW, LLAMA, FLASH, None),
    ("llama on an H100", H100, NEW, LLAMA, CUDNN, None),
    ("llama on an H100, before cuDNN came first", H100, OLD, LLAMA, FLASH, None),
    ("llama on an H100, cuDNN of 2.10", H100, (2, 10), LLAMA, FLASH, None),
    ("llama on a B200", B200, NEW, LLAMA, CUDNN, None),
    ("llama on a B300", B300, NEW, LLAMA, CUDNN, None),
    ("llama on a B300 of 2.9: 10.0 alone", B300, (2, 9), LLAMA, FLASH, None),
    ("llama on a T4: no bf16, no groups", T4, NEW, LLAMA, MATH, (FLASH, why.CAPABILITY)),
    ("llama in fp16 on a T4: groups", T4, NEW, LLAMA | {"dtype": "float16"}, MATH, (EFFICIENT, why.NO_GROUPS)),
    ("llama, heads repeated, on a T4", T4, NEW, {"dtype": "float16"}, EFFICIENT, (FLASH, why.CAPABILITY)),
    ("llama in fp32: groups", A100, NEW, LLAMA | {"dtype": "float32"}, MATH, (FLASH, why.TYPE)),
    ("llama in fp32, 2.14", A100, (2, 14), LLAMA | {"dtype": "float32"}, EFFICIENT, (FLASH, why.TYPE)),
    ("llama, one token after 500", A100, NEW, {"groups": 8, "queries": 1, "keys": 500, "trains": False}, FLASH, None),
    ("one token after 500 on an H100", H100, NEW, {"groups": 8, "queries": 1, "keys": 500}, CUDNN, None),
    ("one token after none on an H100", H100, NEW, {"queries": 1, "keys": 1}, FLASH, (CUDNN, why.LENGTHS)),
    # masks
    ("padded batch", A100, NEW, {"mask": PADDED}, EFFICIENT, (FLASH, why.HAS_MASK)),
    ("padded batch on an H100", H100, NEW, {"mask": PADDED}, CUDNN, None),
    ("mask that wants a gradient on an H100", H100, NEW, {"mask": LEARNED}, EFFICIENT, (CUDNN, why.MASK_GRADIENT)),
    ("mask of three dimensions on an H100", H100, NEW, {"mask": mask(1, 1024, 1024)}, EFFICIENT,
     (CUDNN, why.MASK_SHAPE)),
    ("mask of two dimensions on an H100", H100, NEW, {"mask": mask(1024, 1024)}, CUDNN, None),
    ("mask of a row on an H100", H100, NEW, {"mask": mask(2, 1, 1, 1024)}, CUDNN, None),
    ("mask and groups", A100, NEW, {"groups": 8, "mask": PADDED}, MATH, (EFFICIENT, why.NO_GROUPS)),
    ("mask that is not contiguous", A100, NEW, {"mask": SPREAD}, MATH, (EFFICIENT, why.STRIDE)),
    ("causal, fewer queries than keys", A100, NEW, {"is_causal": True, "keys": 2048}, EFFICIENT,
     (FLASH, why.CAUSAL_LENGTHS)),
    ("causal, more queries than keys", A100, NEW, {"is_causal": True, "keys": 512}, EFFICIENT,
     (FLASH, why.CAUSAL_LENGTHS)),
    ("more queries than keys", A100, NEW, {"keys": 512}, FLASH, None),
    # sizes of heads
    ("heads of 64", A100, NEW, {"size": 64}, FLASH, None),
    ("heads of 80", A100, NEW, {"size": 80}, FLASH, None),
    ("heads of 96", RTX4090, NEW, {"size": 96}, FLASH, None),
    ("heads of 60, padded for flash", A100, NEW, {"size": 60}, FLASH, None),
    ("heads of 60 with a mask", A100, NEW, {"size": 60, "mask": PADDED}, MATH, (EFFICIENT, why.HEAD_SIZES)),
    ("heads of 60 with a mask, fp32", A100, NEW, {"size": 60, "mask": PADDED, "dtype": "float32"}, EFFICIENT,
     (FLASH, why.HAS_MASK)),
    ("heads of 160", RTX3090, NEW, {"size": 160}, FLASH, None),
    ("heads of 192, trained on a 3090", RTX3090, NEW, {"size": 192}, FLASH, None),
    ("heads of 200, trained on a 3090", RTX3090, NEW, {"size": 200}, EFFICIENT, (FLASH, why.TRAINING_HEAD)),
    ("heads of 200, not trained", RTX3090, NEW, {"size": 200, "trains": False}, FLASH, None),
    ("heads of 200 without recording", RTX3090, NEW, {"size": 200, "gradients_recorded": False}, FLASH, None),
    ("heads of 256, trained on a 4090", RTX4090, NEW, {"size": 256}, FLASH, None),
    ("heads of 256 with dropout on a 4090", RTX4090, NEW, {"size": 256, "dropout": 0.1}, EFFICIENT,
     (FLASH, why.TRAINING_HEAD)),
    ("heads of 256 with dropout on an A100", A100, NEW, {"size": 256, "dropout": 0.1}, FLASH, None),
    ("heads of 224, trained on a 5090", RTX5090, NEW, {"size": 224}, EFFICIENT, (FLASH, why.TRAINING_HEAD)),
    ("heads of 256 on an H100", H100, NEW, {"size": 256}, FLASH, (CUDNN, why.HEAD_SIZES)),
    ("heads of 256 on an H100, 2.12", H100, (2, 12), {"size": 256}, CUDNN, None),
    ("heads of 256 on a B200, 2.12", B200, (2, 12), {"size": 256}, FLASH, (CUDNN, why.HEAD_SIZES)),
    ("heads of 512", A100, NEW, {"size": 512}, EFFICIENT, (FLASH, why.HEAD_SIZES)),
    ("latent heads, 192 over 128", A100, NEW, {"size": 192, "value_size": 128}, EFFICIENT, (FLASH, why.HEAD_SIZES)),
    ("latent heads, 192 over 128, on an H100", H100, NEW, {"size": 192, "value_size": 128}, CUDNN, None),
    ("latent heads, 192 over 128, on a B200", B200, (2, 12), {"size": 192, "value_size": 128}, CUDNN, None),
    # types
    ("fp16 on a V100", V100, NEW, {"dtype": "float16"}, EFFICIENT, (FLASH, why.CAPABILITY)),
    ("fp32 on a V100", V100, NEW, {"dtype": "float32"}, EFFICIENT, (FLASH, why.CAPABILITY)),
    ("bf16 on a V100", V100, NEW, {}, MATH, (EFFICIENT, why.TYPE)),
    ("fp64", A100, NEW, {"dtype": "float64"}, MATH, (EFFICIENT, why.TYPE)),
    ("fp32 on an H100", H100, NEW, {"dtype": "float32"}, EFFICIENT, (CUDNN, why.TYPE)),
    # dropout
    ("dropout", A100, NEW, {"dropout": 0.1}, FLASH, None),
    ("dropout of a tenth on an H100", H100, NEW, {"dropout": 0.1}, FLASH, (CUDNN, why.DROPOUT)),
    ("dropout of an eighth on an H100", H100, NEW, {"dropout": 0.125}, CUDNN, None),
    ("dropout of a tenth on an H100, 2.11", H100, (2, 11), {"dropout": 0.1}, CUDNN, None),
    # heads and batches
    ("fewer heads of key, no enable_gqa", A100, NEW, {"groups": 8, "enable_gqa": False}, MATH, (FLASH, why.HEADS)),
    ("heads that cannot be grouped", A100, NEW, {"groups": 5}, MATH, (FLASH, why.GROUPS)),
    ("one head of key and value", A100, NEW, {"groups": 1}, FLASH, None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("card", "release", "asked", "kernel", "refused"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_worked_cases(card, release, asked, kernel, refused):
    choice = choose(call(**asked), Machine(card, release))
    assert choice.kernel == kernel
    if refused is not None:
        asked_first, reason = refused
        found = {one.kernel: one.reason.code for one in choice.refused}
        assert found[asked_first] == reason.code
    else:
        assert choice.refused == ()


def test_there_are_cases_enough():
    assert len(CASES) >= 40
    assert {case[4] for case in CASES} == set(KERNELS)


@pytest.mark.parametrize(
    ("shapes", "reason"),
    [
        (((4, 100, 64), (4, 100, 64), (4, 100, 64)), why.NOT_4D),
        (((2, 4, 0, 64), (2, 4, 100, 64), (2, 4, 100, 64)), why.EMPTY),
        (((2, 4, 100, 64), (1, 4, 100, 64), (1, 4, 100, 64)), why.BATCHES),
        (((2, 4, 100, 64), (2, 4, 100, 64), (2, 2, 100, 64)), why.HEADS),
    ],
)
def test_unusual_shapes_go_to_the_formula(shapes, reason):
    made = Call(*(contiguous(*shape) for shape in shapes))
    choice = choose(made, Machine(A100, NEW))
    assert choice.kernel == MATH
    assert choice.refused[0].reason.code == reason.code


def test_a_nested_tensor_is_refused_by_name():
    nested = Operand((), (), "bfloat16", nested=True)
    choice = choose(Call(nested, nested, nested), Machine(A100, NEW))
    assert [one.reason.code for one in choice.refused] == [why.NESTED.code] * 2


def test_a_head_of_one_element_may_have_any_stride():
    thin = Operand((2, 4, 100, 1), (400, 100, 1, 100), "bfloat16")
    assert choose(Call(thin, thin, thin), Machine(A100, NEW)).kernel == FLASH
    wide = Operand((2, 4, 100, 64), (25600, 6400, 1, 100), "bfloat16")
    assert choose(Call(wide, wide, wide), Machine(A100, NEW)).kernel == MATH


def test_operands_that_begin_askew_matter_since_2_14():
    askew = Operand((2, 4, 100, 64), (25600, 6400, 64, 1), "float32", offset=1)
    assert choose(Call(askew, askew, askew), Machine(A100, NEW)).kernel == EFFICIENT
    later = choose(Call(askew, askew, askew), Machine(A100, (2, 14)))
    assert later.kernel == MATH
    assert later.refused[-1].reason.code == why.ALIGNMENT.code


def test_what_the_program_switched_off_is_not_asked_for():
    machine = Machine(A100, NEW, enabled=frozenset({MATH}))
    choice = choose(call(), machine)
    assert choice.kernel == MATH
    assert {one.reason.code for one in choice.refused} == {why.SWITCHED_OFF.code}
    assert choose(call(groups=5), Machine(A100, NEW, enabled=frozenset({FLASH}))).kernel is None


def test_the_programs_order_wins():
    machine = Machine(H100, NEW, order=(EFFICIENT, CUDNN, FLASH, MATH))
    assert choose(call(), machine).kernel == EFFICIENT


def test_deterministic_algorithms_leave_cudnn_out():
    assert choose(call(), Machine(H100, NEW, deterministic=True)).kernel == FLASH


def test_what_was_assumed_is_told():
    told = choose(call(), Machine(H100, NEW)).assumed
    assert [one.code for one in told] == [why.CUDNN_ASSUMED.code]
    assert "9.20.0" in str(told[0])
    assert choose(call(), Machine(H100, NEW, cudnn=92000)).assumed == ()
    wide = choose(call(size=256), Machine(H100, NEW, cudnn=92000)).assumed
    assert [one.code for one in wide] == [why.RULE_UNVERIFIED.code]
    assert choose(call(), Machine(A100, NEW)).assumed == ()


@pytest.mark.parametrize(
    ("card", "release", "cudnn", "asked", "first"),
    [
        (H100, (2, 10), 91501, None, CUDNN),
        (H100, (2, 10), 91500, None, FLASH),
        (B300, (2, 10), 91501, None, CUDNN),
        (H100, (2, 8), None, True, CUDNN),
        (H100, (2, 9), None, False, FLASH),
        (H100, (2, 13), None, False, FLASH),
        (RTX5090, (2, 13), None, None, FLASH),
    ],
)
def test_when_cudnn_comes_first(card, release, cudnn, asked, first):
    assert order(Machine(card, release, cudnn, cudnn_first=asked))[0] == first


@pytest.mark.parametrize(
    ("card", "dtype", "step"),
    [(A100, "bfloat16", 8), (A100, "float32", 4), (T4, "float16", 8), (T4, "float32", 1), ((6, 1), "float16", 1)],
)
def test_alignment_of_heads(card, dtype, step):
    assert head_alignment(dtype, Machine(card, NEW)) == step


CARDS = st.sampled_from([T4, V100, A100, RTX3090, RTX4090, H100, B200, B300, RTX5090])
CALLS = st.builds(
    call,
    dtype=st.sampled_from(["bfloat16", "float16", "float32"]),
    size=st.integers(1, 300),
    heads=st.sampled_from([1, 4, 12, 32]),
    groups=st.sampled_from([None, 1, 2, 4]),
    queries=st.integers(1, 300),
    keys=st.integers(1, 300),
    mask=st.sampled_from([None, mask(1, 1, 1, 1)]),
    trains=st.booleans(),
    is_causal=st.booleans(),
    dropout=st.sampled_from([0.0, 0.1, 0.5]),
)


@given(CALLS, CARDS, st.sampled_from([(2, 6), (2, 9), (2, 12), (2, 13), (2, 14)]))
def test_a_choice_says_why_each_before_it_was_refused(made, card, release):
    machine = Machine(card, release)
    choice = choose(made, machine)
    asked = order(machine)
    assert choice.kernel in asked
    assert tuple(one.kernel for one in choice.refused) == asked[: asked.index(choice.kernel)]
    for one in choice.refused:
        assert str(one.reason)


@given(CALLS, CARDS)
def test_switching_a_kernel_off_never_brings_in_one_that_was_refused(made, card):
    machine = Machine(card, NEW)
    first = choose(made, machine)
    without = Machine(card, NEW, enabled=frozenset(KERNELS) - {first.kernel})
    second = choose(made, without)
    assert second.kernel not in {one.kernel for one in first.refused} | {first.kernel}
