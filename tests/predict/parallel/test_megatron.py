"""A stage of Megatron-DeepSpeed: a worked layer, properties, the same program traced, and Sailor's measured runs."""

from __future__ import annotations

import csv
import statistics
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capienza.predict.training.parallel.megatron_layer import Block
from capienza.predict.training.parallel.megatron_stage import Stage, padded_vocabulary, stage_peak
from capienza.predict.training.parallel.outside import GH200_NODE, communicator_bytes

FP32, HOPPER_WORKSPACE_BYTES, ADAM_BYTES = 4, 32 << 20, 16


def test_a_layer_of_opt_350m_on_one_of_four_ranks() -> None:
    block = Block(hidden=1024, heads=16, feed_forward=4096, tokens=2048, microbatch=1, tensor_ranks=4)
    # 2048 x (4 x 1024 + 4 x 1024/4 + 4096/4 + 16/4 x 2048) x 4 B, and four statistics of 2048 x 4 B.
    assert block.saved_bytes == 2048 * (4096 + 1024 + 1024 + 8192) * FP32 + 4 * 2048 * 4 == 117_473_280
    assert sum(block.weights.values()) * 4 == 12_596_224 + 3 * (2 * 1024 + 4096)
    assert padded_vocabulary(50257, 4) == 50688


def stage(
    *, number: int, stages: int, layers: int, microbatches: int, microbatch: int, ranks: int, small: bool = False
) -> Stage:
    width, heads, tokens, words = (64, 4, 32, 1000) if small else (1024, 16, 2048, 50257)
    return Stage(
        block=Block(
            hidden=width, heads=heads, feed_forward=4 * width, tokens=tokens, microbatch=microbatch, tensor_ranks=ranks
        ),
        number=number,
        stages=stages,
        layers=layers,
        microbatches=microbatches,
        vocabulary=padded_vocabulary(words, ranks),
        positions=tokens,
        workspace_bytes=HOPPER_WORKSPACE_BYTES,
    )  # fmt: skip


