"""The recipe of a training case: what the case states, and the framework's habit for the rest, marked as assumed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, cast

import msgspec

from capienza.errors import InputError, template
from capienza.recipe.recipe import (
    Adapters,
    Checkpointing,
    Dtype,
    Evaluation,
    Lengths,
    Loss,
    Method,
    Objective,
    Optimizer,
    Origin,
    Precision,
    Preference,
    Recipe,
)
from capienza.validate import training_reasons as reasons
from capienza.validate import training_words as words
from capienza.validate.titan_history import is_captured, is_early
from capienza.validate.training_habits import Habit, Kernels, default_targets, habit_of, targets_of
from capienza.validate.training_optimizer import training_optimizer
from capienza.validate.training_spread import training_spread

Row = Mapping[str, Any]
HABIT = template("validate.training-habit", "not stated by the case; {framework} does so unless told")
OPEN_LENGTH = template("validate.training-open-length", "the case only bounds the length of its sequences")
OPEN_LENGTH_TOKENS = 2048
OWN_CODE = re.compile(r"baichuan|xverse|internlm|aquila|minicpm")
"""Models that came with modeling code of their own."""
OWN_XFORMERS = re.compile(r"baichuan2?-7b")
"""Models whose own code trains by xformers wherever it is installed (modeling_baichuan.py of Baichuan2-7B). That of 13B
gives it a mask for every head, which is not covered."""
OWN_LOSS = re.compile(r"baichuan")
"""Models whose own code makes the loss, of a shifted copy of the logits in their format (modeling_baichuan.py)."""
NORMALISED_HEAD = re.compile(r"baichuan2")
"""Models whose head is brought to length one, row by row, at every pass in training (NormHead)."""
OWN_FLASH = ("qwen",)
"""Families whose own code asks for flash attention by a name of its own."""
FITTED_TOKENS = (("santacoder", -122), ("llama-3", 2), ("powerlm", 0))
"""Rows that fms-hf-tuning adds to these models' embeddings, by what their tokenizers hold; one for all others."""
WHOLE_ROW_GROUPS = re.compile(r"thebloke/(?:.*70b|.*mixtral)", re.IGNORECASE)
"""Checkpoints of GPTQ whose quantize_config.json states one group a row."""
PAGES = (("ms-swift docs/source_en/llm/benchmark.md", "mean 3234 tokens"),)
"""What a page that several cases come from says of the data of all of them."""
MEAN_TOKENS = re.compile(r"mean (\d{2,7}) tokens", re.ASCII)
WRITTEN_OUT = re.compile(r"^custom\b")
"""A note that a program's norms and activations are its own."""
OTHER_LOSSES = re.compile(r"classif|labels\)|contrastive|reward")
NO_LOSSES = re.compile(r"\bmse\b|flow|diffusion")
WIDE_NORMS, NARROW_NORMS = "norms to fp32", "norms kept bf16"


def training_recipe(row: Row, family: str) -> Recipe:
    """The recipe of a case whose model is of that family. Raises `InputError` with the reason why there is none."""
    framework = str(row.get("framework") or "")
    habit, origins = habit_of(framework), list[Origin]()
    method, objective = _method(row), _objective(row)
    precision = _precision(row, habit, method, origins)
    parallel, is_spread_stated = training_spread(row, precision.autocast, habit.is_hugging_face)
    if not is_spread_stated:
        _assume(origins, habit, "parallel.sharding", parallel.sharding)
    tokens, is_exact = words.length(row.get("seq_len"))
    if not is_exact or tokens is None:
        origins.append(Origin("tokens", str(tokens or OPEN_LENGTH_TOKENS), OPEN_LENGTH(), False))
    microbatch = words.count("microbatch", row.get("microbatch"))
    if microbatch is None:
        _assume(origins, habit, "microbatch", "1")
    checkpointing = _checkpointing(row, habit, origins)
    loss = _loss(row, habit, origins)
    return Recipe(
        framework=habit.name,
        framework_version=_version(row),
        objective=objective,
        method=method,
        tokens=tokens or OPEN_LENGTH_TOKENS,
        microbatch=microbatch or 1,
        accumulation=_accumulation(row, habit, origins, (microbatch or 1) * parallel.data_ranks),
        is_packed=words.text(row.get("packed")) == "true",
        has_padding_mask=habit.is_hugging_face or habit.name == "peft",
        added_tokens=added_tokens(row),
        libraries=words.libraries(row.get("framework_version")),
        attention=cast("Any", _attention(row, habit, family, origins)),
        kernels=_kernels(row, habit),
        is_compiled=words.text(row.get("compile")) == "true" or is_captured(row),
        precision=precision,
        optimizer=_optimizer(row, habit, origins),
        checkpointing=checkpointing,
        loss=loss,
        evaluation=_evaluation(habit, microbatch or 1),
        adapters=_adapters(row, habit, method, precision, family, origins),
        max_grad_norm=habit.max_grad_norm,
        parallel=parallel,
        preference=_preference(objective, method),
        lengths=_lengths(row, habit),
        allocator="expandable_segments:True" if _is_expandable(row, habit) else None,
        origins=tuple(origins),
    )


