"""What a product of grouped heads keeps where PyTorch takes it apart."""

from __future__ import annotations

import pytest

from capienza.predict.training.blocks.products import Shape, product
from capienza.predict.training.tape import ALLOCATED, FREED, Leaf, Tape, Tensor

TOKENS, HEADS, HEAD = 64, 8, 512
NUMBERS = HEADS * TOKENS * HEAD


def kept_bytes(*, keeps_groups: bool, head: int = HEAD, autocast: int | None = None) -> int:
    """Bytes that are held after a product of 16-bit rows, the result among them."""
    tape = Tape(autocast)
    shape = Shape(
        batch=1, tokens=TOKENS, heads=HEADS, key_heads=1, head=head, implementation="sdpa", keeps_groups=keeps_groups
    )
    sizes = (HEADS * TOKENS * head, TOKENS * head, TOKENS * head)
    rows = [Tensor(size, 2, None, (Leaf(), 0)) for size in sizes]
    made = product(tape, rows[0], rows[1], rows[2], shape)
    held: dict[object, int] = {}
    for code, block, size, _ in tape.events:
        if code == ALLOCATED:
            held[block] = size
        elif code == FREED:
            held.pop(block, None)
    assert made.item == 2
    return sum(held.values())


@pytest.mark.parametrize("autocast", [None, 2])
def test_wide_grouped_heads_are_taken_apart_in_fp32(autocast: int | None) -> None:
    # query, key and value of every head and the shares, in fp32, and the result in 16 bits
    worked = 3 * 4 * NUMBERS + 4 * HEADS * TOKENS**2 + 2 * NUMBERS
    assert kept_bytes(keeps_groups=True, autocast=autocast) == worked


def test_heads_up_to_256_stay_with_the_flash_kernel() -> None:
    assert kept_bytes(keeps_groups=True, head=256) == kept_bytes(keeps_groups=False, head=256)


def test_repeated_heads_keep_no_scores() -> None:
    assert kept_bytes(keeps_groups=False) < kept_bytes(keeps_groups=True)


@pytest.mark.oracle
def test_the_same_as_pytorch_keeps() -> None:
    torch = pytest.importorskip("torch")
    query = torch.randn(1, HEADS, TOKENS, HEAD, dtype=torch.bfloat16, requires_grad=True)
    key, value = (torch.randn(1, 1, TOKENS, HEAD, dtype=torch.bfloat16, requires_grad=True) for _ in "kv")
    held = []

    def hold(tensor: object) -> object:
        held.append(tensor)
        return tensor

    hooks = torch.autograd.graph.saved_tensors_hooks(hold, lambda tensor: tensor)
    with hooks, torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        made = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
    storages = {one.untyped_storage().data_ptr(): one.untyped_storage().nbytes() for one in [*held, made]}
    assert kept_bytes(keeps_groups=True) == sum(storages.values())
