"""What torchtitan's history says of a case that names a commit of it, or the month of one.

Until June 2024 the model made fp32 logits and the loop held them through the backward pass (pull request 391, "del
logits", of 12 June 2024), and run_llama_train.sh set nothing for the allocator. A case of that month counts as before.
graph_trainer, an experiment in the same repository, captures the whole step as one graph and shards by SimpleFSDP (its
README; pull request 2570 is its table of runs with and without checkpointing): compiled programs, whatever they keep.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from capienza.validate.training_words import text

LOGITS_LET_GO = (2024, 6)
MONTH = re.compile(r"\((20\d\d)-(0[1-9]|1[0-2])\)")
CAPTURED = ("fca8ab7be",)
"""Commits of graph_trainer that cases are of."""

Row = Mapping[str, Any]


def is_early(row: Row) -> bool:
    """Does the loop hold its logits, and does the allocator have its own settings?"""
    found = MONTH.search(_source(row))
    return found is not None and (int(found[1]), int(found[2])) <= LOGITS_LET_GO


def is_captured(row: Row) -> bool:
    """Is the program one that graph_trainer captured?"""
    said = _source(row)
    return "graph_trainer" in said or any(commit in said for commit in CAPTURED)


def _source(row: Row) -> str:
    said = text(row.get("source"))
    return said if "torchtitan" in said else ""