def _lengths(row: Row, habit: Habit) -> Lengths | None:
    """Where the case tells the mean length of its data, and does not pack them."""
    found = MEAN_TOKENS.search(_notes(row)) or next(
        (MEAN_TOKENS.search(said) for page, said in PAGES if page in words.text(row.get("source"))), None
    )
    if found is None or words.text(row.get("packed")) == "true":
        return None
    return Lengths(mean_tokens=int(found[1][:7]), drops_longer=habit.drops_longer)


def _is_expandable(row: Row, habit: Habit) -> bool:
    return (habit.is_expandable and not is_early(row)) or "expandable" in _notes(row)


def _assume(origins: list[Origin], habit: Habit, field: str, value: object) -> None:
    origins.append(Origin(field, str(value), HABIT(framework=habit.name), False))


def _notes(row: Row) -> str:
    return words.text(row.get("notes"))


def _version(row: Row) -> str | None:
    said = row.get("framework_version")
    return said[:200] if isinstance(said, str) and said.strip() else None


def _method(row: Row) -> Method:
    said = words.text(row.get("method"))
    if " vs " in said:
        raise InputError(reasons.SEVERAL_RUNS(found=said[:60]))
    if re.search(r"\bop\b|forward \(no model\)|logprob", said):
        raise InputError(reasons.ONE_OPERATION(method=said[:60]))
    if "offload" in said:
        raise InputError(reasons.OFFLOADED(what=said[:60]))
    if re.search(r"badam|q-galore|gkd|adapter|lisa|lomo|reward|kto|orpo|\bppo\b", said):
        raise InputError(reasons.OTHER_METHOD(method=said[:60]))
    if "dora" in said:
        return "dora"
    if said.startswith("peft:") and said != "peft:lora":
        raise InputError(reasons.OTHER_METHOD(method=said[:60]))
    if "lora" in said:
        is_packed = "qlora" in said or words.quantised(row.get("weight_dtype")) or words.quantised(said)
        return "qlora" if is_packed else "lora"
    if re.search(r"full|pretrain|finetun|galore|apollo|\bsft\b", said):
        return "full"
    raise InputError(reasons.OTHER_METHOD(method=said[:60] or "-"))


def _objective(row: Row) -> Objective:
    said = words.text(row.get("method"))
    return "dpo" if "dpo" in said else "grpo" if "grpo" in said else "sft"


def _precision(row: Row, habit: Habit, method: Method, origins: list[Origin]) -> Precision:
    stored, said = words.text(row.get("weight_dtype")), words.text(row.get("mixed_precision"))
    if method == "full" and re.search(r"\bint[48]\b|nf4", stored):
        raise InputError(reasons.OTHER_WEIGHTS(found=stored[:60]))
    places = (stored, row.get("method"), said)
    quantised = next(filter(None, map(words.quantised, places)), None) if method == "qlora" else None
    if method == "qlora" and quantised is None:
        quantised = "nf4_double"
        _assume(origins, habit, "precision.quantised", quantised)
    if quantised and quantised.startswith("gptq") and WHOLE_ROW_GROUPS.search(str(row.get("model"))):
        quantised = quantised.partition("-g")[0]
    half: Dtype = "fp16" if has_no_bf16(row) else "bf16"
    if method == "full" and half == "fp16" and "fp16" in stored and "bf16" in stored:
        half = "fp32"  # a gradient scaler refuses weights in fp16
    base = words.dtype(stored) or (words.dtype(said) if quantised is None else None)
    if ("bf16" in stored and "fp16" in stored) or base is None:
        base = half
        _assume(origins, habit, "precision.base", base)
    if habit.autocasts and quantised and quantised.startswith("gptq") and base != "fp16":
        base = "fp16"
        _assume(origins, habit, "precision.base", base)
    autocast = _autocast(said, half)
    if habit.autocasts and not said and base != "fp32":
        autocast = base
        _assume(origins, habit, "precision.autocast", autocast)
    if "bf16-true" in said and "fp32" not in stored:
        base = "bf16"
    lora = words.lora_of(row)
    adapters = words.dtype(lora.get("adapter_dtype")) if method != "full" else base
    if adapters is None:
        adapters = "fp32" if habit.wide_adapters else base
        _assume(origins, habit, "precision.trained", adapters)
    is_bnb = quantised is not None and quantised[:3] in ("nf4", "fp4", "int")
    prepares = _preparation(row, habit) if is_bnb else "nothing"
    return Precision(
        base=base,
        trained=adapters,
        quantised=quantised,
        autocast=autocast,
        has_scaler=autocast == "fp16" or (base == "fp16" and "scaler" in said),
        widens_rest=prepares == "rest",
        widens_norms=prepares == "norms",
        widens_outputs=autocast is not None and habit.is_hugging_face,
        fp8=re.search(r"float8|\bfp8", said) is not None,
    )


