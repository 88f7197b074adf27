"""`rank_peaks` of recipes beside the trace of the same rank: transformers' own models under DDP, FSDP1 and FSDP2.

A trace of ranks is exact beside ranks run with gloo (test_ranks_real); the closed form is within 2 % of it, of small
models and of real configurations, in the highest moment of all phases after loading.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from capienza.architecture.registry import describe
from capienza.predict.training.parallel.rank import rank_peaks
from capienza.recipe.recipe import Checkpointing, Evaluation, Loss, Optimizer, Parallel, Precision, Recipe

pytest.importorskip("torch")
pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]

BOUND = 0.02
A100_WORKSPACE_BYTES = 8320 << 10
CONFIGS = Path(__file__).parents[2] / "examples" / "configs"
SMALL = {
    "model_type": "llama", "hidden_size": 512, "intermediate_size": 1536, "num_hidden_layers": 4,
    "num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 8000, "tie_word_embeddings": False,
    "max_position_embeddings": 2048,
}  # fmt: skip
WORDS: dict[str, dict] = {
    "ddp": {"sharding": "ddp"},
    "ddp-view": {"sharding": "ddp", "gradient_as_bucket_view": True},
    "fsdp1": {"sharding": "fsdp1"},
    "fsdp1-mixed": {"sharding": "fsdp1", "parameter_dtype": "bf16", "reduce_dtype": "bf16"},
    "fsdp1-not-ahead": {"sharding": "fsdp1", "gathers_ahead": False},
    "fsdp2": {"sharding": "fsdp2"},
    "fsdp2-mixed": {"sharding": "fsdp2", "parameter_dtype": "bf16", "reduce_dtype": "fp32"},
    "fsdp2-kept": {"sharding": "fsdp2", "unsharded": True},
    "fsdp2-offloaded": {"sharding": "fsdp2", "offload": "parameters"},
    "hsdp": {"sharding": "fsdp2", "shard_ranks": 2},
}
CASES = [
    ("fsdp2-mixed", "small", 1),
    *(
        pytest.param(*case, marks=pytest.mark.slow)
        for case in (
            ("ddp-view", "small", 1), ("ddp", "small", 2), ("fsdp1-mixed", "small", 1), ("fsdp1", "small", 2),
            ("fsdp1-not-ahead", "small", 1), ("fsdp2", "small", 2), ("fsdp2-kept", "small", 1),
            ("fsdp2-offloaded", "small", 1), ("hsdp", "small", 1),
            ("fsdp2-mixed", "Qwen--Qwen2.5-0.5B", 1), ("fsdp1", "Qwen--Qwen2.5-0.5B", 1),
        )
    ),
]  # fmt: skip


def config_of(name: str) -> dict:
    return SMALL if name == "small" else json.loads((CONFIGS / name / "config.json").read_text())


def recipe(words: dict, accumulation: int) -> Recipe:
    is_mixed = "parameter_dtype" in words
    stored = "fp32" if is_mixed else "bf16"
    parallel = replace(Parallel(sharding=words["sharding"], data_ranks=4, shard_ranks=4), **words)
    return Recipe(
        framework="transformers", framework_version=None, objective="sft", method="full", tokens=512, microbatch=2,
        accumulation=accumulation, is_packed=True, has_padding_mask=False, attention="sdpa", kernels="transformers",
        is_compiled=False, precision=Precision(base=stored, trained=stored),
        optimizer=Optimizer(family="adamw", run="foreach"), checkpointing=Checkpointing(kind="full"),
        loss=Loss(kind="full"), evaluation=Evaluation(microbatch=0), parallel=parallel,
    )  # fmt: skip


@pytest.mark.parametrize(("name", "model", "accumulation"), CASES)
def test_a_rank_as_it_is_traced(name: str, model: str, accumulation: int) -> None:
    words, config = WORDS[name], config_of(model)
    traced = _traced(words, config, accumulation)
    found = rank_peaks(
        describe(config), recipe(words, accumulation), workspace_bytes=A100_WORKSPACE_BYTES, config=config
    )
    assert found.allocated_bytes == pytest.approx(traced, rel=BOUND)


def _traced(words: dict, config: dict, accumulation: int) -> int:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    import contextlib

    import torch.distributed as dist

    from capienza.trace import predict_peak

    def build():
        dist.init_process_group("nccl")
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        entries = {key: value for key, value in config.items() if key not in ("model_type", "use_cache")}
        made = transformers.AutoConfig.for_model(config["model_type"], **entries, use_cache=False)
        with torch.device("cuda"):
            net = transformers.AutoModelForCausalLM.from_config(made, attn_implementation="sdpa")
            net = net.to(torch.float32 if "parameter_dtype" in words else torch.bfloat16)
        net.gradient_checkpointing_enable({"use_reentrant": False})
        net = _wrapped(torch, net, words)
        return net.train(), torch.optim.AdamW(net.parameters(), foreach=True)

    def step(state) -> None:
        net, optimizer = state
        for place in range(accumulation):
            is_last = place == accumulation - 1
            with contextlib.nullcontext() if is_last else _without_reduction(net):
                ids = torch.ones(2, 512, dtype=torch.int64, device="cuda")
                net(input_ids=ids, labels=ids.clone()).loss.backward()
            if hasattr(net, "set_requires_gradient_sync"):
                net.set_requires_gradient_sync(place + 1 >= accumulation - 1)
        optimizer.step()
        optimizer.zero_grad()

    gpu = predict_peak(build, step, device="A100 80GB", world_size=4, ranks=(0,), steps=2).gpus[0]
    return max(one.allocated_bytes for one in gpu.phases if one.phase != "load")


def _without_reduction(net):
    import contextlib

    if hasattr(net, "no_sync"):
        return net.no_sync()
    net.set_requires_gradient_sync(False)
    return contextlib.nullcontext()


def _wrapped(torch, net, words: dict):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import (
        CPUOffloadPolicy,
        FullyShardedDataParallel,
        MixedPrecision,
        MixedPrecisionPolicy,
        fully_shard,
    )
    from torch.distributed.fsdp.fully_sharded_data_parallel import BackwardPrefetch
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    formats = {"bf16": torch.bfloat16, "fp32": torch.float32, None: None}
    travel, reduce = (formats[words.get(key)] for key in ("parameter_dtype", "reduce_dtype"))
    layers, rank = list(net.model.layers), int(os.environ["LOCAL_RANK"])
    is_offloaded = words.get("offload") == "parameters"
    if words["sharding"] == "ddp":
        is_view = words.get("gradient_as_bucket_view", False)
        return torch.nn.parallel.DistributedDataParallel(net, device_ids=[rank], gradient_as_bucket_view=is_view)
    if words["sharding"] == "fsdp1":
        return FullyShardedDataParallel(
            net,
            auto_wrap_policy=ModuleWrapPolicy({type(layers[0])}),
            device_id=rank,
            mixed_precision=MixedPrecision(param_dtype=travel, reduce_dtype=reduce) if travel else None,
            backward_prefetch=BackwardPrefetch.BACKWARD_PRE if words.get("gathers_ahead", True) else None,
        )
    options = {"reshard_after_forward": not words.get("unsharded", False)}
    if travel:
        options["mp_policy"] = MixedPrecisionPolicy(param_dtype=travel, reduce_dtype=reduce)
    if is_offloaded:
        options["offload_policy"] = CPUOffloadPolicy()
    if "shard_ranks" in words:
        options["mesh"] = init_device_mesh("cuda", (2, 2), mesh_dim_names=("copies", "shards"))
    for layer in layers:
        fully_shard(layer, **options)
    return fully_shard(net, **options)
