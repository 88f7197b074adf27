"""Reinforcement learning beside an engine that sleeps: worked figures, properties, the same program traced."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from capienza.architecture.registry import describe
from capienza.errors import InputError
from capienza.predict.training import rollout
from capienza.recipe.recipe import (
    Adapters,
    Checkpointing,
    Evaluation,
    Loss,
    Optimizer,
    Precision,
    Preference,
    Recipe,
)  # fmt: skip
from capienza.units import GIB, MIB

QWEN_05B = describe(
    {
        "model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24,
        "num_attention_heads": 14, "num_key_value_heads": 2, "vocab_size": 151936, "tie_word_embeddings": True,
    }
)  # fmt: skip
WIDE = describe(
    {
        "model_type": "llama", "hidden_size": 512, "intermediate_size": 2048, "num_hidden_layers": 2,
        "num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 512, "tie_word_embeddings": True,
    }
)  # fmt: skip
SMALL = describe(
    {
        "model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 512, "tie_word_embeddings": True,
    }
)  # fmt: skip


def recipe(*, tokens: int, microbatch: int, group: int, rank: int) -> Recipe:
    return Recipe(
        framework="agilerl", framework_version="transformers 5.11.0", objective="grpo", method="lora", tokens=tokens,
        microbatch=microbatch, accumulation=1, is_packed=False, has_padding_mask=True, attention="sdpa",
        kernels="transformers", is_compiled=False, precision=Precision(base="bf16", trained="fp32", autocast="bf16"),
        optimizer=Optimizer(family="adamw", run="foreach"), checkpointing=Checkpointing(kind="full"),
        loss=Loss(kind="chunked"), evaluation=Evaluation(microbatch=0),
        adapters=Adapters(rank=rank, alpha=2 * rank, dropout=0.0, targets=("all-linear",), dtype="fp32"),
        preference=Preference(group=group),
    )  # fmt: skip


def test_rows_of_the_head_fill_256_mib() -> None:
    assert rollout.chunk_rows(151_936) == 441
    assert 441 * 151_936 * 4 <= 256 * MIB < 442 * 151_936 * 4
    assert (rollout.chunk_rows(2**30), rollout.chunk_rows(100)) == (128, 4096)


def test_a_short_update_with_wide_adapters_is_highest_in_its_step() -> None:
    # 8.8e6 parameters a rank of 16: base 2 B each, adapters 8, gradients 4, states 8, roots 4; two workspaces.
    found = rollout.update(QWEN_05B, recipe(tokens=64, microbatch=1, group=1, rank=256))
    trained = 256 * 22_912 * 24
    held = 2 * QWEN_05B.num_parameters + 24 * trained + 2 * 8_519_680
    # Copies that autocast made of adapters for the last pass are still there.
    assert held <= found.allocated_bytes == pytest.approx(held, rel=0.03)


def test_asleep_and_awake() -> None:
    # Context and libraries of an A100: 501 + 723 MiB; twelve sequences beyond four with ten rows of logits each.
    asleep = rollout.asleep_bytes(QWEN_05B, "NVIDIA A100-SXM4-40GB", 16, 512)
    assert asleep == 1224 * MIB + 12 * 10 * 4 * 151_936
    # 65536 tokens prepared for, 1024 read: 6 x 4864 + 2 x 896 B each are not needed.
    awake = rollout.awake_bytes(QWEN_05B, "NVIDIA A100-SXM4-40GB", 40 * GIB, 0.5, 16, 4096, 1024)
    assert awake == 20 * GIB - (65_536 - 1024) * 30_976 + (501 + 713) * MIB


@settings(max_examples=20, deadline=None)
@given(st.sampled_from([32, 64]), st.integers(1, 3), st.integers(1, 8), st.sampled_from([4, 8]))
def test_more_of_anything_never_allocates_less(tokens: int, microbatch: int, group: int, rank: int) -> None:
    asked = recipe(tokens=tokens, microbatch=microbatch, group=group, rank=rank)
    found = rollout.update(SMALL, asked)
    assert found.reserved_bytes >= found.allocated_bytes >= 2 * SMALL.num_parameters
    for more in ({"tokens": 2 * tokens}, {"microbatch": microbatch + 1}):
        assert rollout.update(SMALL, msgspec.structs.replace(asked, **more)).allocated_bytes >= found.allocated_bytes


def test_nothing_is_left_alive_but_what_stays() -> None:
    events, phases = rollout.update_events(SMALL, recipe(tokens=32, microbatch=1, group=2, rank=4))
    assert phases[:3] == ["forward", "forward", "backward"]
    alive: dict[int, int] = {}
    for code, block, size, _ in events:
        if code == 0:
            alive[block] = size
        elif code == 1:
            del alive[block]
    trained = 4 * 2 * ((64 + 64) + 2 * (64 + 32) + (64 + 64) + 3 * (64 + 128))
    resident = 2 * SMALL.num_parameters + 2 * 4 * trained + 2 * 8_519_680
    # Two states; the scores of what was passed are small.
    assert 0 <= sum(alive.values()) - resident - 2 * 4 * trained < 64 * 1024


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
def test_the_same_update_traced() -> None:
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    peft = pytest.importorskip("peft")
    from capienza.trace import predict_peak

    config = transformers.LlamaConfig(
        hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        vocab_size=512, tie_word_embeddings=True,
    )  # fmt: skip
    rows, tokens, count = 2, 256, 2

    class Scores(torch.autograd.Function):
        @staticmethod
        def forward(ctx, hidden, weight):
            ctx.save_for_backward(hidden, weight)
            logits = hidden.reshape(-1, hidden.shape[-1]) @ weight.t()
            return torch.empty(logits.shape[0], dtype=hidden.dtype, device=hidden.device)

        @staticmethod
        def backward(ctx, _):
            hidden, weight = ctx.saved_tensors
            flat = hidden.reshape(-1, hidden.shape[-1])
            given = torch.zeros_like(flat)
            logits = flat @ weight.t()
            wide = torch.empty(logits.shape, dtype=torch.float32, device=logits.device)
            del logits, wide
            return given.reshape(hidden.shape), None

    def build():
        with torch.device("cuda"):
            model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
        options = {"r": 4, "target_modules": "all-linear", "task_type": "CAUSAL_LM"}
        whole = peft.get_peft_model(model, peft.LoraConfig(**options), adapter_name="actor")
        whole.add_adapter("reference", peft.LoraConfig(**options))
        whole = whole.to("cuda")
        whole.set_adapter("actor")
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        weight, model.lm_head = model.lm_head.weight, torch.nn.Identity()
        for name, one in whole.named_parameters():
            one.requires_grad_(".actor." in name)
        optimizer = torch.optim.AdamW([one for one in whole.parameters() if one.requires_grad])
        return whole, weight, optimizer

    def step(state) -> None:
        whole, weight, optimizer = state
        ids = torch.ones(rows, tokens, dtype=torch.int64, device="cuda")

        def last():
            with torch.autocast("cuda", dtype=torch.bfloat16):
                return whole(input_ids=ids, use_cache=False).logits[:, :-1]

        whole.eval()
        with torch.no_grad():
            for _ in range(2 * count):
                Scores.apply(last(), weight)
        whole.train()
        for _ in range(count):
            Scores.apply(last(), weight).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

    traced = predict_peak(build, step, steps=1, device="A100 40GB").gpus[0]
    closed = rollout.update(SMALL, recipe(tokens=tokens, microbatch=rows, group=rows * count, rank=4))
    assert closed.allocated_bytes == pytest.approx(traced.allocated_bytes, rel=0.02)


def test_a_card_that_was_not_measured_is_unknown() -> None:
    with pytest.raises(InputError, match="H100"):
        rollout.asleep_bytes(QWEN_05B, "NVIDIA H100", 16, 512)


def test_a_quantised_base_holds_less_at_rest_and_more_for_each_token() -> None:
    # What is not quantised is in fp32, and so are the rows between layers and the logits of a chunk.
    def allocated(tokens: int, quantised: str | None) -> int:
        asked = recipe(tokens=tokens, microbatch=1, group=1, rank=4)
        precision = replace(asked.precision, quantised=quantised, widens_rest=quantised is not None)
        method = "qlora" if quantised else "lora"
        return rollout.update(WIDE, replace(asked, method=method, precision=precision)).allocated_bytes

    short, long = 32, 512
    assert allocated(short, "nf4_double") < allocated(short, None)
    more = [allocated(long, one) - allocated(short, one) for one in ("nf4_double", None)]
    # two layers' rows of 512, in fp32 rather than in 16 bits, at the least
    assert more[0] - more[1] >= 2 * (long - short) * 512 * 2


@pytest.mark.parametrize("targets", [("absent_proj",), ("lm_head",)])
@pytest.mark.parametrize("kind", ["full", "none"])
def test_an_update_in_which_nothing_is_trained_is_an_error(targets: tuple[str, ...], kind: str) -> None:
    asked = recipe(tokens=64, microbatch=1, group=2, rank=8)
    assert asked.adapters is not None
    asked = replace(asked, adapters=replace(asked.adapters, targets=targets))
    asked = replace(asked, checkpointing=replace(asked.checkpointing, kind=kind))
    with pytest.raises(InputError, match="is trained: targets are " + targets[0]):
        rollout.update(SMALL, asked)