def _preparation(row: Row, habit: Habit) -> Literal["rest", "norms", "nothing"]:
    if NARROW_NORMS in _notes(row) or (habit.name == "axolotl" and _is_narrowed(row)):
        return "nothing"
    return "norms" if WIDE_NORMS in _notes(row) else habit.prepares_bits


def _is_narrowed(row: Row) -> bool:
    """Axolotl takes norms back to 16 bits for flash attention and for cut cross entropy (loaders/model.py)."""
    said = f"{words.text(row.get('loss_impl'))} {words.text(row.get('attention'))}"
    return re.search(r"cut[- ]cross|\bcce\b|flash", said) is not None


def _autocast(said: str, half: Dtype) -> Dtype | None:
    if not said or said.startswith(("none", "no ", "pure")) or "bf16-true" in said or "mixedprecision" in said:
        return None
    if "deepspeed" in said or "float8" in said:
        return None
    if re.search(r"bf16=(auto|true)", said) or ("bf16" in said and "fp16" in said):
        return half
    return words.dtype(said) if re.search(r"autocast|amp|mixed|bf16|fp16", said) else None


def added_tokens(row: Row) -> int:
    """Rows that a tuner adds to the embedding for a padding token that the tokenizer has not, or cuts off."""
    if "fms" not in words.text(row.get("framework")):
        return 0
    name = words.text(row.get("model"))
    return next((count for word, count in FITTED_TOKENS if word in name), 1)


def has_no_bf16(row: Row) -> bool:
    """Is the card one of those before Ampere, on which 16 bits are fp16?"""
    return re.search(r"\bt4\b|v100|p100|titan|rtx ?20\d\d", words.text(row.get("gpu"))) is not None


def _checkpointing(row: Row, habit: Habit, origins: list[Origin]) -> Checkpointing:
    said = words.checkpointing(row.get("gradient_checkpointing"))
    if said is None:
        said = Checkpointing(kind="full" if habit.checkpoints else "none")
        _assume(origins, habit, "checkpointing.kind", said.kind)
    stated = "reentrant" in words.text(row.get("gradient_checkpointing"))
    if said.kind == "full" and not stated and habit.is_hugging_face and _is_before_5(row) and not _is_freed(row, habit):
        said = Checkpointing(kind="full", is_reentrant=True)
        _assume(origins, habit, "checkpointing.is_reentrant", "true")
    return said


def _is_freed(row: Row, habit: Habit) -> bool:
    torch = words.version_of("torch", row.get("framework_version"))
    return habit.frees_checkpoints and torch is not None and torch >= (2, 1)


def _is_before_5(row: Row) -> bool:
    return (words.version_of("transformers", row.get("framework_version")) or (4, 0)) < (5, 0)


def _loss(row: Row, habit: Habit, origins: list[Origin]) -> Loss:
    said = words.text(row.get("loss_impl"))
    if NO_LOSSES.search(said):
        raise InputError(reasons.NO_LANGUAGE_MODEL(model=str(row.get("model"))[:80]))
    if OTHER_LOSSES.search(said):
        raise InputError(reasons.OTHER_HEAD(loss=said[:60]))
    loss = words.loss(row.get("loss_impl"), widens=habit.widens_logits)
    if loss is None:
        loss = Loss(kind="full", widens=habit.widens_logits)
        _assume(origins, habit, "loss.kind", loss.kind)
    model = words.text(row.get("model"))
    if loss.kind == "full" and OWN_LOSS.search(model):
        return msgspec.structs.replace(
            loss, widens=False, shifts=True, is_normalised=NORMALISED_HEAD.search(model) is not None
        )
    return msgspec.structs.replace(loss, keeps_outputs=True) if is_early(row) else loss


