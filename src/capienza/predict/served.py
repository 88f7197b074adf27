"""The entries of a card whose engine's rules are known: what each GPU of a copy holds, stage by stage.

The placement must be stated, or the copy be on one GPU: how an unstated placement divides a model is not guessed.
Legend: w bytes of the whole copy's weights, r ranks, t tensors of one rank by the engine's own split.
    weights        floor w / r (one of the ranks holds that much whatever the engine does), expected max(w / r, t);
                   of a pipeline stage t alone, since a stage may hold less than the share
    loaded_extra   tables, adapter slots and padding; its ceiling holds what loading took in measured cases
    the rest       expected by the engine's rule, ceiling by the measured cases of that engine and quantity
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from capienza.card.model import Card, Host, Placement
from capienza.card.options import plain_name
from capienza.errors import InputError, Message, Place, template
from capienza.ledger.entry import Entry
from capienza.ledger.ledger import WEIGHTS
from capienza.predict.calibration import ENOUGH_CASES, Calibration, shipped
from capienza.predict.gpu import NO_GPU, GpuFacts
from capienza.predict.inference.serving import (
    OTHER_DIVISION,
    REQUIRED_LOAD,
    Adapters,
    Figure,
    RankFigures,
    Served,
    Serving,
)
from capienza.predict.inference.vllm.memory import CONTEXT_BYTES
from capienza.predict.model import Model
from capienza.predict.placement import Split, check_split
from capienza.predict.resident import held_as
from capienza.predict.weights import WeightBytes, weights_entry
from capienza.units import Range

LOADED_EXTRA = "loaded_extra"
BLOCKS = "blocks"
"""The kind of a figure that follows from whole blocks alone: nothing of it is calibrated."""
NO_CASES = template(
    "predict.no-measured-case",
    "no measured case stands behind the ceilings of {names}: they are twice what is expected",
    "one start on the card and its log say more",
)
FEW_CASES = template(
    "predict.few-measured-cases",
    "few measured cases stand behind the ceilings of {names}: they are wide",
    "one start on the card and its log say more",
)
PARALLEL_OPTIONS = {
    "tensor_parallel_size": "tensor_parallel",
    "pipeline_parallel_size": "pipeline_parallel",
    "tp_size": "tensor_parallel",
    "pp_size": "pipeline_parallel",
}
DEFAULT_ADAPTER_RANK = 16
CACHE_OPTION, AUTO = "kv_cache_dtype", "auto"
DTYPE_OPTIONS = ("dtype", "torch_dtype")
DTYPE_WORDS = {
    "bfloat16": "bf16", "bf16": "bf16", "float16": "fp16", "half": "fp16", "fp16": "fp16", "float32": "fp32",
    "float": "fp32", "fp32": "fp32",
}  # fmt: skip
HALVES_FP32 = ("vllm", "sglang", "tgi")
CHECKS_FREE_MEMORY = "vllm"
BAD_DTYPE = template(
    "predict.engine-dtype", "the format {found} is not understood; accepted: {accepted}", "correct it, or leave it out"
)
CONVERTED = template(
    "predict.engine-converts",
    "the model is stored in {stored} and loaded in {dtype}: weights and cache are counted so",
    "state dtype under engine.options to load it in another format",
)
ESTIMATED_TOTAL = template(
    "predict.estimated-cuda-total",
    "no CUDA total was collected for this card: {total_bytes} is taken, the usual share of the driver's total",
    "read torch.cuda.mem_get_info() on the card; budget, pool and tokens follow from it",
)


class EngineAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An engine's answer beside what it was asked.

    `is_converted`: weights are loaded in another format than the files hold.
    """

    engine: str
    serving: Serving
    served: Served
    gpu: GpuFacts = NO_GPU
    option_notes: tuple[Message, ...] = ()
    is_converted: bool = False
    others_use_bytes: int = 0

    @property
    def reads_options(self) -> bool:
        """Do the notes name every option that leaves something unproved? Here that is for the card's reader."""
        return False

    @property
    def is_covered(self) -> bool | None:
        """Does the engine run the required load at once? None where that is not known."""
        return False if self.is_refused else self.served.tightest.is_covered

    @property
    def queues(self) -> bool:
        """Do the engine's settings run fewer sequences at once than are required?"""
        return self.served.tightest.queues

    @property
    def is_refused(self) -> bool:
        """Would the engine refuse to start, or die at it: too small a pool, or more than the card has free?"""
        rank, total = self.served.tightest, self.serving.total_bytes
        if rank.is_refused:
            return True
        if total is None or not rank.offer.has_pool:
            return False
        free = total - self.others_use_bytes
        budget, pool = rank.offer.budget_bytes, rank.offer.pool_bytes
        if self.engine == CHECKS_FREE_MEMORY and budget is not None and budget > free - CONTEXT_BYTES:
            return True
        beside = sum(figure.amount.floor for figure in rank.figures if figure.name != REQUIRED_LOAD)
        return pool is not None and pool + beside > free

    @property
    def is_held(self) -> bool | None:
        """Does the engine's pool hold the required load at once? None where that is not known."""
        return False if self.is_refused else self.served.tightest.is_held

    @property
    def notes(self) -> tuple[Message, ...]:
        """Which rules, defaults and totals were taken."""
        total = self.gpu.total_bytes
        estimated = (ESTIMATED_TOTAL(total_bytes=total),) if self.gpu.is_estimated and total is not None else ()
        return (*self.option_notes, *self.served.notes, *estimated)

    def rank_of(self, device: str) -> RankFigures:
        """The figures of "gpu:N": ranks of one stage follow each other."""
        ranks = self.served.ranks
        stage = int(device.partition(":")[2]) // self.serving.split.tensor_parallel
        return ranks[min(stage, len(ranks) - 1)]


