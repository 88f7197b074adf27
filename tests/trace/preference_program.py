"""DPO, its kin and GRPO as programs for the trace: what TRL's trainers do, release by release, in our own words.

What they log of the logits is taken too, where it holds memory; metrics of single numbers are not.
"""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch import nn

from capienza.trace.cards.model import library, model_of
from capienza.trace.cards.training import Training

TILE_TOKENS, TILE_COLUMNS = 4096, 32768


class Compared(Training):
    """`asked`: release (as a tuple), objective, reference ("none", "model", "adapter_off"), completion tokens."""

    def __init__(self, recipe: Any, device: str, steps: int, asked: dict[str, Any]) -> None:
        super().__init__(recipe, device, steps)
        self.asked, self.release = asked, asked["release"]
        self.other = None
        if asked["reference"] == "model":
            self.other = model_of(recipe, device).eval().requires_grad_(False)

    def update(self) -> None:
        recipe = self.recipe
        if self.asked["objective"] == "grpo" and self.asked["reference"] != "none":
            with torch.no_grad(), self.reference() as other:
                self.completions(other, logs=False)
        objective = self.asked["objective"]
        if objective == "sft":
            loss = self.tiled(self.model).mean()
        elif objective in ("orpo", "simpo"):
            loss = self.alone(likelihood=objective == "orpo")
        else:
            loss = self.pairs() if objective == "dpo" else self.completions(self.model, logs=True).mean()
        loss.backward()
        del loss
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.updates += 1
        assert recipe.accumulation == 1

    @contextlib.contextmanager
    def reference(self) -> Any:
        if self.other is not None:
            yield self.other
            return
        with self.model.disable_adapter():
            yield self.model

    def outputs(self, model: nn.Module, **more: Any) -> Any:
        ids = torch.zeros(self.recipe.sequences, self.recipe.tokens, dtype=torch.int64).to(self.device)
        with self.cast():
            found = model(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False, **more)
        return library("accelerate").utils.convert_to_fp32(found) if self.recipe.widens_outputs else found

    def pairs(self) -> torch.Tensor:
        if self.release >= (1, 15):
            return self.tiled_pairs()
        return self.rewritten_pairs() if self.release >= (0, 29) else self.first_pairs()

    def alone(self, *, likelihood: bool) -> torch.Tensor:
        """Pairs without a reference; all logits are there until the loss is."""
        logits = self.outputs(self.model).logits
        labels = torch.zeros(logits.shape[:2], dtype=torch.int64, device=logits.device)
        loss: Any = 0.0
        if likelihood:
            chosen = logits[: logits.shape[0] // 2][..., :-1, :].contiguous()
            targets = labels[: labels.shape[0] // 2][..., 1:].contiguous()
            loss = nn.functional.cross_entropy(chosen.view(-1, chosen.shape[-1]), targets.view(-1))
            del chosen
        seen, targets = logits[:, :-1, :], labels[:, 1:]
        if self.release < (0, 14):
            made = torch.gather(seen.log_softmax(-1), dim=2, index=targets.unsqueeze(2)).squeeze(2)
        else:
            made = by_rows(seen, targets)
        return loss + made.mean()

    def first_pairs(self) -> torch.Tensor:
        scores = self.concatenated(self.model)
        if self.asked["reference"] != "none":
            with torch.no_grad(), self.reference() as other:
                others = self.concatenated(other)
            scores = scores - others
        return scores.mean()

    def concatenated(self, model: nn.Module) -> torch.Tensor:
        more = {"output_hidden_states": True} if self.release >= (0, 20) else {}
        outputs = self.outputs(model, **more)
        logits = outputs.logits
        if self.release < (0, 14):
            logits = logits[:, :-1, :]
        labels = torch.zeros(logits.shape[:2], dtype=torch.int64, device=logits.device)
        mask = torch.ones_like(labels, dtype=torch.bool)
        if self.release < (0, 14):
            made = torch.gather(logits.log_softmax(-1), dim=2, index=labels.unsqueeze(2)).squeeze(2)
        else:
            made = by_rows(logits, labels)
        half = logits.shape[0] // 2
        logged = [logits[:half][mask[:half]].mean(), logits[half:][mask[half:]].mean()]
        del logged
        return made.sum(-1)

    def rewritten_pairs(self) -> torch.Tensor:
        outputs = self.outputs(self.model)
        logits = outputs.logits[..., :-1, :]
        if self.release < (1, 6):
            logits = logits.contiguous()
        labels = torch.zeros(logits.shape[:2], dtype=torch.int64, device=logits.device)
        mask = torch.ones_like(labels, dtype=torch.bool)
        scores = by_rows(logits, labels).sum(-1)
        if self.asked["reference"] != "none":
            with torch.no_grad(), self.reference() as other:
                others = self.outputs(other)
                other_logits = others.logits[..., :-1, :]
                if self.release < (1, 6):
                    other_logits = other_logits.contiguous()
                other_scores = by_rows(other_logits, labels).sum(-1)
            scores = scores - other_scores
        loss = scores.mean()
        entropy(logits.detach(), 128)
        chosen = logits.detach()[: logits.shape[0] // 2]
        chosen[mask[: len(chosen)]].mean(-1).sum()
        chosen.argmax(dim=-1)
        return loss

    def tiled_pairs(self) -> torch.Tensor:
        scores = self.tiled(self.model).sum(-1)
        if self.asked["reference"] != "none":
            with torch.no_grad(), self.reference() as other:
                others = self.tiled(other).sum(-1)
            scores = scores - others
        return scores.mean()

    def tiled(self, model: nn.Module, scored: int | None = None) -> torch.Tensor:
        """The patched forward pass: the rows that are scored, copied, and the head in tiles."""
        plain = model.get_base_model() if hasattr(model, "get_base_model") else model
        ids = torch.zeros(self.recipe.sequences, self.recipe.tokens, dtype=torch.int64).to(self.device)
        with self.cast():
            rows = plain.model(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False).last_hidden_state
            rows = rows[:, :-1]
            count = scored or rows.shape[1]
            index = torch.arange(rows.shape[0] * count, device=rows.device)
            # A mask would ask for values that fake tensors have not: its indices stand for it.
            picked = rows[index // count, index % count]
            return Tiles.apply(picked, plain.lm_head.weight).view(rows.shape[0], count)

    def completions(self, model: nn.Module, *, logs: bool) -> torch.Tensor:
        scored = self.asked["completion"]
        if self.release >= (1, 15):
            return self.tiled(model, scored)
        logits = self.outputs(model, logits_to_keep=scored + 1).logits
        logits = logits[:, :-1, :]
        if (1, 0) <= self.release < (1, 12):
            logits.div_(0.9)
        else:
            logits = logits / 0.9
        labels = torch.zeros(logits.shape[:2], dtype=torch.int64, device=logits.device)
        made = by_rows(logits, labels)
        if logs and self.release >= (0, 20):
            with torch.no_grad():
                entropy(logits, 128 if self.release >= (0, 23) else logits.shape[1])
        return made


def by_rows(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    if logits.dtype == torch.float32:
        chosen = torch.gather(logits, dim=-1, index=labels.unsqueeze(-1)).squeeze(-1)
        sums = torch.stack([torch.logsumexp(one, dim=-1) for one in logits])
        return chosen - sums
    found = []
    for one, label in zip(logits, labels, strict=True):
        chances = torch.nn.functional.log_softmax(one, dim=-1)
        found.append(chances.gather(dim=-1, index=label.unsqueeze(-1)).squeeze(-1))
    return torch.stack(found)


def entropy(logits: torch.Tensor, rows: int) -> torch.Tensor:
    found = []
    for one in logits.reshape(-1, logits.shape[-1]).split(rows, dim=0):
        chances = torch.nn.functional.log_softmax(one, dim=-1)
        found.append(-(torch.exp(chances) * chances).sum(-1))
    return torch.cat(found)


class Tiles(torch.autograd.Function):
    """The tiles of TRL's kernel on a GPU, where what a tile holds beside its product lies in registers."""

    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        item = torch.get_autocast_dtype(rows.device.type) if torch.is_autocast_enabled(rows.device.type) else rows.dtype
        count = rows.shape[0]
        numbers = [torch.zeros(count, device=rows.device, dtype=torch.float32) for _ in range(7)]
        buffer = torch.empty(min(count, TILE_TOKENS), TILE_COLUMNS, device=rows.device, dtype=item)
        for start in range(0, count, TILE_TOKENS):
            for column in range(0, weight.shape[0], TILE_COLUMNS):
                some = rows[start : start + TILE_TOKENS].to(item)
                other = weight[column : column + TILE_COLUMNS].to(item)
                torch.mm(some, other.t(), out=buffer[: len(some), : len(other)])
        made = numbers[0] + 0
        sums = numbers[1] + 0
        ctx.save_for_backward(rows, weight, sums)
        ctx.item = item
        return made

    @staticmethod
    def backward(ctx: Any, *_: torch.Tensor) -> Any:
        rows, weight, _ = ctx.saved_tensors
        count = rows.shape[0]
        of_rows = torch.zeros(rows.shape, device=rows.device, dtype=torch.float32)
        wants = ctx.needs_input_grad[1]
        of_weight = torch.zeros(weight.shape, device=rows.device, dtype=torch.float32) if wants else None
        buffer = torch.empty(min(count, TILE_TOKENS), TILE_COLUMNS, device=rows.device, dtype=ctx.item)
        for column in range(0, weight.shape[0], TILE_COLUMNS):
            other = weight[column : column + TILE_COLUMNS].to(ctx.item)
            del other
        del buffer
        return of_rows.to(rows.dtype), of_weight.to(weight.dtype) if of_weight is not None else None
