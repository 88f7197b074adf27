"""From what a card states to one choice for every option: the card's word first, then the framework's habit.

Facts of the card that are no options stand among the choices under names of their own, for habits to depend on:
base_format (what the weights are held in), base_dtype (what of them is not quantised), quantised, has_ranks,
accumulates, fsdp_is_on (transformers' fsdp), auto_sizes (DeepSpeed's "auto").
"""

from __future__ import annotations

from capienza.card.model import Card, Scalar
from capienza.card.options import plain_name
from capienza.card.problems import closest
from capienza.errors import InputError, Message, UsageError, template, with_suggestion
from capienza.recipe.choices import STATED, Choice, Choices, place_in
from capienza.recipe.habits.lookup import default
from capienza.recipe.habits.targets import default_targets
from capienza.recipe.optimizers import NAMES, optimizer_named
from capienza.recipe.ranks import data_ranks, ranks_field, states_sharing
from capienza.recipe.versions import Versions

PLAIN = ("bf16", "fp16", "fp32")
METHODS = ("full", "lora", "dora", "qlora")
ADAPTED = ("lora", "dora", "qlora")
STATES: dict[int, Scalar] = {0: "parameter", 4: "4bit", 8: "8bit", 32: "fp32"}
HALF_OF = {"gptq": "fp16", "awq": "fp16"}
"""What of a quantised checkpoint is not quantised, where its files do not say: the format these methods write."""

OPEN = template(
    "recipe.open",
    "the card states no {fields}, so there is no training to compute",
    "Add {fields} to the card.",
)
NOT_A_METHOD = template(
    "recipe.not-a-method",
    "{found} is no method that is computed; what is: {accepted}",
    "Write one of these under method; dpo and grpo go under objective.",
)
NOT_AN_OPTIMIZER = template(
    "recipe.not-an-optimizer",
    "{found} is no optimizer that is known here; what is: {accepted}",
    "Write one of these names.",
)
STORED = template("recipe.stored", "as the model's files hold it")
STORED_BUT = template(
    "recipe.stored-but",
    "as the model's files hold it; unless it is told so, the program loads {loads}: {read_in}",
    "Write weights.format as it is loaded.",
)
OF_THE_FORMAT = template("recipe.of-the-format", "what {format} leaves unquantised, where the files do not say")

SYNONYMS: dict[str, dict[Scalar, Scalar]] = {
    "gradient_checkpointing": {True: "full", False: "none", "no": "none", "off": "none", "unsloth": "offload"},
    "mixed_precision": {"no": "none"},
    "loss": {"liger": "fused_linear", "cce": "fused_linear"},
    "offload": {"cpu": "parameters"},
}
ORDER = (
    "objective", "sharding", "optimizer", "mixed_precision", "rank", "alpha", "dropout",
    "modules_to_save", "adapter_dtype", "frozen_dtype", "trained_dtype", "master_weights", "fp8", "kbit_upcast",
    "optimizer_run", "optimizer_states", "paged", "optimizer_in_backward", "momentum", "projection_rank", "attention",
    "kernels", "images", "image_size",
    "packing", "packing_strategy", "padding_free", "padding_mask", "loss_type", "loss", "loss_fp32",
    "loss_shift_copy", "loss_chunks", "loss_chunk", "keep_outputs", "fp32_outputs", "gradient_checkpointing",
    "activation_offloading", "reentrant", "eval_microbatch", "eval_keeps_logits", "eval_rows",
    "eval_accumulation_steps", "eval_generates", "export", "export_device",
    "max_grad_norm", "compile", "shard_ranks", "parameter_dtype", "reduce_dtype", "reshard_after_forward", "offload",
    "bucket_elements", "gradient_as_bucket_view", "prefetch_elements", "persistence_elements", "live_elements",
    "overlaps", "saves_whole", "loads_once", "gathers_ahead", "sync_each_batch", "beta", "reference", "reward_model",
    "use_vllm", "vllm_mode", "rollout", "rollout_share", "rollout_sleeps", "group", "prompt_tokens",
    "completion_tokens",
)  # fmt: skip
"""Options in the order they are settled: a habit may depend on those before it."""


def missing_fields(card: Card) -> tuple[str, ...]:
    """Fields without which there is no recipe: no framework has a habit for them."""
    training = card.training
    found = {
        "training.method": training.method if training else None,
        "tokens.required": card.tokens.required,
        "microbatch": card.microbatch,
    }
    return tuple(field for field, value in found.items() if value is None)