def engine_answer(card: Card, model: Model, gpus: int, gpu: GpuFacts, cache_format: str | None) -> EngineAnswer | None:
    """What the card's engine takes and offers; None where its rules are not known, or the card leaves them open.

    Raises `InputError` for a placement or an option that cannot be.
    """
    if card.task != "inference" or card.engine is None:
        return None
    from capienza.predict.inference.engines import MODULES, check_options, serve

    if card.engine.name not in MODULES:
        return None
    serving = _serving(card, model, gpus, gpu, cache_format)
    if serving is None:
        return None
    notes = check_options(card.engine.name, serving)
    served = serve(card.engine.name, serving)
    converted = serving.dtype != model.dtype and card.weights.format is None
    told = (CONVERTED(stored=model.dtype, dtype=serving.dtype),) if converted else ()
    return EngineAnswer(
        engine=card.engine.name,
        serving=serving,
        served=served,
        gpu=gpu,
        option_notes=(*notes, *told, *_thin_ceilings(card.engine.name, served)),
        is_converted=converted,
        others_use_bytes=others_use_bytes(card),
    )


def _thin_ceilings(engine: str, served: Served) -> tuple[Message, ...]:
    """Which ceilings rest on few measured cases of this engine, or on none."""
    calibration = shipped()
    names = {
        figure.name: calibration.factor(engine, figure.kind or figure.name).cases
        for rank in served.ranks
        for figure in rank.figures
        if figure.kind != BLOCKS and not figure.amount.is_exact
    }
    none = tuple(name for name, cases in names.items() if not cases)
    few = tuple(f"{name} ({cases})" for name, cases in names.items() if 0 < cases < ENOUGH_CASES)
    return (*((NO_CASES(names=none),) if none else ()), *((FEW_CASES(names=few),) if few else ()))


def served_entries(answer: EngineAnswer, device: str, weights: WeightBytes) -> list[Entry]:
    """The entries of one device; `weights` are those of a whole copy, by the headers where there are any."""
    calibration = shipped()
    entries = []
    for figure in answer.rank_of(device).figures:
        if not figure.amount.ceiling:
            continue
        if figure.name == WEIGHTS:
            entries += _weights(figure, answer, calibration, device, weights)
        else:
            entries.append(_entry(figure, figure.name, _ceiling(figure, answer.engine, calibration), device))
    return entries