@given(
    st.integers(1, 4).flatmap(lambda p: st.tuples(st.integers(0, p - 1), st.just(p))),
    st.integers(1, 3), st.integers(1, 6), st.integers(1, 4), st.sampled_from([1, 2, 4]),
)  # fmt: skip
def test_activations_of_all_microbatches_in_flight_are_held(place, layers, microbatches, microbatch, ranks) -> None:
    number, stages = place
    one = stage(
        number=number, stages=stages, layers=layers, microbatches=microbatches, microbatch=microbatch, ranks=ranks,
        small=True,
    )  # fmt: skip
    peak = stage_peak(one)
    waits = one.in_flight * layers * one.block.saved_bytes
    held = sum(one.weights) * FP32 * 3 + 2 * HOPPER_WORKSPACE_BYTES
    assert peak.allocated_bytes >= held + max(waits, sum(one.weights) * FP32)
    assert peak.reserved_bytes >= peak.allocated_bytes
    later = stage_peak(
        stage(
            number=number,
            stages=stages + 1,
            layers=layers,
            microbatches=microbatches,
            microbatch=microbatch,
            ranks=ranks,
            small=True,
        )
    )
    if number + 1 < stages:
        assert later.allocated_bytes >= peak.allocated_bytes


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
def test_the_same_program_traced() -> None:
    torch = pytest.importorskip("torch")
    from capienza.trace import predict_peak

    width, heads, tokens, rows, words, layers, microbatches = 256, 8, 512, 2, 4000, 3, 3
    vocabulary = padded_vocabulary(words, 1)

    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
            self.qkv, self.dense = (
                torch.nn.Linear(width, 3 * width, bias=False),
                torch.nn.Linear(width, width, bias=False),
            )
            self.bias = torch.nn.Parameter(torch.zeros(3 * width))
            self.up = torch.nn.Linear(width, 4 * width, bias=False)
            self.down = torch.nn.Linear(4 * width, width, bias=False)

        def attention(self, x, mask):
            mixed = self.qkv(x)
            mixed = mixed + self.bias
            q, k, v = (y.reshape(tokens, rows * heads, -1) for y in mixed.view(tokens, rows, heads, -1).chunk(3, -1))
            scores = torch.empty(rows * heads, tokens, tokens, device="cuda")
            scores = torch.baddbmm(scores, q.transpose(0, 1), k.permute(1, 2, 0), beta=0.0)
            masked = scores.view(rows, heads, tokens, tokens).masked_fill_(mask, -1e4)
            likely = torch.softmax(masked, -1).view(rows * heads, tokens, tokens)
            context = torch.bmm(likely, v.transpose(0, 1)).view(rows, heads, tokens, -1)
            context = context.permute(2, 0, 1, 3).contiguous().view(tokens, rows, width)
            return self.dense(context)

        def forward(self, x, mask):
            x = x + self.attention(self.first(x), mask)
            return x + self.down(torch.relu(self.up(self.second(x))))

    class Loss(torch.autograd.Function):
        @staticmethod
        def forward(ctx, logits):
            likely = logits - logits.max(-1)[0].unsqueeze(-1)
            torch.exp(likely, out=likely)
            ctx.save_for_backward(likely)
            return likely[..., 0].sum()

        @staticmethod
        def backward(ctx, gradient):
            (likely,) = ctx.saved_tensors
            return likely.mul_(gradient)

    def build():
        with torch.device("cuda"):
            model = torch.nn.ModuleDict(
                {
                    "words": torch.nn.Embedding(vocabulary, width), "places": torch.nn.Embedding(tokens, width),
                    "layers": torch.nn.ModuleList(Layer() for _ in range(layers)), "norm": torch.nn.LayerNorm(width),
                    "head": torch.nn.Linear(width, vocabulary, bias=False),
                }
            )  # fmt: skip
            mask = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
        return model, mask, torch.optim.AdamW(model.parameters(), fused=True), {}

    def step(state) -> None:
        model, mask, optimizer, kept = state
        for index in range(microbatches):
            ids = torch.ones(rows, tokens, dtype=torch.int64, device="cuda")
            places = torch.ones(rows, tokens, dtype=torch.int64, device="cuda")
            x = (model["words"](ids) + model["places"](places)).transpose(0, 1).contiguous()
            for layer in model["layers"]:
                x = layer(x, mask)
            logits = model["head"](model["norm"](x))
            kept[index % 2] = logits
            Loss.apply(logits).backward()
            del x, logits
        optimizer.step()
        optimizer.zero_grad()

    traced = predict_peak(build, step, device="H100 SXM", steps=3).gpus[0]
    closed = stage_peak(
        Stage(
            block=Block(hidden=width, heads=heads, feed_forward=4 * width, tokens=tokens, microbatch=rows),
            number=0,
            stages=1,
            layers=layers,
            microbatches=microbatches,
            vocabulary=vocabulary,
            positions=tokens,
            workspace_bytes=HOPPER_WORKSPACE_BYTES,
        )
    )
    assert closed.allocated_bytes == pytest.approx(traced.allocated_bytes, rel=0.01)
    assert closed.reserved_bytes == pytest.approx(traced.reserved_bytes, rel=0.03)


def test_opt_350m_of_sailor(shared: Path) -> None:
    # fp32, one rank of four by tensors, 1F1B: its run.sh. The driver's reading, the largest over ranks.
    errors = []
    with (shared / "data" / "papers" / "sailor" / "sailor_validation_measured.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if (row["cluster"], row["model"]) == ("clariden", "OPT-350M")]
    for row in rows:
        parts = [int(part) for part in row["layers_per_stage"].split("|")]
        last, ranks, microbatch = len(parts) - 1, int(row["tp"]), int(row["mbs"])
        peaks = [
            stage_peak(
                stage(
                    number=number,
                    stages=len(parts),
                    layers=part - (number == 0) - (number == last),
                    microbatches=min(int(row["gbs"]) // microbatch // int(row["dp"]), 2 * len(parts) + 2),
                    microbatch=microbatch,
                    ranks=ranks,
                )
            )
            for number, part in enumerate(parts)
        ]
        outside = GH200_NODE.usual_bytes + communicator_bytes()
        predicted = max(peak.reserved_bytes for peak in peaks) + outside
        errors.append(abs(predicted / int(row["measured_max_mem_bytes"]) - 1))
    assert len(errors) == 15
    assert statistics.median(errors) < 0.03
    assert max(errors) < 0.08


def test_the_buffers_of_a_communicator() -> None:
    # NCCL: Simple 4 MiB, LL128 120 x 640 x 8 steps x 8 B, LL 8 x 512 x 8 steps x 16 B; a ring has one set a channel.
    assert communicator_bytes(1, 1) == 4_194_304 + 4_915_200 + 524_288
    assert communicator_bytes() == 16 * 3 * 9_633_792
