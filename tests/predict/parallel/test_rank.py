"""One rank of FSDP1, FSDP2 and DDP from an architecture and a recipe: against traced ranks of transformers' Llama."""

from __future__ import annotations

import os

import pytest
from msgspec.structs import replace

from capienza.architecture.registry import describe
from capienza.errors import InputError
from capienza.predict.training.parallel.rank import rank_peaks
from capienza.predict.training.parallel.shared_model import shared_of
from capienza.recipe.recipe import Adapters, Checkpointing, Evaluation, Loss, Optimizer, Parallel, Precision, Recipe

A100_WORKSPACE_BYTES = 8320 << 10
CONFIG = {
    "model_type": "llama", "hidden_size": 512, "intermediate_size": 1536, "num_hidden_layers": 4,
    "num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 8000, "tie_word_embeddings": False,
    "max_position_embeddings": 2048,
}  # fmt: skip
ROWS, TOKENS = 2, 512


def recipe(sharding: str, checkpointing: str = "none", **parallel) -> Recipe:
    return Recipe(
        framework="transformers", framework_version=None, objective="sft", method="full", tokens=TOKENS,
        microbatch=ROWS, accumulation=1, is_packed=True, has_padding_mask=False, attention="sdpa",
        kernels="transformers", is_compiled=False, precision=Precision(base="bf16", trained="bf16"),
        optimizer=Optimizer(family="adamw", run="foreach"), checkpointing=Checkpointing(kind=checkpointing),
        loss=Loss(kind="full"), evaluation=Evaluation(microbatch=0),
        parallel=Parallel(sharding=sharding, data_ranks=4, shard_ranks=4, **parallel),
    )  # fmt: skip


def test_a_mistral_of_gptq_with_adapters_on_two_ranks() -> None:
    # fms-a100-L103: 2,261,204,480 B when training had returned. Words and zeros are halved, scales and indices are not.
    architecture = describe(
        {
            "model_type": "mistral", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
            "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32000, "tie_word_embeddings": False,
        }
    )  # fmt: skip
    adapters = Adapters(
        rank=16, alpha=16, dropout=0.1, targets=("q_proj", "k_proj", "v_proj", "o_proj"), dtype="fp32"
    )  # fmt: skip
    told = replace(
        recipe("fsdp1", "full"),
        method="lora", tokens=4096, microbatch=2, has_padding_mask=True, adapters=adapters,
        precision=Precision(
            base="fp16", trained="fp32", quantised="gptq-int4-g128", autocast="fp16", has_scaler=True
        ),
        checkpointing=Checkpointing(kind="full", is_reentrant=True),
        parallel=Parallel(sharding="fsdp1", data_ranks=2, shard_ranks=2, parameter_dtype="fp16", reduce_dtype="fp16"),
    )  # fmt: skip
    quantised = 32 * (2 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14336)
    shared = shared_of(architecture, told)
    # And the rotary positions' inverse frequencies.
    assert shared.beside_bytes == pytest.approx(quantised // 128 * 2 + 32 * 4 * (6 * 4096 + 14336), abs=33 * 512)
    found = rank_peaks(architecture, told, workspace_bytes=8_519_680)
    # A token of padding is added to the tokenizer: 2 x 4096 numbers of fp16, halved.
    assert found.after_bytes + 2 * 4096 == pytest.approx(2_261_204_480, rel=1e-5)
    assert found.allocated_bytes == pytest.approx(9_442_125_824, rel=0.02)


def test_litgpt_keeps_gradients_of_frozen_weights_too() -> None:
    # Llama 2 7B, rank 8 on q and v, two A100: 22.18 GB; 64 microbatches without reduction keep whole gradients.
    architecture = describe(
        {
            "model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
            "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 32000, "tie_word_embeddings": False,
        }
    )  # fmt: skip
    adapters = Adapters(rank=8, alpha=16, dropout=0.05, targets=("q_proj", "v_proj"), dtype="bf16")
    told = replace(
        recipe("fsdp1", "full"),
        framework="litgpt", method="lora", tokens=1304, microbatch=1, accumulation=64, adapters=adapters,
        loss=Loss(kind="chunked", chunk_tokens=128),
        parallel=Parallel(sharding="fsdp1", data_ranks=2, shard_ranks=2),
    )  # fmt: skip
    found = rank_peaks(architecture, told, workspace_bytes=8_519_680)
    assert found.allocated_bytes == pytest.approx(22.18e9, rel=0.03)
    # Weights and gradients halved, and no states for what is frozen.
    assert found.step.after.held_bytes == pytest.approx(2 * 6.738e9, rel=0.03)


def test_other_ways_to_share_are_refused() -> None:
    with pytest.raises(InputError, match="none"):
        rank_peaks(describe(CONFIG), recipe("none"), workspace_bytes=0)
    with pytest.raises(InputError, match="tensor_parallel"):
        rank_peaks(describe(CONFIG), recipe("fsdp2", tensor_ranks=2), workspace_bytes=0)


CASES = [
    ("fsdp1", "none"), ("fsdp2", "full"),
    *(pytest.param(*case, marks=pytest.mark.slow) for case in (("ddp", "none"), ("fsdp2", "none"), ("fsdp1", "full"))),
]  # fmt: skip


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("sharding", "checkpointing"), CASES)
def test_a_traced_rank(sharding: str, checkpointing: str) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    import torch.distributed as dist
    from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    from capienza.trace import predict_peak

    def wrapped(model):
        layers = list(model.model.layers)
        if sharding == "ddp":
            return torch.nn.parallel.DistributedDataParallel(model, device_ids=[int(os.environ["LOCAL_RANK"])])
        if sharding == "fsdp1":
            policy = ModuleWrapPolicy({type(layers[0])})
            return FullyShardedDataParallel(model, auto_wrap_policy=policy, device_id=int(os.environ["LOCAL_RANK"]))
        for layer in layers:
            fully_shard(layer)
        return fully_shard(model)

    def build():
        dist.init_process_group("nccl")
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        config = transformers.LlamaConfig(
            **{key: value for key, value in CONFIG.items() if key != "model_type"}, use_cache=False
        )
        with torch.device("cuda"):
            model = transformers.LlamaForCausalLM(config).to(torch.bfloat16)
        if checkpointing == "full":
            model.gradient_checkpointing_enable({"use_reentrant": False})
        model = wrapped(model)
        return model.train(), torch.optim.AdamW(model.parameters(), foreach=True)

    def step(state) -> None:
        model, optimizer = state
        ids = torch.ones(ROWS, TOKENS, dtype=torch.int64, device="cuda")
        model(input_ids=ids, labels=ids.clone()).loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    traced = predict_peak(build, step, device="A100 80GB", world_size=4, ranks=(0,), steps=2).gpus[0]
    peak = max(one.allocated_bytes for one in traced.phases if one.phase != "load")
    found = rank_peaks(describe(CONFIG), recipe(sharding, checkpointing), workspace_bytes=A100_WORKSPACE_BYTES)
    assert found.allocated_bytes == pytest.approx(peak, rel=0.02)
