"""Which measured cases stand behind the ceiling of a training's figure.

Legend: e what is expected, m what was measured; w the weights that stay on the GPU, known to the byte, where the figure
is what is allocated at most, else 0.
    r = (m - w) / (e - w) of one case. Of allocated peaks it stays the same from a model's shortest batch to its
    longest, while m / e grows (decision 0016).
    A ceiling is w + f (e - w), f the r that 95 % of the cases of a group stay below (`predict.calibration`).

Groups: framework, kernels and method; framework and kernels; kernels and method; kernels; framework and method;
framework; method; all cases of the counter. What is reserved by rows that are padded to the longest of their batch is a
counter of its own before that of all reserved: blocks of changing sizes leave gaps that rows of one length do not.
Kernels come first since they decide what a pass holds, whoever runs them. The first with 10 cases of 4 models is taken;
if it is not the first of all, its f is raised to the largest r of those before it.
Weights: cases of one model resemble each other, so k of them count as the square root of k, between one and k. A family
is the runs of one publisher: it weighs at most as much as all others of its group together. That shares the weight out
anew; what the cases count for, and so how far into the tail f lies, stays.
A training whose kernels were compared with no trace takes the widest group too: what stands behind kernels that are
known says little of them. A kind of readings with less than 4 models takes the largest r of the wider group: it has not
seen how models differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from capienza.errors import Message, template
from capienza.predict.calibration import ENOUGH_CASES, NO_CASES_FACTOR, Calibration, Kind, conformal
from capienza.recipe.recipe import Recipe

OWN_KERNELS = template("training.cases-own-kernels", "{method} with {framework} and kernels of {kernels}")
OF_KERNELS = template("training.cases-kernels", "trainings with {framework} and kernels of {kernels}")
OF_KERNELS_METHOD = template("training.cases-kernels-method", "{method} with kernels of {kernels} and any framework")
OF_ANY_KERNELS = template("training.cases-any-kernels", "trainings with kernels of {kernels} and any framework")
OWN = template("training.cases-own", "{method} with {framework}")
OF_FRAMEWORK = template("training.cases-framework", "trainings with {framework}")
OF_METHOD = template("training.cases-method", "{method} with any framework")
OF_COUNTER = template("training.cases-counter", "any method with any framework")
OF_RESERVED = template("training.cases-reserved", "what any training reserved, with rows of one length or of many")
OF_KIND = template("training.cases-kind", "such runs")
OF_DEVICE = template("training.cases-device", "the driver's readings of any training")
UNCOMPARED = template("training.cases-uncompared", "{group}: its kernels were compared with no trace")
ENOUGH = template(
    "training.cases-enough",
    "95 % of {cases} measured cases ({group}; models: {models}, publishers: {families}) lie below",
)
FEW = template(
    "training.cases-few",
    "of only {cases} measured cases ({group}; models: {models}, publishers: {families}) the largest, and a share of "
    "their spread:",
)


LEAST_CASES, LEAST_MODELS = 10, 4
DEVICE_READINGS = ("training.device_peak", "rl.training", "rl.generation", "multi_gpu.device_peak")
"""Kinds of one counter, the driver's, by whom they were read."""
FIXED, VARIED = "reserved_peak", "reserved_varied"
RESERVED_PEAKS = (f"training.{FIXED}", f"training.{VARIED}")


class Case(msgspec.Struct, frozen=True):
    """One measured case: r, and whose model and runs it is of."""

    value: float
    model: str
    family: str


class Behind(msgspec.Struct, frozen=True):
    """The factor of a figure, and what stands behind it: how many cases, models and families of which group.

    `weight` is what the cases weigh together: with less than 19 none of them is the one that 95 % stay below.
    """

    value: float
    cases: int = 0
    models: int = 0
    families: int = 0
    weight: float = 0.0
    group: Message | None = None
    is_assumed: bool = False

    def told(self) -> Message:
        """What stands behind the factor, as the beginning of a sentence that goes on with it."""
        group = self.group or OF_KIND()
        named = UNCOMPARED(group=group) if self.is_assumed else group
        how = ENOUGH if self.weight >= ENOUGH_CASES else FEW
        return how(cases=self.cases, models=self.models, families=self.families, group=named)

    @property
    def is_enough(self) -> bool:
        """Is no wider group needed?"""
        return self.cases >= LEAST_CASES and self.models >= LEAST_MODELS


