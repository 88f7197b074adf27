"""What a card asks a program to do, with every default that was taken for what it leaves open."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal

import msgspec

from capienza.card.model import Card, Scalar
from capienza.card.options import plain_name
from capienza.errors import InputError, Message, UsageError, template

Task = Literal["training", "generation"]
DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
METHODS = ("full", "lora", "qlora")
FOUR_BIT = {"nf4": ("nf4", False), "nf4_double": ("nf4", True), "fp4": ("fp4", False)}
OPTIMIZERS = {
    "adamw": "adamw", "adam": "adamw", "adamw_torch": "adamw", "adamw_hf": "adamw",
    "adamw_torch_fused": "adamw_fused", "sgd": "sgd", "adafactor": "adafactor", "rmsprop": "rmsprop",
    "adagrad": "adagrad", "adamw_8bit": "adamw_8bit", "adamw_bnb_8bit": "adamw_8bit", "adam_8bit": "adamw_8bit",
    "paged_adamw": "paged_adamw_32bit", "paged_adamw_32bit": "paged_adamw_32bit",
    "paged_adamw_8bit": "paged_adamw_8bit", "lion_8bit": "lion_8bit",
}  # fmt: skip
ATTENTIONS = ("sdpa", "eager", "flash_attention_2", "flash_attention_3")
UNDERSTOOD = frozenset(
    {
        "alpha", "attention", "attn_implementation", "bf16", "dropout", "eval_microbatch", "fp16",
        "gradient_checkpointing", "lora_alpha", "lora_dropout", "targets", "momentum", "max_grad_norm",
    }
)  # fmt: skip
WITHOUT_MEMORY = frozenset({"learning_rate", "epochs", "seed", "warmup", "save_total_limit", "save_only_model", "eval"})
ADAPTER_ALPHA = 16
OURS = ("transformers", "pytorch", "torch")
"""Engines that run the very program that is traced."""
SWITCH = {"true": True, "full": True, "false": False}
ABOVE_0, SHARE, FROM_0, WHOLE = "x > 0", "0 <= x < 1", "x >= 0", "1, 2, 3, ..."
ACCEPTED: dict[str, Callable[[float], bool]] = {
    ABOVE_0: lambda x: x > 0,
    SHARE: lambda x: 0 <= x < 1,
    FROM_0: lambda x: x >= 0,
    WHOLE: lambda x: x >= 1 and x == int(x),
}
AT_LEAST_ONE = "1 + 1, ..."

NO_CONFIG = template(
    "trace.no-config",
    "{model} has no config.json of transformers, so there is no program to trace",
    "name the model's folder or Hub id; a GGUF file or a bare number of parameters cannot be traced",
)
NOT_STATED = template(
    "trace.not-stated", "the card states no {field}, so there is nothing to run", "add {field} to the card"
)
NOT_A_CHOICE = template(
    "trace.not-a-choice", "{field}: {found} cannot be traced; what can be: {accepted}", "trace one of these"
)
SEVERAL_GPUS = template(
    "trace.several-gpus",
    "the card places a copy on {gpus} GPUs; a card is traced on one",
    "trace a program of your own with predict_peak, or size the card",
)
DEFAULT = template("trace.default", "{field} is not stated; taken: {value}")
TWO_OF = template(
    "trace.two-microbatches", "of the {count} microbatches of an update two were run: the others are like the second"
)
WIDE_REST = template(
    "trace.wide-rest",
    "what is not quantised (embedding, head, norms) is taken up to fp32, as PEFT's prepare_model_for_kbit_training "
    "does",
)
OWN_CODE = template(
    "trace.own-code",
    "the model brings code of its own; the class of transformers for {model_type} was run in its place",
    "trace the model's own code with predict_peak",
)
UNPACKED = template(
    "trace.unpacked",
    "config.json says that the weights are quantised ({method}); the program was run with them in {dtype}",
    "trace the quantised model with predict_peak",
)
OTHER_ENGINE = template(
    "trace.other-engine",
    "{engine}: the program that was run is `generate` of transformers, so nothing of that engine is in the figures",
    "`capienza size` knows the engine's own memory",
)
LEFT_OUT = template("trace.left-out", "{field} is not in the traced program: its effect is not in the figures")


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """One program. Sizes are tokens and sequences; dtypes as torch names them."""

    task: Task
    config: dict[str, Any]
    dtype: str
    attention: str = "sdpa"
    tokens: int
    prompt: int = 0
    sequences: int
    method: str = "full"
    four_bit: tuple[str, bool] | None = None
    rank: int = 0
    alpha: float = ADAPTER_ALPHA
    dropout: float = 0.0
    targets: tuple[str, ...] | str | None = None
    optimizer: str = "adamw_fused"
    momentum: float = 0.0
    autocast: str | None = None
    gradient_checkpointing: bool = False
    accumulation: int = 1
    max_grad_norm: float = 1.0
    eval_sequences: int = 0
    assumed: tuple[Message, ...] = ()
    left_out: tuple[Message, ...] = ()


def recipe_of(card: Card, config: dict[str, Any] | None, stored: str | None) -> Recipe:
    """The program that a card asks for. `config` is the model's config.json, `stored` the format of its weights.

    Raises `InputError` for a model without a configuration, `UsageError` for what the card does not state, or what
    cannot be traced.
    """
    if config is None or "model_type" not in config:
        raise InputError(NO_CONFIG(model=card.model.id or card.model.path or card.name))
    placed = card.placement
    gpus = getattr(placed, "gpus_per_copy", 1) * getattr(placed, "data_parallel", 1)
    if gpus > 1:
        raise UsageError(SEVERAL_GPUS(gpus=gpus))
    required = card.tokens.required
    if required is None:
        raise UsageError(NOT_STATED(field="tokens.required"))
    made = _training if card.task == "fine-tuning" else _generation
    recipe = made(card, config, stored)
    return msgspec.structs.replace(recipe, assumed=(*_of_the_model(config, recipe), *recipe.assumed))


def _of_the_model(config: dict[str, Any], recipe: Recipe) -> Iterator[Message]:
    """What the model's files say and the program does not follow."""
    if config.get("auto_map"):
        yield OWN_CODE(model_type=str(config["model_type"]))
    stored = config.get("quantization_config")
    if stored and recipe.four_bit is None:
        method = stored.get("quant_method") if isinstance(stored, dict) else None
        yield UNPACKED(method=str(method or "-"), dtype=recipe.dtype)


