"""The table of kernel scratch: figures worked by hand, laws, and every operator of real programs asked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capienza.allocator.reductions import buffer_bytes
from capienza.trace import kernels
from capienza.trace.kernels_attention import efficient_tile, flash_head, splits
from capienza.trace.kernels_blas import workspace_bytes
from capienza.trace.kernels_call import OP, PERSISTENT, WHOLE_CHIPS, Asked, Card, is_in_order

torch = pytest.importorskip("torch")

MIB = 1 << 20
A100, H100, RTX4090, T4 = Card((8, 0), (2, 13), 108), Card((9, 0), (2, 13), 132), Card((8, 9)), Card((7, 5))
aten = torch.ops.aten


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch):
    for name in ("CUBLAS_WORKSPACE_CONFIG", "TORCH_CUBLASLT_UNIFIED_WORKSPACE"):
        monkeypatch.delenv(name, raising=False)


def meta(*shape, dtype=torch.bfloat16):
    return torch.empty(*shape, dtype=dtype, device="meta")


def rows(operator, *args, card=A100, in_backward=False, deterministic=False, **named):
    return kernels.scratch(operator, args, named, card, in_backward=in_backward, deterministic=deterministic)


def in_all(found):
    assert all(row.lifetime == OP for row in found)
    return sum(row.bytes for row in found)


# --- products


@pytest.mark.parametrize(
    ("card", "configured", "size"),
    [
        (A100, None, 8_519_680),
        (RTX4090, None, 8_519_680),
        (T4, None, 8_519_680),
        (H100, None, 32 * MIB),
        (Card((10, 0)), None, 32 * MIB),
        (Card((12, 0)), None, 32 * MIB),
        (Card((10, 0), (2, 9)), None, 8_519_680),
        (A100, ":4096:8", 32 * MIB),
        (A100, ":16:8", 131_072),
        (A100, ":4096:2:16:8", 8_519_680),
        (A100, "nonsense", 8_519_680),
    ],
)
def test_workspace_of_cublas(card, configured, size):
    assert workspace_bytes(card, configured) == size


def test_each_thread_has_a_workspace_that_stays():
    a = meta(64, 128)
    (main,) = rows(aten.mm.default, a, a.t())
    (autograd,) = rows(aten.mm.default, a, a.t(), in_backward=True)
    assert main.lifetime == autograd.lifetime == PERSISTENT
    assert main.key != autograd.key
    assert main == rows(aten.bmm.default, meta(2, 8, 8), meta(2, 8, 8))[0]


def test_the_size_set_by_the_environment_counts(monkeypatch):
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")
    assert rows(aten.mm.default, meta(4, 4), meta(4, 4))[0].bytes == 131_072


def test_cublaslt_shared_the_block_of_cublas_since_2_11():
    bias, a, b = meta(128), meta(64, 32), meta(32, 128)
    assert len(rows(aten.addmm.default, bias, a, b)) == 1
    before = rows(aten.addmm.default, bias, a, b, card=Card((8, 0), (2, 9)))
    assert [row.bytes for row in before] == [8_519_680, MIB]
    assert not before[1].verified


@pytest.mark.parametrize(
    ("left", "extra"),
    [
        (meta(64, 128), 0),
        (meta(128, 64).t(), 0),
        (meta(64, 256)[:, :128], 0),
        (meta(1, 1).expand(64, 128), 64 * 128 * 2),
        (meta(64, 256)[:, ::2], 64 * 128 * 2),
        (meta(1, 128).expand(64, 128), 64 * 128 * 2),
    ],
)
def test_an_operand_that_cublas_cannot_read_is_copied(left, extra):
    found = rows(aten.mm.default, left, meta(128, 32))
    assert sum(row.bytes for row in found if row.lifetime == OP) == extra


def test_four_bit_products():
    weight, scales = meta(4096 * 4096 // 2, 1, dtype=torch.uint8), meta(4096 * 4096 // 64, dtype=torch.float32)

    def found(count, **more):
        asked = Asked((meta(1, count, 4096), weight, [4096, 4096], scales, 64, "nf4"), more, A100)
        return {row.name: row for row in kernels.TABLE["bitsandbytes.gemm_4bit"](asked)}

    assert found(1) == {}
    many = found(2048)["4-bit weight, dequantised"]
    assert many.bytes == 4096 * 4096 * 2
    assert many.verified
    assert not found(512)["4-bit weight, dequantised"].verified
    nested = found(2048, absmax_8bit=meta(4096 * 4096 // 64, dtype=torch.uint8))
    assert nested["4-bit scales, dequantised"].bytes == 2 * 262_144 * 4


# --- attention


@pytest.mark.parametrize(
    ("size", "as_flash"), [(32, 32), (60, 64), (64, 64), (80, 96), (128, 128), (160, 192), (256, 256)]
)
def test_head_as_flash_rounds_it(size, as_flash):
    assert flash_head(size) == as_flash


@pytest.mark.parametrize(
    ("blocks", "processors", "key_blocks", "count"),
    [(1000, 216, 16, 1), (173, 216, 16, 1), (32, 216, 4, 4), (8, 216, 32, 16), (8, 216, 16, 16), (1, 216, 1, 1)],
)
def test_splits_of_the_keys(blocks, processors, key_blocks, count):
    assert splits(blocks, processors, key_blocks) == count


def test_flash_of_one_token_keeps_partial_results():
    # 32 heads over 8: 4 queries of 8 heads; 8 blocks over 2 x 108; 4096 keys are 32 blocks of 128, cut 16 ways
    query, key = meta(1, 32, 1, 128), meta(1, 8, 4096, 128)
    found = rows(aten._scaled_dot_product_flash_attention.default, query, key, key)
    assert [row.bytes for row in found] == [16 * 8 * 4 * 128 * 4, 16 * 8 * 4 * 4]
    assert all(row.verified for row in found)
    assert rows(aten._scaled_dot_product_flash_attention.default, query, key, key, 0.1) == ()
    long = meta(1, 32, 4096, 128)
    assert rows(aten._scaled_dot_product_flash_attention.default, long, long, long) == ()


def flash_backward(query, key, out=None, gradient=None, **more):
    out = query if out is None else out
    gradient = out if gradient is None else gradient
    sums = meta(*query.shape[:3], dtype=torch.float32)
    return rows(
        aten._scaled_dot_product_flash_attention_backward.default, gradient, query, key, key, out, sums, None, None,
        query.shape[2], key.shape[2], 0.0, True, None, None, **more,
    )  # fmt: skip


def laid(batch, heads, length, size):
    """As a model lays it: (B, L, H, E) in memory."""
    return meta(batch, length, heads, size).transpose(1, 2)


def test_flash_backward_of_llama():
    # 2048 queries, 32 heads of 128 in fp32; sums; gradients of key and value for 32 heads instead of 8
    query, key = laid(1, 32, 2048, 128), laid(1, 8, 2048, 128)
    wanted = 2048 * 32 * 128 * 4 + 2048 * 32 * 4 + 2 * 2048 * 32 * 128 * 2
    assert in_all(flash_backward(query, key)) == wanted
    assert in_all(flash_backward(query, laid(1, 32, 2048, 128))) == 2048 * 32 * 128 * 4 + 2048 * 32 * 4


def test_flash_backward_rounds_and_copies():
    query = laid(2, 4, 100, 80)
    wanted = 2 * 128 * 4 * 96 * 4 + 2 * 128 * 4 * 4
    assert in_all(flash_backward(query, query)) == wanted
    by_heads = meta(2, 4, 100, 80)
    assert in_all(flash_backward(by_heads, by_heads)) == wanted + 2 * by_heads.numel() * 2
    # deterministic: one accumulator for each of ceil(108 / 8) parts
    assert in_all(flash_backward(query, query, deterministic=True)) == 14 * 2 * 128 * 4 * 96 * 4 + 2 * 128 * 4 * 4


def test_flash_backward_of_packed_sequences():
    query = meta(1000, 4, 64)
    starts = meta(4, dtype=torch.int32)
    found = rows(
        aten._flash_attention_backward.default,
        query,
        query,
        query,
        query,
        query,
        meta(4, 1000),
        starts,
        starts,
        400,
        400,
    )
    assert in_all(found) == (1000 + 128 * 3) * 4 * 64 * 4 + (1000 + 128 * 3) * 4 * 4


def efficient_backward(query, card, **more):
    return rows(
        aten._scaled_dot_product_efficient_attention_backward.default, query, query, query, query, None, query,
        meta(1, dtype=torch.float32), None, None, 0.0, [True, True, True, False], card=card, **more,
    )  # fmt: skip


def test_efficient_backward():
    # 1024 queries, 16 heads of 64 in fp32: tiles of 64 x 64 and 16 bytes before each
    query = meta(2, 1024, 16, 64, dtype=torch.float32).transpose(1, 2)
    tiles = 2 * 16 * (1024 // 64) * (16 + 64 * 64 * 4)
    assert in_all(efficient_backward(query, A100)) == max(tiles, query.numel() * 4) + 2 * 16 * 1024 * 4
    half = query.to(torch.bfloat16)
    assert in_all(efficient_backward(half, A100)) == tiles + 2 * 16 * 1024 * 4
    # heads of 128 on an A100: 128 x 128, all in registers; on a 4090 64 x 64 with dK and dV in memory
    wide = laid(1, 32, 1024, 128)
    large = 32 * 8 * (16 + 128 * 128 * 4)
    assert in_all(efficient_backward(wide, A100)) == large + 32 * 1024 * 4
    # 200 // 32 = 6 parts of 64 keys, two gradients of 128
    small = 32 * (16 * 2 * (16 + 64 * 64 * 4) + 6 * 64 * 2 * 128 * 4)
    assert in_all(efficient_backward(wide, RTX4090)) == small + 32 * 1024 * 4


@pytest.mark.parametrize(
    ("card", "size", "half", "tile"),
    [
        (A100, 64, True, (64, 64, True)),
        (A100, 128, True, (128, 128, True)),
        (RTX4090, 96, True, (128, 64, True)),
        (RTX4090, 128, True, (64, 64, False)),
        (Card((12, 0)), 96, True, (64, 64, False)),
        (T4, 128, True, (64, 64, False)),
        (Card((7, 0)), 128, True, (128, 64, True)),
        (A100, 256, True, (128, 64, False)),
        (A100, 64, False, (64, 64, False)),
    ],
)
def test_tiles_of_the_efficient_kernel(card, size, half, tile):
    assert efficient_tile(size, half, Asked((), {}, card)) == tile


def test_efficient_forward_needs_fp32_for_wide_heads_in_half():
    query = meta(1, 4, 100, 256)
    operator = aten._scaled_dot_product_efficient_attention.default
    assert in_all(rows(operator, query, query, query, None, True)) == query.numel() * 4
    assert rows(operator, meta(1, 4, 100, 128), query, meta(1, 4, 100, 128), None, True) == ()
    assert rows(operator, query.float(), query.float(), query.float(), None, True) == ()


def test_cudnn_asks_for_what_nobody_knows():
    query = meta(1, 4, 100, 64)
    found = rows(aten._scaled_dot_product_cudnn_attention.default, query, query, query, None, True, card=H100)
    assert [row.bytes for row in found] == [None]


def test_the_plain_softmax_marks_what_is_masked():
    scores = meta(2, 4, 100, 100, dtype=torch.float32)
    assert in_all(rows(aten._safe_softmax.default, scores, -1)) == 80_000 + 800


# --- sorting and indexing


def test_sort():
    assert in_all(rows(aten.sort.default, meta(8, 1000))) == 1000 * 8
    # one row of 128000 in bf16: positions, and keys and positions once more, and the counters of the radix sort
    assert in_all(rows(aten.sort.default, meta(1, 128_000))) == 128_000 * 8 + 128_000 * 10 + 6655
    # 4 rows: positions and rows twice, the keys, and keys and positions once more
    assert in_all(rows(aten.sort.default, meta(4, 128_000))) == 4 * 128_000 * (16 + 2 + 10) + 6655
    assert in_all(rows(aten.sort.default, meta(200, 5000))) == 200 * 5000 * (8 + 10) + 6655
    turned = meta(5000, 200).t()
    assert in_all(rows(aten.sort.default, turned)) == 200 * 5000 * (2 + 8 + 10) + 6655
    assert rows(aten.sort.default, meta(0)) == ()
    assert rows(aten.sort.default, meta(())) == ()


def test_topk_and_multinomial():
    assert rows(aten.topk.default, meta(512, 8), 2) == ()
    vocabulary = meta(1, 128_000)
    assert in_all(rows(aten.topk.default, vocabulary, 50)) == 2 + 12 + 125 * 520
    assert rows(aten.topk.default, meta(1, 19_999), 50) == ()
    assert rows(aten.topk.default, meta(1, 128_000), 0) == ()
    # 5000 chosen: once more values, positions and positions gathered, then a sort of one slice
    assert in_all(rows(aten.topk.default, meta(1, 10_000), 5000)) == 5000 * (2 + 16) + 5000 * (8 + 10) + 6655
    assert rows(aten.topk.default, meta(1, 10_000), 5000, -1, True, False) == ()
    weights = meta(2, 1000, dtype=torch.float32)
    assert in_all(rows(aten.multinomial.default, weights, 1)) == 8000
    assert rows(aten.multinomial.default, weights, 5, True) == ()


def test_norm_backward_over_many_short_rows():
    operator, tensor, weight = aten._fused_rms_norm_backward.default, meta(100_000, 128), meta(128)
    statistics = meta(100_000, 1, dtype=torch.float32)
    parts = min(100_000 // 32, 32_768 // 4)
    taken = rows(operator, tensor, tensor, [128], statistics, weight, [True, True])
    assert taken[0].bytes == parts * 128 * 2
    few = meta(65_536, 128)
    assert rows(operator, few, few, [128], statistics, weight, [True, True]) == ()
    wide, wide_weight = meta(70_000, 4096), meta(4096)
    assert rows(operator, wide, wide, [4096], statistics, wide_weight, [True, True]) == ()
    both = aten.native_layer_norm_backward.default
    taken = rows(both, tensor, tensor, [128], statistics, statistics, weight, weight, [True, True, True])
    assert taken[0].bytes == parts * 128 * 2 * 2
    assert rows(both, tensor, tensor, [128], statistics, statistics, None, None, [True, False, False]) == ()


def test_embedding_backward():
    gradient, few, many = meta(3072, 4096), meta(3072, dtype=torch.int64), meta(16_384, dtype=torch.int64)
    operator = aten.embedding_dense_backward.default
    assert rows(operator, gradient, few, 128_256, -1, False) == ()
    # 16384 sorted and ordered; the parts are 16384 // 10 + 16384, of 4096 in fp32
    parts = 1638 + 16_384
    wanted = 2 * 16_384 * 8 + (16_384 + 2 * 16_384 + parts) * 8 + 16 + parts * 4096 * 4
    assert in_all(rows(operator, meta(16_384, 4096), many, 128_256, -1, False)) == wanted
    # with 100 rows there are at most 100 sums besides
    parts = 1638 + 100
    wanted = 2 * 16_384 * 8 + (16_384 + 200 + parts) * 8 + 16 + parts * 64 * 4
    assert in_all(rows(operator, meta(16_384, 64), many, 100, -1, False)) == wanted


def test_index_put_sorts_only_what_is_added():
    target, index, values = meta(1000, 64), meta(500, dtype=torch.int64), meta(500, 64)
    operator = aten.index_put_.default
    assert rows(operator, target, [index], values) == ()
    assert in_all(rows(operator, target, [index], values, True)) == 500 * 8 * 4
    assert in_all(rows(operator, target, [index], meta(64), True)) == 500 * 8 * 4 + 500 * 64 * 2
    assert in_all(rows(operator, target, [index], values, deterministic=True)) == 500 * 8 * 4


def test_scan_of_one_row():
    assert rows(aten.cumsum.default, meta(8, 1000), -1) == ()
    assert in_all(rows(aten.cumsum.default, meta(10_000), 0)) == 10 * 16


# --- reductions


def buffers(outputs, inputs, on_fastest, card):
    """Of sums in fp32 over one dimension."""
    return buffer_bytes(
        outputs,
        inputs,
        on_fastest=on_fastest,
        one_axis=True,
        item_bytes=4,
        processors=card.processors,
        threads_a_processor=card.threads_a_processor,
    )


@pytest.mark.parametrize(
    ("outputs", "inputs", "on_fastest", "size"),
    [
        # 2^24 numbers to one: blocks of 512 threads, 108 x 4 of them, 32768 values each thread of one block
        (1, 1 << 24, True, (432 * 4, 4)),
        # rows of 4096: each row is of one block
        (2048, 4096, True, (0, 0)),
        (4, 100, True, (0, 0)),
        # columns of 8192 x 4096: 4 outputs a thread, 32 x 4 threads, 32 blocks of outputs; 108 x 16 blocks fit on the
        # card, so 54 meet at each output, and each output has room for the 32 x 4 of a whole row of threads
        (4096, 8192, False, (4096 * 4 * 54 * (32 * 4), 32 * 4)),
    ],
)
def test_buffer_of_a_reduction(outputs, inputs, on_fastest, size):
    assert buffers(outputs, inputs, on_fastest, A100) == size


@given(st.integers(1, 10**7), st.integers(1, 10**7), st.booleans(), st.sampled_from(sorted(WHOLE_CHIPS)))
def test_a_buffer_is_none_or_holds_an_accumulator_for_each_output(outputs, inputs, on_fastest, capability):
    buffer, counters = buffers(outputs, inputs, on_fastest, Card(capability))
    assert (buffer == counters == 0) or (buffer >= 2 * 4 * outputs and counters > 0)


def test_sum_knows_which_dimension_lies_beside():
    by_rows = meta(8192, 4096, dtype=torch.float32)
    columns = rows(aten.sum.dim_IntList, by_rows, [0])
    assert in_all(columns) == sum(buffers(4096, 8192, False, A100)) > 0
    assert rows(aten.sum.dim_IntList, by_rows, [1]) == ()
    assert in_all(rows(aten.sum.dim_IntList, by_rows.t(), [1])) == in_all(columns)
    assert rows(aten.max.other, by_rows, by_rows) == ()
    assert rows(aten.sum.default, meta(())) == ()


def test_norms_of_many_tensors():
    tensors = [meta(128_256, 4096), meta(4096), meta(10)]
    assert in_all(rows(aten._foreach_norm.Scalar, tensors, 2)) == 3 * 8016 * 4


def test_normalisations_copy_what_is_not_contiguous():
    straight, turned = meta(8, 64, 128), meta(8, 128, 64).transpose(1, 2)
    assert rows(aten._softmax.default, straight, -1, False) == ()
    assert in_all(rows(aten._softmax.default, turned, -1, False)) == turned.numel() * 2
    assert in_all(rows(aten.native_layer_norm_backward.default, turned, straight)) == turned.numel() * 2


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.data())
def test_order_is_that_of_torch(shape, data):
    axes = data.draw(st.permutations(range(len(shape))))
    made = torch.empty(shape, device="meta").permute(axes)
    assert is_in_order(made.shape, made.stride()) == made.is_contiguous()


# --- the table as a whole


def test_what_is_not_known_is_told_and_not_nothing():
    x, w = meta(1, 3, 8, 8), meta(4, 3, 3, 3)
    found = rows(aten.convolution.default, x, w, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)
    assert [row.bytes for row in found] == [None]
    assert found[0].source


def test_operators_that_take_nothing():
    for operator in (
        aten.add.Tensor,
        aten._foreach_add.List,
        aten._fused_adamw_.default,
        aten.nll_loss_forward.default,
    ):
        assert kernels.rule_of(operator) is None


@pytest.mark.oracle
def test_every_name_is_an_operator_of_torch():
    for name in kernels.TABLE:
        namespace, operator, *overload = name.split(".")
        if namespace == "aten":
            packet = getattr(aten, operator)
            assert not overload or overload[0] in packet.overloads(), name


@pytest.mark.oracle
def test_arguments_stand_where_the_rules_look():
    places = {
        aten._scaled_dot_product_flash_attention_backward.default: {1: "query", 2: "key", 4: "out"},
        aten._flash_attention_backward.default: {1: "query", 2: "key", 4: "out", 6: "cum_seq_q"},
        aten._flash_attention_forward.default: {0: "query", 3: "cum_seq_q", 7: "dropout_p"},
        aten._scaled_dot_product_flash_attention.default: {3: "dropout_p"},
        aten._scaled_dot_product_efficient_attention_backward.default: {0: "grad_out_", 1: "query", 9: "dropout_p"},
        aten.embedding_dense_backward.default: {1: "indices", 2: "num_weights", 4: "scale_grad_by_freq"},
        aten.index_put_.default: {1: "indices", 2: "values", 3: "accumulate"},
        aten.topk.default: {1: "k", 2: "dim", 4: "sorted"},
        aten.multinomial.default: {1: "num_samples", 2: "replacement"},
        aten.linalg_vector_norm.default: {2: "dim"},
        aten.native_group_norm.default: {3: "N", 4: "C"},
        aten.native_group_norm_backward.default: {5: "N", 6: "C"},
        aten._fused_rms_norm_backward.default: {0: "grad_out", 1: "input", 4: "weight"},
        aten.native_layer_norm_backward.default: {0: "grad_out", 1: "input", 5: "weight"},
        aten.sort.stable: {2: "dim"},
    }
    for operator, wanted in places.items():
        names = [argument.name for argument in operator._schema.arguments]
        assert {position: names[position] for position in wanted} == wanted, operator


@pytest.mark.oracle
def test_every_operator_of_programs_can_be_asked():
    from torch.utils._python_dispatch import TorchDispatchMode

    found = {}

    class Ask(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            for row in kernels.scratch(func, args, kwargs or {}, H100):
                assert row.bytes is None or row.bytes >= 0
                found.setdefault(str(func), row)
            return func(*args, **(kwargs or {}))

    torch.manual_seed(0)
    text = torch.nn.Sequential(
        torch.nn.Embedding(50, 16),
        torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True),
        torch.nn.Linear(16, 50),
    )
    image = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.GroupNorm(2, 8), torch.nn.ReLU(), torch.nn.Flatten())
    with Ask():
        for model, x in ((text, torch.randint(0, 50, (2, 7))), (image, torch.randn(2, 3, 8, 8))):
            optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
            loss = model(x).log_softmax(-1).mean()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
            optimizer.step()
        sorted_, _ = torch.randn(3, 5).sort()
        sorted_.topk(2)
        torch.randn(3).softmax(0).multinomial(1)
        torch.zeros(4).index_put_((torch.tensor([0, 1]),), torch.ones(2), accumulate=True)
        torch.randn(4, 4).sum(), torch.randn(4, 4).sum(0), torch.randn(4, 4).norm(), torch.randn(3, 3).cumsum(0)
        torch.unique(torch.randint(0, 3, (9,)))
    names = {name.split(".")[1] for name in found}
    assert {"mm", "addmm", "convolution", "convolution_backward", "_foreach_norm", "native_group_norm"} <= names


def test_more_processors_never_need_less():
    few, many = Card((8, 0), multiprocessors=50), Card((8, 0), multiprocessors=108)
    tensor = meta(8192, 4096)
    assert in_all(rows(aten.sum.dim_IntList, tensor, [0], card=few)) <= in_all(
        rows(aten.sum.dim_IntList, tensor, [0], card=many)
    )
    assert Card((8, 0)).processors == 108
    assert Card((3, 5)).processors == 160
