"""A training recipe, complete: no field is open, and each says where its value comes from.

Legend: dtype a number format in a card's words (bf16, fp16, fp32); a microbatch is what one forward and backward pass
of one GPU sees; an update is `accumulation` microbatches and one optimizer step; ranks are GPUs of one run.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from capienza.errors import Message

Dtype = Literal["bf16", "fp16", "fp32"]
Method = Literal["full", "lora", "dora", "qlora"]
Objective = Literal["sft", "dpo", "orpo", "simpo", "grpo"]
Family = Literal[
    "adamw", "adam", "sgd", "adafactor", "lion", "muon", "rmsprop", "adagrad", "galore_adamw", "apollo_adamw"
]  # fmt: skip
PAIRED = ("dpo", "orpo", "simpo")
"""Objectives whose microbatch counts pairs of answers."""
Sharding = Literal["none", "ddp", "fsdp1", "fsdp2", "zero1", "zero2", "zero3"]


class Adapters(msgspec.Struct, frozen=True, kw_only=True):
    """Low-rank pairs beside frozen matrices. `targets` are ends of module names, or "all-linear".

    `modules_to_save` are trained whole: a copy of each, beside the original.
    """

    rank: int
    alpha: float
    dropout: float
    targets: tuple[str, ...]
    dtype: Dtype
    modules_to_save: tuple[str, ...] = ()
    is_dora: bool = False


class Optimizer(msgspec.Struct, frozen=True, kw_only=True):
    """`run` is how torch walks the parameters: all at once, in one kernel, one after the other.

    `state_bits` 0 means the format of the parameter. `is_paged` states live in managed memory, outside PyTorch's
    counters. `in_backward`: each parameter is updated as soon as its gradient is there, and the gradient freed.
    """

    family: Family
    run: Literal["foreach", "fused", "loop"]
    state_bits: Literal[0, 4, 8, 32] = 0
    is_paged: bool = False
    in_backward: bool = False
    has_momentum: bool = True
    projection_rank: int | None = None
    library: Literal["torch", "bitsandbytes", "torchao", "transformers"] = "torch"


class Precision(msgspec.Struct, frozen=True, kw_only=True):
    """`base` is the format of frozen weights (of those that are not quantised), `trained` of weights that are trained.

    `quantised` names the format of the base's linear modules. `autocast` None: every operation in its own format.
    `widens_rest`: what is not quantised is taken up to fp32 before training (PEFT's k-bit preparation); `widens_norms`
    leaves that to the norms. `widens_outputs`: the logits are copied to fp32 on their way out (accelerate).
    `fp8`: linear modules multiply in fp8. `master`: the optimizer keeps one more copy of the trained weights, in it.
    """

    base: Dtype
    trained: Dtype
    quantised: str | None = None
    autocast: Dtype | None = None
    has_scaler: bool = False
    widens_rest: bool = False
    widens_norms: bool = False
    widens_outputs: bool = False
    fp8: bool = False
    master: Dtype | None = None


class Checkpointing(msgspec.Struct, frozen=True, kw_only=True):
    """What of the forward pass is kept. `selective` keeps the results of matrix products and attention of some layers.

    `offload`: the inputs of the layers wait in main memory.
    """

    kind: Literal["none", "full", "selective", "offload"]
    is_reentrant: bool = False


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """How logits become a loss.

    full: all logits, cross entropy by torch; `widens` copies them to fp32, `shifts` copies them once more;
    `is_normalised`: the head's rows are brought to length one before each product (Baichuan2), the head is not trained.
    fused: all logits, one kernel that writes their gradient in place. fused_linear: the logits are never whole.
    chunked: the head, or the loss, runs over pieces of `chunk_tokens`.
    """

    kind: Literal["full", "fused", "fused_linear", "chunked"]
    widens: bool = True
    shifts: bool = False
    chunk_tokens: int | None = None
    keeps_outputs: bool = False
    is_normalised: bool = False


class Lengths(msgspec.Struct, frozen=True, kw_only=True):
    """How long the rows of the data are, which are not packed: `mean_tokens` of all of them, the long ones too.

    `drops_longer`: a row of more tokens than allowed is left out; else it is cut.
    """

    mean_tokens: int
    drops_longer: bool = False


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """`microbatch` 0: none. `keeps_logits`: those of all rows wait on the GPU until the end. `generates` tokens.

    `rows` of the whole evaluation, None where nobody says; `offload_steps` passes after which kept logits leave it.
    """

    microbatch: int
    keeps_logits: bool = False
    generates: int = 0
    rows: int | None = None
    offload_steps: int | None = None


class Parallel(msgspec.Struct, frozen=True, kw_only=True):
    """How the ranks share the work. `shard_ranks` hold one copy of what is sharded (HSDP: fewer than `data_ranks`).

    `parameter_dtype` and `reduce_dtype` are those of FSDP's mixed precision; `unsharded` says that parameters stay
    gathered between forward and backward; `offload` what waits in main memory. Elements are DeepSpeed's: of a bucket,
    of what is gathered ahead, of weights that stay whole, of what is whole at once; None is its default. `overlaps`:
    its buckets are two. `saves_whole`: a checkpoint is of whole weights (FULL_STATE_DICT). `loads_once`: one rank reads
    the weights and sends each to the others (cpu_ram_efficient_loading); else each rank builds the whole model.
    `gathers_ahead`: FSDP1's BACKWARD_PRE. `reduces_each`: FSDP reduces after every microbatch (sync_each_batch).
    `auto_sizes`: transformers writes DeepSpeed's sizes by the model's width.
    """

    sharding: Sharding = "none"
    data_ranks: int = 1
    shard_ranks: int = 1
    tensor_ranks: int = 1
    pipeline_ranks: int = 1
    parameter_dtype: Dtype | None = None
    reduce_dtype: Dtype | None = None
    unsharded: bool = False
    offload: Literal["none", "optimizer", "parameters"] = "none"
    bucket_elements: int | None = None
    gradient_as_bucket_view: bool = False
    prefetch_elements: int | None = None
    persistence_elements: int | None = None
    live_elements: int | None = None
    overlaps: bool | None = None
    saves_whole: bool = False
    loads_once: bool = True
    gathers_ahead: bool = True
    reduces_each: bool = False
    auto_sizes: bool = False


class Preference(msgspec.Struct, frozen=True, kw_only=True):
    """What a method of reinforcement or preference learning holds besides the trained model.

    `reference`: a second model, the same one without its adapters, or none. `rollout`: who writes the completions;
    an engine beside the trainer takes `rollout_share` of the card unless it `sleeps` during the update.
    """

    reference: Literal["none", "model", "adapter_off", "precomputed"] = "none"
    reward_model: str | None = None
    rollout: Literal["none", "transformers", "vllm_colocate", "vllm_server"] = "none"
    rollout_share: float | None = None
    sleeps: bool = False
    group: int = 1
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class Origin(msgspec.Struct, frozen=True):
    """Where a value comes from: the card, or a habit with its source."""

    field: str
    value: str
    source: Message
    is_stated: bool


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """One training run on one rank's view. `tokens` and `microbatch` are of one pass; padded rows are full rows.

    `kernels`: whose code runs norms, rotary positions and the gated product (`pytorch`: torch.nn's modules; `written`:
    each operation written out). `has_padding_mask`: the batch holds an attention mask. `lengths` None: every row has
    all tokens. `images` of one row, `image_size` pixels of their sides. `exports_on_host`: adapters are merged in main
    memory, apart from the run. `added_tokens` are rows that the framework adds to embedding and head (a padding token),
    or with a minus takes away when it fits them to the tokenizer. `libraries` are releases by package, as stated or as
    they were in the framework's month. `left_out` are options of the card that change no figure here, `origins` what
    every field rests on.
    """

    framework: str
    framework_version: str | None
    objective: Objective
    method: Method
    tokens: int
    microbatch: int
    accumulation: int
    is_packed: bool
    has_padding_mask: bool
    attention: Literal["sdpa", "eager", "flash_attention_2", "flash_attention_3", "xformers"]
    kernels: Literal[
        "transformers", "liger", "unsloth", "foak", "litgpt", "torchtune", "torchtitan", "pytorch", "written"
    ]
    is_compiled: bool
    precision: Precision
    optimizer: Optimizer
    checkpointing: Checkpointing
    loss: Loss
    evaluation: Evaluation
    adapters: Adapters | None = None
    max_grad_norm: float | None = 1.0
    export: Literal["none", "adapter", "merge", "full_state"] = "none"
    exports_on_host: bool = False
    parallel: Parallel = Parallel()
    preference: Preference | None = None
    lengths: Lengths | None = None
    allocator: str | None = None
    images: int | None = None
    image_size: int | None = None
    added_tokens: int = 0
    libraries: tuple[tuple[str, str], ...] = ()
    left_out: tuple[Message, ...] = ()
    origins: tuple[Origin, ...] = ()

    @property
    def sequences(self) -> int:
        """Sequences of one forward pass: of a pair both, the chosen and the rejected one."""
        return (2 if self.objective in PAIRED else 1) * self.microbatch

    @property
    def rows_tokens(self) -> int:
        """Tokens of one forward pass."""
        return self.sequences * self.tokens
