"""YAML with a place for every value: one strict reader for all the files people write.

    root = yamlmarks.load(text, "card.yaml")      # a Node, or InputErrors with every problem found
    reading = yamlmarks.read(text, "card.yaml")   # the same, with the problems beside the tree

What is accepted is YAML 1.2 without its surprises: `no` is text, `010` is ten, a date is text, numbers are exact;
aliases, anchors, tags, directives, repeated keys, keys that are not text and several documents in one file are refused.
"""

from capienza.yamlmarks.reader import DEFAULT_LIMITS, MAX_PROBLEMS, TOO_MANY_PROBLEMS, Limits, Node, Reading, load, read
from capienza.yamlmarks.scalars import UNREADABLE, Scalar, Unreadable
from capienza.yamlmarks.source import read_bytes

__all__ = [
    "DEFAULT_LIMITS",
    "MAX_PROBLEMS",
    "TOO_MANY_PROBLEMS",
    "UNREADABLE",
    "Limits",
    "Node",
    "Reading",
    "Scalar",
    "Unreadable",
    "load",
    "read",
    "read_bytes",
]
