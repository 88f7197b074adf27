"""The outputs of one arm, whoever wrote them: `capienza quality run`, or lm-evaluation-harness."""

from __future__ import annotations

from capienza.jsonlines import read_objects
from capienza.quality.answers import LINE_BYTES, Answers, read_answers
from capienza.quality.corpus import Corpus
from capienza.quality.plan import Arm, QualityPlan
from capienza.quality.samples import is_sample, read_samples


def read_outputs(path: str, plan: QualityPlan, corpus: Corpus, arm: Arm) -> Answers:
    """The outputs of a file by its first line. Raises what `read_answers` and `read_samples` raise."""
    first = next(read_objects(path, LINE_BYTES), None)
    if first is not None and is_sample(first[1]):
        return read_samples(path, plan, corpus, arm)
    return read_answers(path)
