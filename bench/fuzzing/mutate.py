"""One damaged input. Every input is a function of the campaign's seed and its own number."""

from __future__ import annotations

import random
from typing import NamedTuple

from fuzzing.damage_binary import damage_binary, damage_gguf
from fuzzing.damage_text import damage_table, damage_text
from fuzzing.damage_tree import damage_tree
from fuzzing.hostile import encode
from fuzzing.seeds import Seed, pack_safetensors, text_of

Chance = random.Random


class Case(NamedTuple):
    """One damaged input: the files of a folder, and the one that was damaged."""

    kind: str
    name: str
    files: dict[str, bytes]
    target: str

    @property
    def data(self) -> bytes:
        return self.files[self.target]


def make_case(seeds: list[Seed], campaign_seed: int, number: int) -> Case:
    """The input with this number."""
    chance = random.Random(f"{campaign_seed}:{seeds[0].kind}:{number}")
    seed = chance.choice(seeds)
    files = seed.files | {seed.target: damage(chance, seed, seeds)}
    if seed.kind == "safetensors" and chance.random() < 0.15:
        damage_company(chance, files, seed.target)
    return Case(seed.kind, seed.name, files, seed.target)


def damage(chance: Chance, seed: Seed, seeds: list[Seed]) -> bytes:
    """The damaged file: by its structure mostly, as a run of bytes or characters otherwise."""
    data = seed.files[seed.target]
    if seed.table is not None:
        if chance.random() < 0.5:
            return damage_gguf(chance, seed.table)
        return damage_binary(chance, data, seed.marks, [other.files[other.target] for other in seeds])
    if seed.target.endswith(".safetensors"):
        return damage_safetensors(chance, seed)
    if seed.target.endswith(".csv"):
        return damage_table(chance, data) if chance.random() < 0.7 else damage_text(chance, data)
    if chance.random() < 0.25:
        return damage_text(chance, data)
    data = encode(text_of(seed.target, damage_tree(chance, seed.tree)))
    return damage_text(chance, data) if chance.random() < 0.15 else data


def damage_safetensors(chance: Chance, seed: Seed) -> bytes:
    """Mostly a damaged header under a true length; the rest as any binary file."""
    data = seed.files[seed.target]
    length = int.from_bytes(data[:8], "little")
    if chance.random() < 0.2:
        return damage_binary(chance, data, seed.marks, [])
    header = encode(text_of("header.json", damage_tree(chance, seed.tree)))
    if chance.random() < 0.15:
        header = damage_text(chance, header)
    if chance.random() < 0.1:
        header += b" " * chance.choice((1, 7, 100_000))
    return pack_safetensors(header, max(0, len(data) - 8 - length + chance.choice((0, 0, 0, 0, 1, -1))))


def damage_company(chance: Chance, files: dict[str, bytes], target: str) -> None:
    """Change the files around the damaged one: a shard that is missing, empty, or there under a wrong name."""
    name = chance.choice([name for name in files if name != target])
    what = chance.randrange(4)
    if what == 0:
        del files[name]
    elif what == 1:
        files[name] = b""
    elif what == 2:
        files[name] = damage_text(chance, files[name])
    else:
        files[f"model-{chance.randrange(4):05}-of-0000{chance.randrange(4)}.safetensors"] = files[name]
