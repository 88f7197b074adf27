"""What a card asks a program to do, with every default that was taken for what it leaves open."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from capienza.card.model import Card, Scalar
from capienza.card.options import plain_name
from capienza.errors import InputError, Message, UsageError, phrase, template
from capienza.recipe.origins import leaves
from capienza.recipe.read import recipe_of as complete_recipe
from capienza.recipe.recipe import Adapters, Optimizer, Origin
from capienza.recipe.recipe import Recipe as Complete

Task = Literal["training", "generation"]
DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
FOUR_BIT = {"nf4": ("nf4", False), "nf4_double": ("nf4", True), "fp4": ("fp4", False)}
ATTENTIONS = ("sdpa", "eager", "flash_attention_2", "flash_attention_3")
OPTIMIZERS = (
    "adamw", "adamw_fused", "adamw_loop", "sgd", "adafactor", "rmsprop", "adagrad", "adamw_8bit", "adamw_32bit",
    "paged_adamw_32bit", "paged_adamw_8bit", "lion_8bit", "lion_32bit", "paged_lion_8bit", "paged_lion_32bit",
)  # fmt: skip
RUN: dict[str, tuple[Any, ...]] = {
    "objective": ("sft",),
    "attention": ATTENTIONS,
    "precision.quantised": (None, *FOUR_BIT),
    "optimizer.in_backward": (False,),
    "parallel.sharding": ("none",),
    "images": (None, 0, 1),
}
"""Choices of a recipe that this program has; another one is another program."""
FOLLOWED: dict[str, tuple[Any, ...]] = {
    "kernels": ("transformers",),
    "is_compiled": (False,),
    "has_padding_mask": (True,),
    "precision.fp8": (False,),
    "precision.master": (None,),
    "checkpointing.kind": ("none", "full"),
    "loss.shifts": (False,),
    "loss.keeps_outputs": (False,),
    "evaluation.keeps_logits": (False,),
    "evaluation.generates": (0,),
    "exports_on_host": (False,),
}
"""Choices that it follows; for another one the installed transformers' own is run, and that is said."""
TOLD = frozenset(
    {
        "framework", "attention", "precision.base", "precision.quantised", "precision.autocast",
        "optimizer.family", "optimizer.run", "checkpointing.kind", "adapters.rank",
        "adapters.dropout", "adapters.targets", "adapters.dtype", "max_grad_norm", "export",
    }
)  # fmt: skip
"""Fields whose default is told: those that people state."""
OURS = ("transformers", "pytorch", "torch")
"""Engines that run the very program that is traced."""
AT_LEAST_ONE = "1 + 1, ..."

