"""One rank of torchtitan's own Llama, from a recipe: FSDP2, and tensor parallel within it.

The last layer is not resharded after forward; the training loop, not the model, makes the loss. Sources: torchtitan
0.2.0 models/llama3/infra/parallelize.py, train.py.
"""

from __future__ import annotations

from capienza.architecture.model import Architecture
from capienza.predict.training.parallel.fsdp2 import RowPlan, fsdp2
from capienza.predict.training.parallel.moment import Step
from capienza.predict.training.parallel.program import Program
from capienza.predict.training.parallel.states import adam
from capienza.predict.training.parallel.titan import Checkpointing, Llama, llama_passages, llama_units
from capienza.predict.training.parallel.units import Model
from capienza.predict.training.parallel.woven_fsdp2 import fsdp2_program
from capienza.predict.training.trained import BYTES
from capienza.recipe.recipe import Recipe

LOSS_CHUNKS = 8
LLAMAS = ("llama", "mistral", "qwen2", "qwen3")


def is_titan(architecture: Architecture, recipe: Recipe) -> bool:
    """Is it torchtitan's program, of a model that it has?"""
    is_own = recipe.framework == "torchtitan" and recipe.parallel.sharding == "fsdp2"
    first = architecture.layers[0] if architecture.layers else None
    is_known = first is not None and first.attention is not None and first.mlp is not None
    return is_own and is_known and architecture.model_type in LLAMAS and recipe.adapters is None


def titan_rank(architecture: Architecture, recipe: Recipe, workspace_bytes: int) -> tuple[Step, Program, Model]:
    """The moments, the program and the units of a rank. `workspace_bytes`: one of cuBLAS's."""
    attention, mlp = architecture.layers[0].attention, architecture.layers[0].mlp
    assert attention is not None
    assert mlp is not None
    parallel, kind = recipe.parallel, recipe.checkpointing.kind
    llama = Llama(
        layers=len(architecture.layers),
        hidden=architecture.hidden_size,
        heads=attention.num_attention_heads,
        key_heads=attention.num_key_value_heads,
        head=attention.key_head_dim,
        feed_forward=mlp.intermediate_size,
        vocabulary=architecture.vocab_size,
        tensor_ranks=parallel.tensor_ranks,
    )
    plan = RowPlan(
        ranks=parallel.shard_ranks,
        upkeep=adam(BYTES["fp32"], is_foreach=recipe.optimizer.run == "foreach"),
        travel_bytes=BYTES[parallel.parameter_dtype or "fp32"],
        reduce_bytes=BYTES[parallel.reduce_dtype or "fp32"],
        reshards="none" if parallel.unsharded else "all_but_last",
    )
    checkpointing: Checkpointing = "full" if kind == "offload" else kind
    passages = llama_passages(
        llama,
        rows=recipe.microbatch,
        tokens=recipe.tokens,
        checkpointing=checkpointing,
        loss_chunks=LOSS_CHUNKS if recipe.loss.kind == "chunked" else 1,
        keeps_logits=recipe.loss.keeps_outputs,
    )
    model = llama_units(llama)
    return fsdp2(model, plan), fsdp2_program(passages, model, plan, workspace_bytes=workspace_bytes), model