def _generation(card: Card, config: dict[str, Any], stored: str | None) -> Recipe:
    assumed: list[Message] = []
    required = card.tokens.required
    assert required is not None
    if required.prompt is None:
        assumed.append(DEFAULT(field="tokens.required.output", value="1"))
    prompt = required.prompt if required.prompt is not None else required.total - 1
    if card.concurrency is None:
        assumed.append(DEFAULT(field="concurrency", value="1"))
    if prompt < 1 or required.total <= prompt:
        field = "tokens.required"
        raise UsageError(
            NOT_A_CHOICE(field=field, found=f"{prompt} + {required.total - prompt}", accepted=(AT_LEAST_ONE,))
        )
    options = card.engine.options if card.engine is not None else {}
    other = card.engine.name if card.engine is not None else None
    return Recipe(
        task="generation",
        config=config,
        dtype=_dtype(card, stored, assumed),
        attention=_attention(options, "engine.options.attn_implementation", assumed),
        tokens=required.total,
        prompt=prompt,
        sequences=card.concurrency or 1,
        assumed=tuple(assumed),
        left_out=() if other is None or plain_name(other) in OURS else (OTHER_ENGINE(engine=other),),
    )


def _training(card: Card, config: dict[str, Any], stored: str | None) -> Recipe:
    training, assumed = card.training, list[Message]()
    if training is None or training.method is None:
        raise UsageError(NOT_STATED(field="training.method"))
    if card.microbatch is None:
        raise UsageError(NOT_STATED(field="microbatch"))
    options = {plain_name(name): value for name, value in training.options.items()}
    method = training.method.casefold()
    if method not in METHODS:
        raise UsageError(NOT_A_CHOICE(field="training.method", found=training.method, accepted=METHODS))
    if method != "full" and training.rank is None:
        raise UsageError(NOT_STATED(field="training.rank"))
    required = card.tokens.required
    assert required is not None
    if (card.accumulation or 1) > 2:
        assumed.append(TWO_OF(count=card.accumulation))
    if method == "qlora":
        assumed.append(WIDE_REST())
    optimizer = _optimizer(training.optimizer, assumed)
    return Recipe(
        task="training",
        config=config,
        dtype="bfloat16" if method == "qlora" else _dtype(card, stored, assumed),
        attention=_attention(options, "training.attention", assumed),
        tokens=required.total,
        sequences=card.microbatch,
        method=method,
        four_bit=_four_bit(card, assumed) if method == "qlora" else None,
        rank=training.rank or 0,
        alpha=_number(options, ("lora_alpha", "alpha"), ADAPTER_ALPHA, ABOVE_0, assumed if method != "full" else []),
        dropout=_number(options, ("lora_dropout", "dropout"), 0, SHARE, []),
        targets=_targets(options, method, assumed),
        optimizer=optimizer,
        momentum=_number(options, ("momentum",), 0, SHARE, []),
        autocast=_autocast(options, method, assumed),
        gradient_checkpointing=_flag(options, "gradient_checkpointing", assumed),
        accumulation=card.accumulation or 1,
        max_grad_norm=_number(options, ("max_grad_norm",), 1.0, FROM_0, assumed),
        eval_sequences=int(_number(options, ("eval_microbatch",), card.microbatch, WHOLE, assumed)),
        assumed=tuple(assumed),
        left_out=tuple(
            LEFT_OUT(field=f"training.{name}")
            for name in sorted(options)
            if name not in UNDERSTOOD | WITHOUT_MEMORY or (name == "momentum" and optimizer != "sgd")
        ),
    )