class Group(msgspec.Struct, frozen=True):
    """Kinds of cases by the first words of their names. `framework` or `kernels` empty: any."""

    name: Message
    quantities: tuple[str, ...]
    framework: str = ""
    kernels: str = ""

    @property
    def is_widest(self) -> bool:
        """All cases of a counter, or of several."""
        return not self.framework and not self.kernels and all(one.count(".") == 1 for one in self.quantities)

    def holds(self, kind: Kind) -> bool:
        """Is it one of the group's?"""
        is_own = self.framework in ("", kind.engine) and self.kernels in ("", kind.kernels)
        return is_own and any(f"{kind.quantity}.".startswith(f"{start}.") for start in self.quantities)


def groups_of(framework: str, quantity: str, kernels: str = "") -> Iterator[Group]:
    """The groups of a figure, from the narrowest; `quantity` is "training.COUNTER.METHOD", or a name without method."""
    if quantity.count(".") < 2:
        yield Group(OF_KIND(), (quantity,))
        yield Group(OF_DEVICE(), DEVICE_READINGS)
        return
    counter, _, method = quantity.rpartition(".")
    if kernels:
        words = {"framework": framework, "kernels": kernels}
        yield Group(OWN_KERNELS(method=method, **words), (quantity,), framework, kernels)
        yield Group(OF_KERNELS(**words), (counter,), framework, kernels)
        yield Group(OF_KERNELS_METHOD(method=method, kernels=kernels), (quantity,), kernels=kernels)
        yield Group(OF_ANY_KERNELS(kernels=kernels), (counter,), kernels=kernels)
    yield Group(OWN(method=method, framework=framework), (quantity,), framework)
    yield Group(OF_FRAMEWORK(framework=framework), (counter,), framework)
    yield Group(OF_METHOD(method=method), (quantity,))
    yield Group(OF_COUNTER(), (counter,))
    if counter in RESERVED_PEAKS:
        yield Group(OF_RESERVED(), RESERVED_PEAKS)
    if counter in DEVICE_READINGS:
        yield Group(OF_DEVICE(), DEVICE_READINGS)


def counter_of(peak: str, recipe: Recipe) -> str:
    """The counter that a peak is calibrated with: what is reserved, by whether the lengths of batches change."""
    is_varied = not recipe.is_packed and (recipe.lengths is not None or recipe.has_padding_mask)
    return VARIED if peak == FIXED and is_varied else peak


def behind(
    calibration: Calibration,
    framework: str,
    quantity: str,
    *,
    kernels: str = "",
    is_assumed: bool = False,
    without_model: str = "",
    without_family: str = "",
) -> Behind:
    """The factor of a figure of a framework's trainings; `NO_CASES_FACTOR` where nobody measured one.

    `without_...` leaves out the cases of a model or family, to be scored on what the calibration does not know.
    """
    first, *_ = groups = tuple(groups_of(framework, quantity, kernels))
    has_method = quantity.count(".") > 1
    found, least, taken = Behind(NO_CASES_FACTOR), 1.0, 0.0
    for group in groups:
        cases = [
            Case(ratio.value, ratio.model, kind.family)
            for kind in calibration.kinds
            if group.holds(kind) and (not without_family or kind.family != without_family)
            for ratio in kind.ratios
            if ratio.model != without_model
        ]
        if not cases or (taken and not group.is_widest):
            continue
        found = _of(cases, group.name)
        if found.is_enough and (has_method or group is first):
            taken = taken or max(found.value, least)
            if not is_assumed:
                break
        if not taken:
            least = max(least, max(case.value for case in cases))
    return msgspec.structs.replace(found, value=max(found.value, taken or least), is_assumed=is_assumed)


def _of(cases: Sequence[Case], name: Message) -> Behind:
    of_model = Counter(case.model for case in cases)
    own = [of_model[case.model] ** -0.5 for case in cases]
    return Behind(
        conformal([case.value for case in cases], _shared(cases, own), sum(own)),
        cases=len(cases),
        models=len(of_model),
        families=len({case.family for case in cases}),
        weight=sum(own),
        group=name,
    )


def _shared(cases: Sequence[Case], own: Sequence[float]) -> list[float]:
    """The weights with each family's cut to those of all others; a family alone in its group weighs whole."""
    of_family: dict[str, float] = {}
    for case, weight in zip(cases, own, strict=True):
        of_family[case.family] = of_family.get(case.family, 0.0) + weight
    if len(of_family) == 1:
        return list(own)
    total = sum(of_family.values())
    shares = {family: min(1.0, (total - weight) / weight) for family, weight in of_family.items()}
    return [weight * shares[case.family] for case, weight in zip(cases, own, strict=True)]