NO_CONFIG = template(
    "trace.no-config",
    "{model} has no config.json of transformers, so there is no program to trace",
    "name the model's folder or Hub id; a GGUF file or a bare number of parameters cannot be traced",
)
NOT_A_DENOISER = template(
    "trace.not-a-denoiser",
    "{found} of diffusers is not run here as a card; what is: fine-tunings of {accepted}",
    "trace a program of your own with predict_peak",
)
WITHOUT_ENCODERS = template(
    "trace.without-encoders",
    "autoencoder and text encoders are not on the GPU: their outputs are computed before, or they wait in main memory",
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
ASSUMED = template("trace.assumed", "{field} is not stated; taken: {value} ({source})")
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

OTHER_LOSS = template(
    "trace.other-loss",
    "the recipe's loss is {found} ({source}); the traced program computes the one of transformers' models instead: all "
    "logits at once, copied to fp32",
    "for logits and loss go by the closed form, which has the recipe's own; to trace it, run the trainer itself under "
    "predict_peak",
)
LOSSES = {
    "full": phrase("all logits at once, in their own format"),
    "fused": phrase("one kernel over all logits"),
    "fused_linear": phrase("fused with the head, so that the logits are never whole"),
    "chunked": phrase("over pieces of the rows, so that the logits are never whole"),
}


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """One program. Sizes are tokens and sequences; dtypes as torch names them.

    `widens`: what of a quantised base is taken up to fp32. `widens_outputs`: logits are copied to fp32 on their way
    out. `merges`: adapters are merged at the end.
    """

    task: Task
    config: dict[str, Any]
    dtype: str
    attention: str = "sdpa"
    tokens: int
    prompt: int = 0
    sequences: int
    method: str = "full"
    four_bit: tuple[str, bool] | None = None
    widens: Literal["none", "norms", "rest"] = "none"
    rank: int = 0
    alpha: float = 0.0
    dropout: float = 0.0
    targets: tuple[str, ...] | str | None = None
    modules_to_save: tuple[str, ...] = ()
    is_dora: bool = False
    adapter_dtype: str | None = None
    optimizer: str = "adamw_fused"
    momentum: float = 0.0
    autocast: str | None = None
    widens_outputs: bool = False
    gradient_checkpointing: bool = False
    is_reentrant: bool = False
    accumulation: int = 1
    max_grad_norm: float = 1.0
    eval_sequences: int = 0
    merges: bool = False
    has_images: bool = False
    image_size: int | None = None
    is_diffusion: bool = False
    assumed: tuple[Message, ...] = ()
    left_out: tuple[Message, ...] = ()


def recipe_of(card: Card, config: dict[str, Any] | None, stored: str | None) -> Recipe:
    """The program that a card asks for. `config` is the model's config.json, `stored` the format of its weights.

    Raises `InputError` for a model without a configuration, `UsageError` for what the card does not state, or what
    cannot be traced.
    """
    if config is not None and "model_type" not in config and "_class_name" in config:
        return _diffusion(card, config, stored)
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


def _diffusion(card: Card, config: dict[str, Any], stored: str | None) -> Recipe:
    """A fine-tuning of a model of diffusers."""
    from capienza.trace.cards.diffusion import CLASSES

    found = str(config["_class_name"])
    if found not in CLASSES or card.task != "fine-tuning":
        raise InputError(NOT_A_DENOISER(found=found, accepted=tuple(CLASSES)))
    if card.tokens.required is None:
        raise UsageError(NOT_STATED(field="tokens.required"))
    recipe = _training(card, {**config, "model_type": found}, stored)
    if recipe.four_bit is not None:
        raise UsageError(NOT_A_CHOICE(field="precision.quantised", found=recipe.four_bit[0], accepted=("none",)))
    kept = {name: value for name, value in config.items() if name != "model_type"}
    return msgspec.structs.replace(
        recipe, config=kept, is_diffusion=True, assumed=(*recipe.assumed, WITHOUT_ENCODERS())
    )


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
    """The training of the card's recipe, as far as this program has its parts; what it lacks is said, or refused."""
    recipe = complete_recipe(card, stored, str(config["model_type"]))
    _refuse(recipe)
    adapters, precision = recipe.adapters, recipe.precision
    told = [_assumed(one) for one in recipe.origins if one.field in TOLD and not one.is_stated]
    if precision.quantised:
        told += [_assumed(one) for one in recipe.origins if one.field == "precision.widens_rest" and not one.is_stated]
    if recipe.accumulation > 2:
        told.append(TWO_OF(count=recipe.accumulation))
    is_evaluation_open = any(one.field == "evaluation.microbatch" and not one.is_stated for one in recipe.origins)
    if is_evaluation_open:
        told.append(DEFAULT(field="training.eval_microbatch", value=str(recipe.microbatch)))
    return Recipe(
        task="training",
        config=config,
        dtype=DTYPES[precision.trained if adapters is None else precision.base],
        attention=recipe.attention,
        tokens=recipe.tokens,
        sequences=recipe.microbatch,
        method=recipe.method,
        four_bit=FOUR_BIT[precision.quantised] if precision.quantised else None,
        widens="rest" if precision.widens_rest else "norms" if precision.widens_norms else "none",
        rank=adapters.rank if adapters else 0,
        alpha=adapters.alpha if adapters else 0.0,
        dropout=adapters.dropout if adapters else 0.0,
        targets=_targets(adapters),
        modules_to_save=adapters.modules_to_save if adapters else (),
        is_dora=adapters is not None and adapters.is_dora,
        adapter_dtype=DTYPES[adapters.dtype] if adapters else None,
        optimizer=_optimizer(recipe.optimizer),
        momentum=float(str(_option(card, "momentum") or 0)),
        autocast=DTYPES[precision.autocast] if precision.autocast else None,
        widens_outputs=precision.widens_outputs,
        gradient_checkpointing=recipe.checkpointing.kind != "none",
        is_reentrant=recipe.checkpointing.is_reentrant,
        accumulation=recipe.accumulation,
        max_grad_norm=recipe.max_grad_norm or 0.0,
        eval_sequences=recipe.microbatch if is_evaluation_open else recipe.evaluation.microbatch,
        merges=recipe.export == "merge",
        has_images=bool(recipe.images),
        image_size=recipe.image_size,
        assumed=tuple(told),
        left_out=(*_not_followed(recipe), *recipe.left_out),
    )


def _refuse(recipe: Complete) -> None:
    """Raises `UsageError` for a training of another kind than this program runs."""
    found = dict(leaves(recipe))
    for field, accepted in RUN.items():
        if field in found and found[field] not in accepted:
            shown = tuple("none" if value is None else str(value).lower() for value in accepted)
            raise UsageError(NOT_A_CHOICE(field=field, found=str(found[field]).lower(), accepted=shown))


def _not_followed(recipe: Complete) -> Iterator[Message]:
    """Choices that the program does not follow: it runs the first of those that it has."""
    found, origins = dict(leaves(recipe)), {one.field: one for one in recipe.origins}
    if recipe.loss.kind != "full" or not recipe.loss.widens:
        origin = origins["loss.kind" if recipe.loss.kind != "full" else "loss.widens"]
        yield OTHER_LOSS(found=LOSSES[recipe.loss.kind], source=origin.source)
    for field, accepted in FOLLOWED.items():
        if field in found and found[field] not in accepted:
            stated = origins[field].source.parameters.get("field")
            yield LEFT_OUT(field=str(stated or field))


def _assumed(origin: Origin) -> Message:
    return ASSUMED(field=origin.field, value=origin.value, source=origin.source)


def _optimizer(optimizer: Optimizer) -> str:
    """The name of the optimizer in this program. Raises `UsageError` for one that it does not have."""
    family = "adamw" if optimizer.family == "adam" else optimizer.family
    if optimizer.library == "bitsandbytes":
        name = f"{'paged_' if optimizer.is_paged else ''}{family}_{optimizer.state_bits}bit"
    elif family == "adamw" and optimizer.library in ("torch", "transformers"):
        name = {"fused": "adamw_fused", "foreach": "adamw", "loop": "adamw_loop"}[optimizer.run]
    else:
        name = family if optimizer.library != "torchao" else f"{family}_torchao"
    if name not in OPTIMIZERS:
        raise UsageError(NOT_A_CHOICE(field="training.optimizer", found=name, accepted=OPTIMIZERS))
    return name


def _targets(adapters: Adapters | None) -> tuple[str, ...] | str | None:
    if adapters is None:
        return None
    return adapters.targets[0] if adapters.targets == ("all-linear",) else adapters.targets


def _option(card: Card, name: str) -> Scalar | None:
    options = card.training.options if card.training else {}
    return next((value for key, value in options.items() if plain_name(key) == name), None)


def _dtype(card: Card, stored: str | None, assumed: list[Message]) -> str:
    name = card.weights.format or stored
    if card.weights.format is None and stored is not None:
        assumed.append(DEFAULT(field="weights.format", value=stored))
    if name not in DTYPES:
        raise UsageError(NOT_A_CHOICE(field="weights.format", found=str(name), accepted=tuple(DTYPES)))
    return DTYPES[name]


def _attention(options: dict[str, Scalar], field: str, assumed: list[Message]) -> str:
    found = next((options[name] for name in ("attention", "attn_implementation") if name in options), None)
    if found is None:
        assumed.append(DEFAULT(field=field, value="sdpa"))
        return "sdpa"
    if found not in ATTENTIONS:
        raise UsageError(NOT_A_CHOICE(field=field, found=str(found), accepted=ATTENTIONS))
    return str(found)