def settled(
    card: Card,
    stated: Choices,
    framework: str,
    versions: Versions,
    *,
    stored_format: str | None,
    rest_dtype: str | None,
    model_type: str | None,
) -> Choices:
    """One choice for every option. Raises `InputError` for names that are not known, `UsageError` for open fields."""
    missing = missing_fields(card)
    if missing:
        raise UsageError(OPEN(fields=missing))
    accumulates = Choice((card.accumulation or 1) > 1, STATED(field="accumulation"), "accumulation")
    made: Choices = {"method": _method(card, stated), "has_ranks": _has_ranks(card, stated), "accumulates": accumulates}
    made |= {option: stated[option] for option in ("fsdp_is_on", "auto_sizes") if option in stated}
    made |= _lengths(card, stated)
    made |= _base(card, made, framework, versions, stored_format, rest_dtype)
    if made["method"].value in ADAPTED and "rank" not in stated and default("rank", framework, versions, made) is None:
        raise UsageError(OPEN(fields=("training.rank",)))
    for option in ORDER:
        if option == "optimizer":
            made |= _optimizer(card, stated, framework, versions, made)
            continue
        if option in made:
            continue
        found = stated.get(option) or default(option, framework, versions, made)
        if found is not None:
            made[option] = _plain(option, found)
    made |= {option: stated[option] for option in ("targets", "dora") if option in stated}
    if made["method"].value in ADAPTED and "targets" not in made:
        made["targets"] = _targets(framework, versions, made, model_type)
    return made


def _plain(option: str, choice: Choice) -> Choice:
    value = choice.value
    for other, meant in SYNONYMS.get(option, {}).items():
        if value == other and isinstance(value, bool) == isinstance(other, bool):
            return Choice(meant, choice.source, choice.field)
    return choice


def _method(card: Card, stated: Choices) -> Choice:
    choice = stated["method"]
    method = str(choice.value).casefold()
    if method not in METHODS:
        told = with_suggestion(NOT_A_METHOD(found=method[:60], accepted=METHODS), closest(method, METHODS))
        raise InputError(told, place_in(card, choice.field))
    dora = stated.get("dora")
    if dora is not None and dora.value and method == "lora":
        return Choice("dora", dora.source, dora.field)
    return Choice(method, choice.source, choice.field)


def _has_ranks(card: Card, stated: Choices) -> Choice:
    field = ranks_field(card) or "placement.data_parallel"
    return Choice(data_ranks(card, is_shared=states_sharing(stated)) > 1, STATED(field=field))


def _lengths(card: Card, stated: Choices) -> Choices:
    """Prompt and completion of reinforcement learning, where the card states its length in two parts."""
    required = card.tokens.required
    parts = {"prompt_tokens": required and required.prompt, "completion_tokens": required and required.output}
    is_asked = "objective" in stated and stated["objective"].value == "grpo"
    return {
        option: Choice(tokens, STATED(field="tokens.required"), "tokens.required")
        for option, tokens in parts.items()
        if tokens and is_asked and option not in stated
    }


def _base(
    card: Card,
    made: Choices,
    framework: str,
    versions: Versions,
    stored_format: str | None,
    rest_dtype: str | None,
) -> Choices:
    """The format of the weights as they are held, and of what of them is not quantised."""
    if card.weights.format is not None:
        held = Choice(card.weights.format, STATED(field="weights.format"), "weights.format")
    elif stored_format is not None and (made["method"].value != "qlora" or stored_format not in PLAIN):
        held = Choice(stored_format, _as_stored(framework, versions, made, stored_format))
    else:
        found = default("base_format", framework, versions, made)
        if found is None:
            raise UsageError(OPEN(fields=("weights.format",)))
        held = found
    name = str(held.value)
    if name in PLAIN:
        rest = held
    elif rest_dtype in PLAIN or stored_format in PLAIN:
        rest = Choice(rest_dtype if rest_dtype in PLAIN else str(stored_format), STORED())
    else:
        method = name.partition("-")[0]
        rest = Choice(HALF_OF.get(method, "bf16"), OF_THE_FORMAT(format=name))
    return {
        "base_format": held,
        "base_dtype": rest,
        "quantised": Choice(name not in PLAIN, held.source, held.field),
    }


def _as_stored(framework: str, versions: Versions, made: Choices, stored_format: str) -> Message:
    """A card without weights.format means the format of the files; a framework may load another one by itself."""
    loads = default("loads", framework, versions, made)
    if loads is None or stored_format not in PLAIN or loads.value == stored_format:
        return STORED()
    return STORED_BUT(loads=str(loads.value), read_in=loads.source)


def _optimizer(card: Card, stated: Choices, framework: str, versions: Versions, made: Choices) -> Choices:
    """The optimizer with what its name says of itself; what the card says besides goes before the name."""
    found = stated.get("optimizer") or default("optimizer", framework, versions, made)
    assert found is not None, "an optimizer is always assumed"
    named = optimizer_named(str(found.value))
    if named is None:
        name = plain_name(str(found.value))[:60]
        told = with_suggestion(NOT_AN_OPTIMIZER(found=name, accepted=tuple(NAMES)), closest(name, NAMES))
        raise InputError(told, place_in(card, found.field))
    says: dict[str, Scalar | None] = {
        "optimizer_library": named.library,
        "optimizer_run": named.run,
        "optimizer_states": STATES[named.state_bits],
        "paged": named.is_paged or None,
        "optimizer_in_backward": named.in_backward or None,
    }
    choices = {
        option: stated.get(option) or Choice(value, found.source, found.field)
        for option, value in says.items()
        if value is not None
    }
    return {"optimizer": found, **choices}


def _targets(framework: str, versions: Versions, made: Choices, model_type: str | None) -> Choice:
    found = default("targets", framework, versions, made) or default_targets(model_type)
    if found is None:
        raise UsageError(OPEN(fields=("training.targets",)))
    return found
