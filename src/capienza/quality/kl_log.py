"""Reads what llama.cpp's `llama-perplexity --kl-divergence` prints; it may raise an alarm, and admits nothing.

The print says how far the candidate's distributions are from the reference's, over a text of its own.
Lines that are read (tools/perplexity/perplexity.cpp, kl_divergence):
  a line for each chunk: number, PPL, ln(PPL(Q)/PPL(base)), KL divergence, RMS of dp, same top p, each with its error;
  each figure is that of all chunks up to this one
  "Mean    KLD:", "Maximum KLD:", "99.9%   KLD:" and the like, "Median  KLD:", "Minimum KLD:"
  "Mean PPL(Q)", "Mean PPL(base)", "Mean PPL(Q)/PPL(base)", "RMS dp", "Same top p:"
Legend, for K chunks whose running means are a_k, printed to r decimals:
  c_k  k a_k - (k - 1) a_(k - 1), the mean of one chunk
  se   sqrt(sum (c_k - mean)^2 / (K (K - 1))), or the printed error where that is larger
The printed error takes tokens as independent, and tokens of one chunk are not: hence the chunks. Rounding of a_k adds
to the spread of c_k, which widens se and never narrows it. Fewer than 20 chunks carry no interval.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

import msgspec

from capienza.errors import InputError, Place, template
from capienza.quality.clusters import FEWEST_CLUSTERS
from capienza.quality.tango import Interval, quantile
from capienza.yamlmarks.source import open_file

_LINE_BYTES = 2**20
_MOST_LINES = 2_000_000
_MOST_CHUNKS = 1_000_000

_NUMBER = r"([-+]?(?:\d+(?:\.\d+)?|nan|inf))"
_WITH_ERROR = rf"{_NUMBER}\s*(?:±|\+/-)\s*{_NUMBER}"
_CHUNK = re.compile(
    rf"\s*(\d{{1,9}})\s+{_WITH_ERROR}\s+{_WITH_ERROR}\s+{_WITH_ERROR}\s+{_WITH_ERROR}\s*%\s+{_WITH_ERROR}\s*%\s*"
)
_MEAN_KLD = re.compile(rf"Mean\s+KLD:\s*{_WITH_ERROR}")
_TAIL = re.compile(rf"(Maximum|Median|Minimum|\d{{1,2}}\.\d%)\s+KLD:\s*{_NUMBER}")
_SAME_TOP = re.compile(rf"Same top p:\s*{_WITH_ERROR}\s*%")
_RATIO = re.compile(rf"Mean PPL\(Q\)/PPL\(base\)\s*:\s*{_WITH_ERROR}")
_RMS = re.compile(rf"RMS Δp\s*:\s*{_WITH_ERROR}\s*%")
_PERPLEXITY = re.compile(r"Final estimate: PPL = ")

NOT_A_KL_LOG = template(
    "quality.not-a-kl-log",
    "this is not what llama-perplexity --kl-divergence prints: it has no line of Mean KLD and of Same top p",
    "record the reference's logits with --kl-divergence-base FILE, run the candidate with --kl-divergence and the same "
    "FILE, and keep all that it prints",
)
ONLY_PERPLEXITY = template(
    "quality.only-perplexity",
    "this is a perplexity alone, which says nothing of the candidate against the reference",
    "run the candidate with --kl-divergence against the reference's logits, and keep all that it prints",
)
BROKEN_FIGURE = template(
    "quality.kl-log-broken",
    "{figure} is {found}, which is no such figure",
    "the logits of this run are broken; run it again",
)
TOO_MUCH = template("quality.kl-log-too-long", "the file is far longer than such a print", "give its print alone")
TWICE = template(
    "quality.kl-log-of-two-runs", "the file holds the print of more than one run", "give that of the candidate alone"
)


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """A mean with its standard error, and the mean of each chunk where the lines of chunks were kept."""

    mean: float
    error: float
    chunks: tuple[float, ...] = ()

    def interval(self, alpha: float) -> Interval | None:
        """The interval whose ends are each wrong with rate `alpha`; None for fewer than 20 chunks."""
        count = len(self.chunks)
        if count < FEWEST_CLUSTERS:
            return None
        middle = math.fsum(self.chunks) / count
        between = math.sqrt(math.fsum((each - middle) ** 2 for each in self.chunks) / (count * (count - 1)))
        half = quantile(alpha) * max(self.error, between)
        return Interval(self.mean - half, self.mean + half)


class KlLog(msgspec.Struct, frozen=True, kw_only=True):
    """What was printed; shares are of 1. `tail`: quantiles of KL by the name they are printed under."""

    file: str
    kl: Spread
    same_top: Spread
    tail: dict[str, float]
    perplexity_ratio: tuple[float, float] | None = None
    rms_probability_change: tuple[float, float] | None = None


def read_kl_log(path: str) -> KlLog:
    """The print in a file.

    Raises:
        UnreachableError: The file is not there.
        InputError: It is no such print, is of two runs, or has figures that are NaN.
    """
    place = Place(path)
    found: dict[str, tuple[float, ...]] = {}
    tail: dict[str, float] = {}
    running: list[tuple[float, float]] = []
    has_perplexity = False
    with open_file(Path(path)) as file:
        for number in range(_MOST_LINES + 1):
            line = file.readline(_LINE_BYTES + 1)
            if not line:
                break
            if len(line) > _LINE_BYTES or number == _MOST_LINES or len(running) > _MOST_CHUNKS:
                raise InputError(TOO_MUCH(), place)
            text = line.decode("utf-8", errors="replace")
            if (chunk := _CHUNK.fullmatch(text)) is not None:
                if int(chunk[1]) != len(running) + 1:
                    raise InputError(TWICE(), Place(path, line=number + 1))
                running.append((float(chunk[6]), float(chunk[10]) / 100))
                continue
            has_perplexity = has_perplexity or _PERPLEXITY.search(text) is not None
            _take(text, found, tail, Place(path, line=number + 1))
    if "kl" not in found or "same_top" not in found:
        raise InputError(ONLY_PERPLEXITY() if has_perplexity else NOT_A_KL_LOG(), place)
    kl, same_top = found["kl"], found["same_top"]
    _check("Mean KLD", kl, place, lowest=-0.01, highest=math.inf)
    _check("Same top p", same_top, place, lowest=0.0, highest=100.0)
    return KlLog(
        file=path,
        kl=Spread(mean=kl[0], error=kl[1], chunks=_apart([each[0] for each in running])),
        same_top=Spread(mean=same_top[0] / 100, error=same_top[1] / 100, chunks=_apart([each[1] for each in running])),
        tail=tail,
        perplexity_ratio=_pair(found.get("ratio")),
        rms_probability_change=_pair(found.get("rms"), 100),
    )


def _take(text: str, found: dict[str, tuple[float, ...]], tail: dict[str, float], place: Place) -> None:
    for name, pattern in (("kl", _MEAN_KLD), ("same_top", _SAME_TOP), ("ratio", _RATIO), ("rms", _RMS)):
        if (said := pattern.search(text)) is not None:
            if name in found:
                raise InputError(TWICE(), place)
            found[name] = (float(said[1]), float(said[2]))
    if (said := _TAIL.search(text)) is not None:
        tail[said[1]] = float(said[2])


def _check(figure: str, found: tuple[float, ...], place: Place, lowest: float, highest: float) -> None:
    mean, error = found
    fine = math.isfinite(mean) and lowest <= mean <= highest and math.isfinite(error) and error >= 0
    if not fine:
        raise InputError(BROKEN_FIGURE(figure=figure, found=f"{mean} ± {error}"), place)


def _apart(running: list[float]) -> tuple[float, ...]:
    """The mean of each chunk, from the means up to it; none where one of them is no number."""
    if not all(map(math.isfinite, running)):
        return ()
    before = [0.0, *running[:-1]]
    return tuple(
        k * mean - (k - 1) * last for k, (mean, last) in enumerate(zip(running, before, strict=False), start=1)
    )


def _pair(found: tuple[float, ...] | None, over: float = 1) -> tuple[float, float] | None:
    if found is None or not math.isfinite(found[0]):
        return None
    return found[0] / over, found[1] / over
