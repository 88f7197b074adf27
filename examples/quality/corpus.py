"""Write the small corpus of this folder: `python examples/quality/corpus.py > examples/quality/corpus.jsonl`.

Short tasks that a model of 135 million parameters has a fair chance at, each made from words of a list. Every word is
the subject of one task, so items are as good as independent.
"""

from __future__ import annotations

import json

WORDS = """
river window garden silver market bottle engine forest candle pocket winter orange castle ladder mirror pencil
island basket hammer velvet copper saddle meadow anchor button carpet dragon falcon guitar helmet jungle kettle
lemon marble needle oyster parrot quartz rocket spider tunnel violin walnut yellow zipper almond barrel canyon
desert eagle flower glacier harbor insect jacket kitten lantern magnet napkin onion pepper rabbit salmon temple
turtle uncle valley wagon acorn badger cactus dolphin elbow feather goblet honey igloo jewel kernel lizard
monkey nectar otter pillow quiver ribbon sailor ticket urchin vessel willow apricot beetle cherry dagger ember
ferret gravel hornet ivory jester knight locket muffin nugget orchid peanut radish shovel thimble umbrella
vulture whistle amber bucket clover donkey emerald fossil ginger hazel icicle jigsaw lagoon mitten nickel olive
pebble raccoon scarf tulip viper wizard apron bridge circle doctor farmer goose hill iron judge king leaf moon
nurse ocean piano queen road storm tower vase water bread chair cloud dream field glass horse house juice knife
light mouse night paper plant radio shirt spoon stone table tiger train truck wheel blanket cabbage dentist
eraser folder grape hotel ink jar lamp menu novel opera puzzle rope ship tent vine wall yarn
""".split()
TASKS = (
    ("copy", "Say the word: apple\nAnswer: apple\nSay the word: {one}\nAnswer:", "{one}"),
    ("first", "First of: table, chair\nAnswer: table\nFirst of: {one}, {two}\nAnswer:", "{one}"),
    ("last", "Last of: table, chair\nAnswer: chair\nLast of: {one}, {two}\nAnswer:", "{two}"),
    ("third", "Words: a b c d\nThird: c\nWords: {one} {two} {three} {four}\nThird:", "{three}"),
    ("plural", "Singular: dog\nPlural: dogs\nSingular: {one}\nPlural:", "{plural}"),
)


def plural(word: str) -> str:
    """The plural of a word of the list."""
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    if word == "leaf":
        return "leaves"
    return word + ("es" if word.endswith(("x", "s", "ch", "sh")) else "s")


def main() -> None:
    """One item a line: each word is the subject of one task."""
    count = len(WORDS)
    for number, word in enumerate(WORDS):
        name, prompt, expected = TASKS[number % len(TASKS)]
        others = [WORDS[(number * 7 + step) % count] for step in (3, 11, 19)]
        words = dict(zip(("two", "three", "four"), others, strict=True)) | {"one": word, "plural": plural(word)}
        item = {"id": f"{name}-{word}", "prompt": prompt.format(**words), "expected": expected.format(**words)}
        print(json.dumps(item))


if __name__ == "__main__":
    main()