def _accumulation(row: Row, habit: Habit, origins: list[Origin], rows: int) -> int:
    stated = row.get("grad_accum")
    if isinstance(stated, str) and not stated.strip().isdigit():
        stated = None
    found = words.count("grad_accum", stated)
    if found is None:
        found = max(1, habit.update_rows // rows)
        _assume(origins, habit, "accumulation", found)
    return found


def _attention(row: Row, habit: Habit, family: str, origins: list[Origin]) -> str:
    found = words.attention(row.get("attention"))
    if found == "flash_attention_2" and habit.asks_flash_by_old_name and family not in OWN_FLASH and _is_deaf(row):
        found = None
    if found is None and OWN_XFORMERS.search(words.text(row.get("model"))):
        found = "xformers"
        _assume(origins, habit, "attention", found)
    if found is None:
        found = "eager" if habit.is_hugging_face and _is_before_sdpa(row, family) else "sdpa"
        _assume(origins, habit, "attention", found)
    return found


def _is_deaf(row: Row) -> bool:
    """Does transformers no longer read `_flash_attn_2_enabled`? Since 4.36 it is `_attn_implementation`."""
    return (words.version_of("transformers", row.get("framework_version")) or (0, 0)) >= (4, 36)


def _is_before_sdpa(row: Row, family: str) -> bool:
    """Torch's own attention came to Llama with transformers 4.36, to others later; not to models' own code."""
    release = words.version_of("transformers", row.get("framework_version"))
    own_code = OWN_CODE.search(words.text(row.get("model"))) is not None
    return release is not None and (release < (4, 36) or (release < (4, 38) and (family != "llama" or own_code)))


def _kernels(row: Row, habit: Habit) -> Kernels:
    said = words.text(row.get("loss_impl"))
    if "fused rmsnorm" in said or "fused (triton)" in said:
        return "foak"
    if "liger" in said and "fms" in words.text(row.get("framework")):
        return "foak"  # fms-acceleration takes Liger's loss beside its own kernels
    if habit.kernels == "pytorch" and WRITTEN_OUT.search(_notes(row)):
        return "written"
    return "liger" if "liger" in said and "cut" not in said else habit.kernels


def _optimizer(row: Row, habit: Habit, origins: list[Origin]) -> Optimizer:
    found = training_optimizer(row, habit)
    if found is None:
        found = Optimizer(family="adamw", run="foreach")
        _assume(origins, habit, "optimizer.family", found.family)
    return found


def _evaluation(habit: Habit, microbatch: int) -> Evaluation:
    """LitGPT validates on microbatches of the training's size and writes an answer in between."""
    if habit.generates:
        return Evaluation(microbatch=microbatch, generates=habit.generates)
    return Evaluation(microbatch=0)


def _adapters(
    row: Row, habit: Habit, method: Method, precision: Precision, family: str, origins: list[Origin]
) -> Adapters | None:
    if method == "full":
        return None
    lora = words.lora_of(row)
    rank = words.count("lora.r", lora.get("r"))
    if rank is None:
        raise InputError(reasons.NO_RANK())
    said = words.names(lora.get("targets"))
    if not said:
        targets = default_targets(family)
        _assume(origins, habit, "adapters.targets", ", ".join(targets))
    elif said[0] == "default":
        targets = targets_of(("q", "k", "v"), family)
    else:
        targets = targets_of(said, family)
    dropout = words.number(lora.get("dropout"))
    if dropout is None:
        _assume(origins, habit, "adapters.dropout", 0)
    alpha = words.number(lora.get("alpha"))
    return Adapters(
        rank=rank,
        alpha=alpha if alpha is not None else float(2 * rank),
        dropout=min(dropout or 0.0, 1.0),
        targets=targets,
        dtype=precision.trained,
        modules_to_save=_saved_modules(row, family),
        is_dora=method == "dora",
    )


def _saved_modules(row: Row, family: str) -> tuple[str, ...]:
    said, asked = words.text(row.get("method")), row.get("cli")
    stated = asked.get("modules_to_save") if isinstance(asked, Mapping) else None
    if isinstance(stated, str) and stated:
        return tuple(stated[:200].split())
    if "modules_to_save" not in said and "fully trained" not in said:
        return ()
    return ("wte", "lm_head") if family in ("qwen", "gpt2") else ("embed_tokens", "lm_head")


def _preference(objective: Objective, method: Method) -> Preference | None:
    if objective == "sft":
        return None
    reference: Literal["model", "adapter_off"] = "model" if method == "full" else "adapter_off"
    if objective == "dpo":
        return Preference(reference=reference)
    return Preference(reference=reference, rollout="transformers", group=8)
