"""What an optimizer keeps: worked sums, and the states that torch, transformers and bitsandbytes really hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from training_cards import FULL, replaced

from capienza.predict.training.states import saved_bytes, states_of
from capienza.predict.training.trained import Trained

SHAPES = ((300, 200), (64, 96), (200,))


def tensors(shapes=SHAPES, size=2, role="mlp", kind="whole"):
    return tuple(Trained(f"t{n}", None, shape, size, kind, role) for n, shape in enumerate(shapes))


def blocks(*sizes):
    return sum(-(-size // 512) * 512 for size in sizes)


# optimizer, elements of one bf16 tensor, bytes of the states in blocks
TABLE = [
    ({"family": "adamw"}, (1000, 100), blocks(200_000, 200_000)),
    ({"family": "adamw", "run": "fused"}, (1000, 100), blocks(200_000, 200_000, 4)),
    ({"family": "adamw", "run": "loop", "state_bits": 32, "library": "bitsandbytes"}, (1000, 100), blocks(4e5, 4e5)),
    # 8 bit: codes, a scale for 256 elements, and two tables of 1 KiB for all
    (
        {"family": "adamw", "state_bits": 8, "library": "bitsandbytes"},
        (1000, 100),
        blocks(100_000, 4 * 391) * 2 + 2048,
    ),
    # below 4096 elements the states stay in fp32, and no table is needed
    ({"family": "adamw", "state_bits": 8, "library": "bitsandbytes"}, (40, 100), blocks(16_000, 16_000)),
    ({"family": "lion", "state_bits": 8, "library": "bitsandbytes"}, (1000, 100), blocks(100_000, 4 * 391) + 1024),
    ({"family": "adamw", "state_bits": 8, "library": "torchao"}, (256, 100), blocks(25_600, 400, 1024) * 2),
    ({"family": "adamw", "state_bits": 4, "library": "torchao"}, (256, 100), blocks(12_800, 800, 64) * 2),
    ({"family": "sgd", "has_momentum": False}, (1000, 100), 0),
    ({"family": "sgd"}, (1000, 100), blocks(200_000)),
    ({"family": "rmsprop", "has_momentum": False}, (1000, 100), blocks(200_000)),
    ({"family": "adafactor", "library": "transformers"}, (1000, 100), blocks(4000, 400)),
    ({"family": "adafactor"}, (1000, 100), blocks(2000, 200)),
    ({"family": "muon"}, (1000, 100), blocks(200_000)),
    ({"family": "galore_adamw", "projection_rank": 8}, (1000, 100), blocks(16_000, 16_000, 1600)),
]


@pytest.mark.parametrize("optimizer, shape, expected", TABLE)
def test_worked_states(optimizer, shape, expected):
    recipe = replaced(**{f"optimizer_{name}": value for name, value in optimizer.items()})
    assert states_of(tensors((shape,)), recipe).allocated_bytes == int(expected)


def test_embeddings_keep_wide_states_under_the_trainer_alone():
    eight = {"optimizer_state_bits": 8, "optimizer_library": "bitsandbytes"}
    table = tensors(((1000, 100),), role="embedding")
    wide = states_of(table, replaced(**eight)).allocated_bytes
    assert wide == blocks(400_000, 400_000)
    assert states_of(table, replaced(framework="torchtune", **eight)).allocated_bytes < wide / 3


def test_old_releases_of_bitsandbytes_have_larger_blocks():
    eight = {"optimizer_state_bits": 8, "optimizer_library": "bitsandbytes"}
    new, old = (
        states_of(tensors(((4096, 4096),)), replaced(framework_version=f"bitsandbytes {release}", **eight)).gpu_bytes
        for release in ("0.45.0", "0.43.3")
    )
    assert new - old == 2 * (4 * 4096 * 4096 // 256 - 4 * 4096 * 4096 // 2048)


def test_paged_states_lie_in_managed_memory_from_a_hundred_thousand_elements():
    paged = replaced(optimizer_state_bits=32, optimizer_library="bitsandbytes", optimizer_is_paged=True)
    large, small = ((1000, 100),), ((999, 100),)
    assert (states_of(tensors(large), paged).allocated_bytes, states_of(tensors(large), paged).managed_bytes) == (
        0,
        800_000,
    )
    assert states_of(tensors(small), paged).managed_bytes == 0
    assert saved_bytes(tensors(large), paged) == 800_000


def test_master_weights_are_one_more_copy():
    master = replaced(precision_master="fp32")
    more = states_of(tensors(), master).gpu_bytes - states_of(tensors(), FULL).gpu_bytes
    assert more == blocks(*(4 * one.elements for one in tensors()))


OPTIMIZERS = st.fixed_dictionaries(
    {
        "family": st.sampled_from(["adamw", "adam", "lion", "sgd", "adafactor", "rmsprop", "adagrad", "muon"]),
        "state_bits": st.sampled_from([0, 32]),
        "has_momentum": st.booleans(),
    }
)


@given(OPTIMIZERS, st.lists(st.tuples(st.integers(1, 300), st.integers(1, 300)), min_size=1, max_size=5))
def test_more_tensors_never_keep_less_and_blocks_never_hold_less_than_what_is_saved(optimizer, shapes):
    recipe = replaced(**{f"optimizer_{name}": value for name, value in optimizer.items()})
    found = states_of(tensors(shapes), recipe).allocated_bytes
    assert found >= states_of(tensors(shapes[1:]), recipe).allocated_bytes
    assert found >= saved_bytes(tensors(shapes), recipe)


def held_after_a_step(make, dtype, is_kept=lambda _name, value: value.numel() > 1):
    """Bytes of the tensors that a real optimizer keeps after a step."""
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    parameters = [torch.nn.Parameter(torch.ones(shape, dtype=getattr(torch, dtype))) for shape in SHAPES]
    optimizer = make(torch, parameters)
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    return sum(
        value.nbytes
        for state in optimizer.state.values()
        for name, value in state.items()
        if hasattr(value, "nbytes") and is_kept(name, value)
    )


def _torch(name, **words):
    return lambda torch, parameters: getattr(torch.optim, name)(parameters, **words)


REAL = [
    (_torch("AdamW"), {"family": "adamw"}),
    (_torch("AdamW", foreach=False), {"family": "adamw", "run": "loop"}),
    (_torch("SGD", lr=0.1), {"family": "sgd", "has_momentum": False}),
    (_torch("SGD", lr=0.1, momentum=0.9), {"family": "sgd"}),
    (_torch("RMSprop"), {"family": "rmsprop", "has_momentum": False}),
    (_torch("RMSprop", momentum=0.9), {"family": "rmsprop"}),
    (_torch("Adagrad"), {"family": "adagrad"}),
    (_torch("Adafactor"), {"family": "adafactor"}),
]


@pytest.mark.oracle
@pytest.mark.parametrize("dtype, size", [("float32", 4), ("bfloat16", 2)])
@pytest.mark.parametrize("make, optimizer", REAL)
def test_torch_keeps_what_is_computed(make, optimizer, dtype, size):
    recipe = replaced(**{f"optimizer_{name}": value for name, value in optimizer.items()})
    assert saved_bytes(tensors(size=size), recipe) == held_after_a_step(make, dtype)


@pytest.mark.oracle
@pytest.mark.parametrize("dtype, size", [("float32", 4), ("bfloat16", 2)])
def test_transformers_adafactor_keeps_rows_and_columns_in_fp32(dtype, size):
    optimization = pytest.importorskip("transformers.optimization")

    def make(_torch, parameters):
        return optimization.Adafactor(parameters, scale_parameter=False, relative_step=False, lr=1e-3)

    recipe = replaced(optimizer_family="adafactor", optimizer_library="transformers")
    assert saved_bytes(tensors(size=size), recipe) == held_after_a_step(make, dtype)


@pytest.mark.oracle
@pytest.mark.parametrize("name, family", [("AdamW", "adamw"), ("Lion", "lion")])
@pytest.mark.parametrize("bits", [8, 32])
def test_bitsandbytes_makes_the_states_that_are_computed(name, family, bits):
    torch = pytest.importorskip("torch")
    optim = pytest.importorskip("bitsandbytes.optim")
    parameters = [torch.nn.Parameter(torch.ones(shape)) for shape in SHAPES]
    optimizer = getattr(optim, name)(parameters, optim_bits=bits)
    for place, parameter in enumerate(parameters):
        optimizer.init_state(optimizer.param_groups[0], parameter, 0, place)
    held = sum(
        value.nbytes
        for state in optimizer.state.values()
        for key, value in state.items()
        if hasattr(value, "nbytes") and not key.startswith("qmap")
    )
    recipe = replaced(optimizer_family=family, optimizer_state_bits=bits, optimizer_library="bitsandbytes")
    assert saved_bytes(tensors(size=4), recipe) == held