def _weights(
    figure: Figure, answer: EngineAnswer, calibration: Calibration, device: str, weights: WeightBytes
) -> list[Entry]:
    ranks = answer.serving.split.ranks
    floor, share = -(-weights.total_bytes // ranks), -(-weights.expected_bytes // ranks)
    held = share if ranks == 1 else max(share, figure.amount.floor)
    if answer.serving.split.pipeline_parallel > 1:  # a stage may hold less than the even share
        held = figure.amount.floor
    if answer.is_converted:  # loaded in another format than the files hold
        held = figure.amount.floor
    floor = min(floor, held)
    # The engine's figure may hold padding in its tensors; what headers hold beyond the layers comes on top.
    loaded = figure.amount.expected + max(0, held - figure.amount.floor)
    ceiling = max(loaded, int(loaded * calibration.factor(answer.engine, figure.kind or WEIGHTS).value))
    # A stage may hold all that a larger format adds; tensor-parallel ranks share it.
    growth = -(-weights.may_grow_bytes // (1 if answer.serving.split.pipeline_parallel > 1 else ranks))
    tensors = weights_entry(weights, device, ranks, figure.phases)
    return [
        msgspec.structs.replace(tensors, amount=Range(floor, held, held + growth)),
        _entry(figure, LOADED_EXTRA, Range(0, loaded - held, ceiling - held), device),
    ]


def _ceiling(figure: Figure, engine: str, calibration: Calibration) -> Range:
    amount = figure.amount
    if amount.is_exact or figure.kind == BLOCKS:
        return amount
    factor = calibration.factor(engine, figure.kind or figure.name).value
    return Range(amount.floor, amount.expected, max(amount.expected, int(amount.expected * factor)))


def _entry(figure: Figure, name: str, amount: Range, device: str) -> Entry:
    return Entry(
        name=name,
        phases=figure.phases,
        device=device,
        amount=amount,
        status="estimated",
        formula=figure.formula,
        source=figure.source,
    )


def _serving(card: Card, model: Model, gpus: int, gpu: GpuFacts, cache_format: str | None) -> Serving | None:
    """The card as an engine sees it; None where it leaves open what the engine's rules need."""
    architecture, engine, required, split = model.architecture, card.engine, card.tokens.required, _split(card, gpus)
    if architecture is None or not architecture.parameters or engine is None or model.dtype is None:
        return None
    if required is None or card.concurrency is None or cache_format is None or split is None:
        return None
    try:
        check_split(architecture, split)
    except InputError as error:
        raise InputError(error.message, Place(card.file, key=error.place.key)) from error
    from capienza.formats.scheme import scheme_named

    stated, named = card.weights.format, {plain_name(name): value for name, value in engine.options.items()}
    _check_parallel(card, named)
    dtype = resident_dtype(card, model.dtype, named)
    scheme = model.scheme if stated is None else scheme_named(stated, Place(card.file, key="weights.format"))
    larger = None if scheme is None else held_as(card, model, gpu)
    states_cache = named.get(CACHE_OPTION) not in (None, AUTO)
    copies = card.placement.data_parallel if isinstance(card.placement, Placement) else 1
    serving = Serving(
        architecture=architecture,
        dtype=dtype,
        scheme=None if larger is not None and larger.is_expected else scheme,
        split=split,
        version=engine.version,
        options={**named, CACHE_OPTION: cache_format if states_cache else dtype},
        total_bytes=gpu.total_bytes,
        gpu=gpu.name,
        required_tokens=required.total,
        prompt_tokens=required.prompt,
        concurrency=-(-card.concurrency // copies),
        file=card.file,
    )
    return msgspec.structs.replace(serving, adapters=_adapters(serving))


def _split(card: Card, gpus: int) -> Split | None:
    placement = card.placement
    if not isinstance(placement, Placement):
        return Split() if gpus == 1 else None
    if placement.tensor_parallel * placement.pipeline_parallel != max(1, gpus):
        return None
    return Split(
        tensor_parallel=placement.tensor_parallel,
        pipeline_parallel=placement.pipeline_parallel,
        expert_parallel=placement.expert_parallel,
        data_parallel=placement.data_parallel,
    )


def resident_dtype(card: Card, dtype: str, options: Mapping[str, object]) -> str:
    """The format that the engine holds unquantised weights in: as told, else by its own rule for the stored one.

    vLLM, SGLang and TGI load an fp32 checkpoint in 16 bits; transformers before 5 loads any in fp32.
    Raises `InputError` for a format that is not understood.
    """
    engine = card.engine
    told = next((options[name] for name in DTYPE_OPTIONS if options.get(name) not in (None, AUTO)), None)
    if told is not None:
        found = DTYPE_WORDS.get(str(told).removeprefix("torch."))
        if found is None:
            name = next(name for name in DTYPE_OPTIONS if name in options)
            message = BAD_DTYPE(found=str(told)[:40], accepted=(AUTO, *DTYPE_WORDS))
            raise InputError(message, Place(card.file, key=f"engine.options.{name}"))
        return found
    if engine is not None and engine.name in HALVES_FP32 and dtype == "fp32":
        return "bf16"
    if engine is not None and engine.name == "transformers" and _is_before_5(engine.version):
        return "fp32" if not any(name in options for name in DTYPE_OPTIONS) else dtype
    return dtype


def _is_before_5(version: str | None) -> bool:
    return version is not None and version.lstrip("v")[:2] in ("0.", "1.", "2.", "3.", "4.")


def others_use_bytes(card: Card) -> int:
    """What other programs take of each GPU, as the card says."""
    return (card.host.others_use_bytes or 0) if isinstance(card.host, Host) else 0


def _adapters(serving: Serving) -> Adapters | None:
    """The slots that vLLM and SGLang keep for LoRA adapters; one of rank 16 where only the switch is set."""
    if not serving.flag("enable_lora"):
        return None
    return Adapters(serving.count("max_loras") or 1, serving.count("max_lora_rank") or DEFAULT_ADAPTER_RANK)


def _check_parallel(card: Card, options: Mapping[str, object]) -> None:
    """Raises `InputError` where the engine is told another division than the card's placement."""
    placement = card.placement if isinstance(card.placement, Placement) else Placement()
    for option, field in PARALLEL_OPTIONS.items():
        told, stated = options.get(option), getattr(placement, field)
        if told is not None and str(told).strip() != str(stated):
            message = OTHER_DIVISION(found=str(told)[:40], field=f"placement.{field}", stated=stated)
            raise InputError(message, Place(card.file, key=f"engine.options.{option}"))
