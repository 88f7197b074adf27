"""A decoder layer of Megatron (GPT, OPT) on one of t tensor-parallel ranks: what forward saves, what backward makes.

Legend: N tokens of a microbatch (rows x length s), h hidden width, f feed-forward width, a heads, e bytes of an
element. Attention is not fused: its scores are rows x a/t x s x s elements. Saved for backward, without dropout: the
layer's input, two normalised inputs and the sum between them, N h each; query, key and value 3 N h/t, the context N
h/t, the feed-forward's activation N f/t; the probabilities; mean and deviation of each norm in fp32. For e = 2 and with
dropout this is s b h (10 + 24/t + 5 a s/(h t)) of Korthikanti et al. 2022 (arXiv 2205.05198) without its masks.

Order of what is made and freed: Megatron-DeepSpeed, megatron/model/transformer.py and core/tensor_parallel/layers.py;
the OPT layer of Sailor's training program (github.com/eth-easl/sailor, third_party/Megatron-DeepSpeed, ReLU, no
dropout).
"""

from __future__ import annotations

import msgspec

from capienza.predict.training.parallel.program import Program

FP32_BYTES = 4


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """Dimensions of a layer and of a microbatch on one rank."""

    hidden: int
    heads: int
    feed_forward: int
    tokens: int
    microbatch: int
    tensor_ranks: int = 1
    element_bytes: int = 4

    @property
    def full_bytes(self) -> int:
        """[N, h]: what every tensor-parallel rank holds whole."""
        return self.microbatch * self.tokens * self.hidden * self.element_bytes

    @property
    def part_bytes(self) -> int:
        """[N, h / t]."""
        return self.full_bytes // self.tensor_ranks

    @property
    def inner_bytes(self) -> int:
        """[N, f / t]."""
        return self.microbatch * self.tokens * self.feed_forward * self.element_bytes // self.tensor_ranks

    @property
    def scores_bytes(self) -> int:
        """[rows, a / t, s, s]."""
        return self.microbatch * self.heads * self.tokens**2 * self.element_bytes // self.tensor_ranks

    @property
    def statistics_bytes(self) -> int:
        """[N] in fp32: the mean, or the deviation, of a norm."""
        return self.microbatch * self.tokens * FP32_BYTES

    @property
    def weights(self) -> dict[str, int]:
        """Elements of a rank's part of each weight. Biases that a fused kernel would add exist and get no gradient."""
        width, inner, ranks = self.hidden, self.feed_forward, self.tensor_ranks
        return {
            "qkv": 3 * width * width // ranks, "qkv bias": 3 * width // ranks,
            "dense": width * width // ranks, "dense bias": width,
            "up": width * inner // ranks, "up bias": inner // ranks,
            "down": width * inner // ranks, "down bias": width,
            "norms": 4 * width,
        }  # fmt: skip

    @property
    def saved_bytes(self) -> int:
        """What a microbatch leaves until its backward pass."""
        return (
            4 * self.full_bytes + 4 * self.part_bytes + self.inner_bytes + self.scores_bytes
            + 4 * self.statistics_bytes
        )  # fmt: skip


class Saved(msgspec.Struct, frozen=True):
    """Blocks that wait for backward. `source` is the layer's input."""

    source: int
    normed: tuple[int, int, int]
    qkv: int
    probabilities: int
    context: int
    middle: int
    second_normed: tuple[int, int, int]
    activated: int


def forward(program: Program, block: Block, source: int) -> tuple[Saved, int]:
    """The layer over an input; what it saves, and its output."""
    normed = norm(program, block)
    product = program.take(3 * block.part_bytes)
    qkv = program.take(3 * block.part_bytes)
    program.give(product)
    empty, scores = program.take(block.scores_bytes), program.take(block.scores_bytes)
    program.give(empty)
    probabilities = program.take(block.scores_bytes)
    mixed, context = program.take(block.part_bytes), program.take(block.part_bytes)
    program.give(mixed)
    projected = program.take(block.full_bytes)
    program.give(scores)
    middle = program.take(block.full_bytes)
    program.give(projected)
    second_normed = norm(program, block)
    inner, activated = program.take(block.inner_bytes), program.take(block.inner_bytes)
    program.give(inner)
    lowered, output = program.take(block.full_bytes), program.take(block.full_bytes)
    program.give(lowered)
    return Saved(source, normed, qkv, probabilities, context, middle, second_normed, activated), output


def norm(program: Program, block: Block) -> tuple[int, int, int]:
    """A LayerNorm's output, mean and deviation."""
    return (
        program.take(block.full_bytes),
        program.take(block.statistics_bytes),
        program.take(block.statistics_bytes),
    )


class Gradients:
    """The gradients of a rank's weights: the first of a step stay, later ones are added to them and freed."""

    def __init__(self, program: Program, element_bytes: int) -> None:
        self.program, self.element_bytes = program, element_bytes
        self.held: dict[object, int] = {}

    def add(self, weight: object, elements: int) -> None:
        """A gradient was made."""
        made = self.program.take(elements * self.element_bytes)
        if weight in self.held:
            self.program.give(made)
        else:
            self.held[weight] = made

    def clear(self) -> None:
        """`zero_grad` to None."""
        self.program.give(*self.held.values())
        self.held.clear()


def backward(program: Program, block: Block, saved: Saved, gradient: int, gradients: Gradients, layer: int) -> int:
    """From the gradient of a layer's output to that of its input. Frees what was saved, and the output's gradient."""
    weights = block.weights
    lowered = program.take(block.inner_bytes)
    gradients.add((layer, "down"), weights["down"])
    inner = program.take(block.inner_bytes)
    program.give(lowered, saved.activated)
    normed = program.take(block.full_bytes)
    gradients.add((layer, "up"), weights["up"])
    program.give(inner, saved.second_normed[0])
    middle = program.take(block.full_bytes)
    program.give(normed, *saved.second_normed[1:], saved.middle, gradient)
    context = program.take(block.part_bytes)
    gradients.add((layer, "dense"), weights["dense"])
    program.give(saved.context)
    mixed = program.take(block.part_bytes)
    program.give(context)
    attended, values = program.take(block.scores_bytes), program.take(block.part_bytes)
    program.give(mixed)
    scores = _scores_backward(program, block, attended, saved.probabilities)
    queries, keys = program.take(block.part_bytes), program.take(block.part_bytes)
    program.give(scores)
    qkv = program.take(3 * block.part_bytes)
    program.give(queries, keys, values, saved.qkv)
    normed = program.take(block.full_bytes)
    gradients.add((layer, "qkv"), weights["qkv"])
    gradients.add((layer, "qkv bias"), weights["qkv bias"])
    program.give(qkv, saved.normed[0])
    source = program.take(block.full_bytes)
    gradients.add((layer, "norms"), weights["norms"])
    program.give(normed, *saved.normed[1:], saved.source, middle)
    return source


def _scores_backward(program: Program, block: Block, attended: int, probabilities: int) -> int:
    """Softmax makes a product first (ATen/native/cuda/SoftMax.cu).

    The mask was filled into a view in place: autograd copies the gradient twice for that
    (torch/csrc/autograd/functions/tensor.cpp, CopySlices).
    """
    product, likely = program.take(block.scores_bytes), program.take(block.scores_bytes)
    program.give(product, attended, probabilities)
    scores, copied = program.take(block.scores_bytes), program.take(block.scores_bytes)
    masked = program.take(block.scores_bytes)
    program.give(copied, masked, likely)
    return scores