def _dtype(card: Card, stored: str | None, assumed: list[Message]) -> str:
    name = card.weights.format or stored
    if card.weights.format is None and stored is not None:
        assumed.append(DEFAULT(field="weights.format", value=stored))
    if name not in DTYPES:
        raise UsageError(NOT_A_CHOICE(field="weights.format", found=str(name), accepted=tuple(DTYPES)))
    return DTYPES[name]


def _four_bit(card: Card, assumed: list[Message]) -> tuple[str, bool]:
    name = card.weights.format
    if name is None:
        assumed.append(DEFAULT(field="weights.format", value="nf4_double"))
        name = "nf4_double"
    if name not in FOUR_BIT:
        raise UsageError(NOT_A_CHOICE(field="weights.format", found=name, accepted=tuple(FOUR_BIT)))
    return FOUR_BIT[name]


def _attention(options: dict[str, Scalar], field: str, assumed: list[Message]) -> str:
    found = next((options[name] for name in ("attention", "attn_implementation") if name in options), None)
    if found is None:
        assumed.append(DEFAULT(field=field, value="sdpa"))
        return "sdpa"
    if found not in ATTENTIONS:
        raise UsageError(NOT_A_CHOICE(field=field, found=str(found), accepted=ATTENTIONS))
    return str(found)


def _optimizer(stated: str | None, assumed: list[Message]) -> str:
    if stated is None:
        assumed.append(DEFAULT(field="training.optimizer", value="adamw_torch_fused"))
        return "adamw_fused"
    name = OPTIMIZERS.get(plain_name(stated))
    if name is None:
        raise UsageError(NOT_A_CHOICE(field="training.optimizer", found=stated, accepted=tuple(OPTIMIZERS)))
    return name


def _targets(options: dict[str, Scalar], method: str, assumed: list[Message]) -> tuple[str, ...] | str | None:
    if method == "full":
        return None
    stated = options.get("targets")
    if not isinstance(stated, str) or not stated.strip():
        assumed.append(DEFAULT(field="training.targets", value="PEFT"))
        return None
    names = tuple(stated.replace(",", " ").split())
    return names[0] if names == ("all-linear",) else names


def _autocast(options: dict[str, Scalar], method: str, assumed: list[Message]) -> str | None:
    """A quantised base is trained under bf16, as TRL does unless it is told otherwise."""
    stated = {name: _truth(options, name) for name in ("bf16", "fp16") if name in options}
    if method == "qlora" and not stated:
        assumed.append(DEFAULT(field="training.bf16", value="true"))
        return "bfloat16"
    if all(stated.get(name) for name in ("bf16", "fp16")):
        raise UsageError(
            NOT_A_CHOICE(field="training.bf16, training.fp16", found="true, true", accepted=("bf16", "fp16"))
        )
    return "bfloat16" if stated.get("bf16") else "float16" if stated.get("fp16") else None


def _flag(options: dict[str, Scalar], name: str, assumed: list[Message]) -> bool:
    if name not in options:
        assumed.append(DEFAULT(field=f"training.{name}", value="false"))
        return False
    return _truth(options, name)


def _truth(options: dict[str, Scalar], name: str) -> bool:
    """A switch that the card states, also as a text. Raises `UsageError` for another word."""
    word = str(options[name]).casefold()
    if word not in SWITCH:
        raise UsageError(NOT_A_CHOICE(field=f"training.{name}", found=str(options[name]), accepted=tuple(SWITCH)))
    return SWITCH[word]


def _number(
    options: dict[str, Scalar], names: tuple[str, ...], default: float, accepted: str, assumed: list[Message]
) -> float:
    """A number that the card states. Raises `UsageError` for one that is not accepted, or a text."""
    name = next((name for name in names if name in options), None)
    if name is None:
        assumed.append(DEFAULT(field=f"training.{names[-1]}", value=str(default)))
        return default
    found = options[name]
    if isinstance(found, str | bool) or not ACCEPTED[accepted](found):
        told = f'"{found}"' if isinstance(found, str) else str(found)
        raise UsageError(NOT_A_CHOICE(field=f"training.{name}", found=told, accepted=(accepted,)))
    return found
