"""A GPT of PyTorch's own modules, and one written out, run on fake tensors beside their closed form."""

from __future__ import annotations

import math
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from capienza.allocator.events import ALLOC, MARK
from capienza.allocator.sizes import rounded_bytes
from capienza.architecture.registry import describe
from capienza.predict.training.passes import passes
from capienza.recipe.recipe import Checkpointing, Evaluation, Loss, Optimizer, Precision, Recipe
from capienza.trace import phase, predict_peak

pytestmark = pytest.mark.oracle
HIDDEN, HEADS, LAYERS, VOCABULARY, TOKENS, ROWS, RATE = 256, 4, 3, 2048, 512, 2, 0.1
CONFIG = {
    "model_type": "gpt2", "vocab_size": VOCABULARY, "n_embd": HIDDEN, "n_layer": LAYERS, "n_head": HEADS,
    "n_positions": TOKENS, "tie_word_embeddings": False, "resid_pdrop": RATE, "attn_pdrop": RATE, "embd_pdrop": RATE,
}  # fmt: skip
functional = torch.nn.functional


class Norm(torch.nn.Module):
    """A layer norm, operation by operation."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(HIDDEN))
        self.bias = torch.nn.Parameter(torch.zeros(HIDDEN))

    def forward(self, rows: Any) -> Any:
        centre, spread = rows.mean(-1, keepdim=True), rows.var(-1, keepdim=True, unbiased=False)
        return self.weight * ((rows - centre) / torch.sqrt(spread + 1e-5)) + self.bias


def bent(rows: Any) -> Any:
    """GELU by its approximation with tanh, written out."""
    return 0.5 * rows * (1 + torch.tanh(math.sqrt(2 / math.pi) * (rows + 0.044715 * torch.pow(rows, 3))))


class Block(torch.nn.Module):
    def __init__(self, *, is_written: bool, is_fused: bool) -> None:
        super().__init__()
        self.is_written, self.is_fused = is_written, is_fused
        kind: Any = Norm if is_written else lambda: torch.nn.LayerNorm(HIDDEN)
        self.first, self.second = kind(), kind()
        self.joined, self.out = torch.nn.Linear(HIDDEN, 3 * HIDDEN), torch.nn.Linear(HIDDEN, HIDDEN)
        self.up, self.down = torch.nn.Linear(HIDDEN, 4 * HIDDEN), torch.nn.Linear(4 * HIDDEN, HIDDEN)
        self.drop = torch.nn.Dropout(RATE)

    def forward(self, rows: Any) -> Any:
        rows = rows + self.drop(self.attended(self.first(rows)))
        inner = self.up(self.second(rows))
        inner = bent(inner) if self.is_written else functional.gelu(inner, approximate="tanh")
        return rows + self.drop(self.down(inner))

    def attended(self, rows: Any) -> Any:
        heads = (ROWS, TOKENS, HEADS, HIDDEN // HEADS)
        query, key, value = (one.view(heads).transpose(1, 2) for one in self.joined(rows).split(HIDDEN, 2))
        if self.is_fused:
            seen = functional.scaled_dot_product_attention(query, key, value, dropout_p=RATE, is_causal=True)
        else:
            scores = query @ key.transpose(2, 3)
            ahead = torch.triu(torch.ones(TOKENS, TOKENS, dtype=torch.bool, device=rows.device), diagonal=1)
            scores.masked_fill_(ahead, -torch.inf)
            shares = torch.softmax(scores / math.sqrt(HIDDEN // HEADS), -1)
            del scores
            seen = self.drop(shares) @ value
        return self.out(seen.transpose(1, 2).reshape(ROWS, TOKENS, HIDDEN))


class Model(torch.nn.Module):
    def __init__(self, **kinds: bool) -> None:
        super().__init__()
        self.table, self.places = torch.nn.Embedding(VOCABULARY, HIDDEN), torch.nn.Embedding(TOKENS, HIDDEN)
        self.blocks = torch.nn.Sequential(*[Block(**kinds) for _ in range(LAYERS)])
        self.last = Norm() if kinds["is_written"] else torch.nn.LayerNorm(HIDDEN)
        self.head, self.drop = torch.nn.Linear(HIDDEN, VOCABULARY, bias=False), torch.nn.Dropout(RATE)

    def forward(self, tokens: Any) -> Any:
        rows = self.table(tokens) + self.places(torch.arange(TOKENS, device=tokens.device))
        return self.head(self.last(self.blocks(self.drop(rows))))


def traced(*, is_written: bool, is_fused: bool) -> int:
    """The most of a second step above where its forward pass begins."""

    def build() -> Any:
        made = Model(is_written=is_written, is_fused=is_fused).to("cuda", torch.bfloat16)
        return made, torch.optim.SGD(made.parameters()), torch.zeros(ROWS, TOKENS, dtype=torch.long, device="cuda")

    def step(state: Any) -> None:
        made, optimizer, tokens = state
        with phase("forward"):
            loss = functional.cross_entropy(made(tokens).flatten(0, 1), tokens.flatten())
        with phase("backward"):
            loss.backward()
        del loss
        optimizer.zero_grad()

    found = predict_peak(build, step, steps=2, device="A100").traced.recording
    begins = [place for place, event in enumerate(found.events[0]) if event[0] == MARK][-3]
    level = base = most = 0
    sizes: dict[int, int] = {}
    for place, (code, block, size, _) in enumerate(found.events[0]):
        if place == begins:
            base = level
        if code == ALLOC:
            sizes[block] = rounded_bytes(size) if size else 0
            level += sizes[block]
        else:
            level -= sizes.pop(block, 0)
        most = max(most, level - base) if place > begins else 0
    return most


@pytest.mark.parametrize("is_written", [False, True])
@pytest.mark.parametrize("is_fused", [False, True])
def test_a_plain_program_holds_what_its_closed_form_says(is_written: bool, is_fused: bool) -> None:
    recipe = Recipe(
        framework="pytorch", framework_version=None, objective="sft", method="full", tokens=TOKENS, microbatch=ROWS,
        accumulation=1, is_packed=True, has_padding_mask=False, attention="sdpa" if is_fused else "eager",
        kernels="written" if is_written else "pytorch", is_compiled=False,
        precision=Precision(base="bf16", trained="bf16"), optimizer=Optimizer(family="sgd", run="loop"),
        checkpointing=Checkpointing(kind="none"), loss=Loss(kind="full", widens=False),
        evaluation=Evaluation(microbatch=0),
    )  # fmt: skip
    found = passes(describe(CONFIG), recipe, CONFIG)
    predicted = max(found.forward.total_bytes, found.backward.total_bytes)
    assert predicted == pytest.approx(traced(is_written=is_written, is_fused=is_fused), rel=0.01)
