"""Write the small corpus of this folder: `python examples/quality/corpus.py > examples/quality/corpus.jsonl`.

Short tasks that a model of 135 million parameters has a fair chance at, each made from a few words of a list, so that
what it was trained on is no advantage. The words of one list entry make one source document.
"""

from __future__ import annotations

import json

WORDS = (
    "river", "window", "garden", "silver", "market", "bottle", "engine", "forest", "candle", "pocket", "winter", "orange",
    "castle", "ladder", "mirror", "pencil", "island", "basket", "hammer", "velvet", "copper", "saddle", "meadow", "anchor",
    "button", "carpet", "dragon", "falcon", "guitar", "helmet", "jungle", "kettle", "lemon", "marble", "needle", "oyster",
    "parrot", "quartz", "rocket", "spider",
)  # fmt: skip
TASKS = (
    ("copy", "Say the word: apple\nAnswer: apple\nSay the word: {one}\nAnswer:", "{one}"),
    ("first", "First of: table, chair\nAnswer: table\nFirst of: {one}, {two}\nAnswer:", "{one}"),
    ("last", "Last of: table, chair\nAnswer: chair\nLast of: {one}, {two}\nAnswer:", "{two}"),
    ("third", "Words: a b c d\nThird: c\nWords: {one} {two} {three} {four}\nThird:", "{three}"),
    ("plural", "Singular: dog\nPlural: dogs\nSingular: {one}\nPlural:", "{plural}"),
)


def plural(word: str) -> str:
    """The plural of a word of the list."""
    return word + ("es" if word.endswith(("x", "s")) else "s")


def main() -> None:
    """One item a line."""
    for number, word in enumerate(WORDS):
        others = [WORDS[(number * 7 + step) % len(WORDS)] for step in (3, 11, 19)]
        words = dict(zip(("two", "three", "four"), others, strict=True)) | {"one": word, "plural": plural(word)}
        for name, prompt, expected in TASKS:
            item = {"id": f"{name}-{word}", "cluster": word, "prompt": prompt.format(**words)}
            print(json.dumps(item | {"expected": expected.format(**words)}))


if __name__ == "__main__":
    main()
