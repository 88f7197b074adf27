"""Damage to sound inputs: bits and lengths of binary files, values and keys of trees, characters and lines of texts.

Every input is a function of (seed of the campaign, its number): the worker that runs it and the supervisor that
saves it make it independently.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any, NamedTuple

from fuzzing.seeds import Seed, pack_safetensors, text_of
from fuzzing.trees import Pairs, Raw, Tree, put, slots, value_at

Chance = random.Random
MAX_BYTES = 4_000_000

LENGTHS = (0, 1, 2, 7, 8, 31, 255, 256, 2**16, 2**20, 2**24, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53, 2**62, 2**63 - 1,
           2**63, 2**64 - 1)  # fmt: skip
SCALARS: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 7, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64, 10**18, 10**30, -(10**18),
    0.0, -0.0, 0.1, 0.5, 1.5, 1e-300, 1e300, Raw("1e309"), Raw("-1e999"), Raw("1e-999999999"), Raw("9" * 400),
    Raw("1" + "0" * 5000), Raw("NaN"), Raw("Infinity"), Raw("-Infinity"), Raw("1_000"), Raw("0x10"), Raw("010"),
    Raw("1."), Raw("+1"), Raw("'"), Raw(""), Raw("undefined"), "", " ", "none", "null", "NONE", "~", "true", "0", "-1",
    "1e9", "16e9", "1,5", "1.234,56", "9" * 50, "9" * 5000, "999999999999999999999999 GiB", "1e400 GiB", "24 GB", "-1 GB",
    "8k", "0 GiB", "0.0000000001 GiB", "300 EUR", "-3 USD", "1e500 USD", "NaN USD", "2026-12-07", "2026-02-30",
    "9999-12-31", "0001-01-01", "2026-12-07T25:00:00Z", "2026-12-07T10:00:00+99:99", "2026-12-07T10:00:00",
    "9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00", "Europe/Rome", "../../etc/passwd", "/dev/zero", "C:\\nul",
    "Mars/Olympus", "\x00", "a\x00b", "\x1b[2J\x1b[31mred", "\u202egnp.exe", "\u200b", "\ufeff", "\u2028", "\x85", "\r\n",
    "a\nb", "\t", "\u0661\u0662\u0663", "\uff11\uff12", "\U0001f600" * 20, "e\u0301" * 50, "\u0130", "\ufb01", "\ud7ff",
    Raw('"\\ud800"'), Raw('"\\udc00\\ud800"'), Raw('"\\x41"'), Raw('"\\'), "{}", "{0}", "{found}", "%s%n", "$(id)",
    "`id`", "=1+1", "<script>alert(1)</script>", "| a | b |", "x" * 300, "x" * 70_000, "a b " * 5000, "(" * 3000,
    "a" * 40 + "!", "1" * 40 + "x", "- " * 200, "H100 80GB", "A100 MIG 3g.40gb", "rtx" * 60,
)  # fmt: skip
TYPED: tuple[Any, ...] = (
    "llama", "qwen3_moe", "deepseek_v3", "gemma3", "mamba2", "BF16", "F8_E4M3", "F4", "I64", "U64", "BOOL", "bf16", "nf4",
    "fp8_e4m3", "q4_0", "sliding_attention", "full_attention", "fine-tuning", "inference", "bitsandbytes", "gptq", "awq",
    "mxfp4", "total", "per_gpu_hour", "mig", "whole", "model.safetensors", "config.json", "main",
)  # fmt: skip
NASTY = ("\x00", "\x1b", "\x7f", "\x85", "\u2028", "\u202e", "\ufeff", "\ud7ff", "\t", "\r", "\n", '"', "'", "\\", "{", "}",
         "[", "]", ":", ",", "#", "&", "*", "!", "|", ">", "%", "@", "`", "- ", ": ", "? ", "---\n", "...\n", "&a ", "*a ",
         "<<: ", "!!python/object:os.system ", "!!binary ", "%YAML 1.1\n", "%TAG ! tag:x,2000:\n", ";", "\U0001f4a9")  # fmt: skip


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
    data = seed.files[seed.target]
    if seed.target == "model.safetensors":
        data = damage_safetensors(chance, seed)
    elif seed.target.endswith(".gguf"):
        data = damage_binary(chance, data, [mark[:2] for mark in seed.marks], others(seeds, seed))
    elif seed.tree is not None and chance.random() < 0.75:
        data = encode(text_of(seed.target, damage_tree(chance, seed.tree)))
        if chance.random() < 0.15:
            data = damage_text(chance, data)
    elif seed.target.endswith(".csv") and chance.random() < 0.7:
        data = damage_table(chance, data)
    else:
        data = damage_text(chance, data)
    files = seed.files | {seed.target: data}
    if seed.kind == "safetensors" and chance.random() < 0.15:
        damage_company(chance, files, seed.target)
    return Case(seed.kind, seed.name, files, seed.target)


def others(seeds: list[Seed], seed: Seed) -> list[bytes]:
    return [other.files[other.target] for other in seeds if other is not seed]


def encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


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


# --- binary files ---------------------------------------------------------------------------------------------


def damage_binary(chance: Chance, data: bytes, marks: list[tuple[int, int]], splices: list[bytes]) -> bytes:
    """One to four changes to numbers at known places, bits, lengths and pieces."""
    found = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        if not found:
            break
        what = chance.random()
        at = chance.randrange(len(found))
        if what < 0.5 and marks:
            offset, size = chance.choice(marks)
            found[offset : offset + size] = lie(chance, bytes(found[offset : offset + size]), size)
        elif what < 0.65:
            found[at] ^= 1 << chance.randrange(8)
        elif what < 0.72:
            found[at : at + 8] = lie(chance, bytes(found[at : at + 8]), 8)
        elif what < 0.80:
            del found[at:]
        elif what < 0.86:
            del found[at : at + chance.choice((1, 4, 8, 100))]
        elif what < 0.92:
            found[at:at] = found[at : at + chance.choice((1, 8, 64, 1000))] * chance.choice((1, 2, 50))
        elif what < 0.96 and splices:
            other = chance.choice(splices)
            found[at:] = other[min(at, len(other)) :]
        else:
            found[at:at] = chance.randbytes(chance.choice((1, 3, 200)))
    return bytes(found)


def lie(chance: Chance, found: bytes, size: int) -> bytes:
    """Another number of `size` bytes: near the true one, or one that breaks things."""
    true = int.from_bytes(found, "little")
    near = (true + 1, true - 1, true * 2, true // 2, true ^ (1 << chance.randrange(8 * size)))
    value = chance.choice(near) if chance.random() < 0.4 else chance.choice(LENGTHS)
    return (value % (1 << 8 * size)).to_bytes(size, "little")


def damage_safetensors(chance: Chance, seed: Seed) -> bytes:
    """Mostly a damaged header under a true length; the rest as any binary file."""
    data = seed.files[seed.target]
    length = int.from_bytes(data[:8], "little")
    if chance.random() < 0.2:
        return damage_binary(chance, data, [mark[:2] for mark in seed.marks], [])
    header = encode(text_of("header.json", damage_tree(chance, seed.tree)))
    if chance.random() < 0.15:
        header = damage_text(chance, header)
    if chance.random() < 0.1:
        header += b" " * chance.choice((1, 7, 100_000))
    return pack_safetensors(header, max(0, len(data) - 8 - length + chance.choice((0, 0, 0, 0, 1, -1))))


# --- trees ----------------------------------------------------------------------------------------------------


def damage_tree(chance: Chance, sound: Tree) -> Tree:
    """One to three changes to values and keys."""
    tree = copy.deepcopy(sound)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        places = slots(tree)
        if not places:
            return another_value(chance, tree)
        if chance.random() < 0.02:
            return another_value(chance, tree)
        chance.choice(TREE_CHANGES)(chance, chance.choice(places))
    return tree


def another_value(chance: Chance, value: Any) -> Any:
    """A value to put in the place of another one."""
    what = chance.random()
    if what < 0.45:
        return chance.choice(SCALARS)
    if what < 0.65 and isinstance(value, int | float):
        near = (value + 1, value - 1, value * 2, -value, value * 10**6, value * 10**20, value + 0.5, str(value), [value])
        return chance.choice(near)
    if what < 0.72:
        return chance.choice(TYPED)
    if what < 0.80:
        return chance.choice(([], Pairs(), [value], Pairs([("x", value)]), [value] * 3, [None], [[]], Pairs([("", "")])))
    if what < 0.86:
        depth = chance.choice((5, 20, 40, 100, 1000, 20_000))
        opening, closing = chance.choice((("[", "]"), ('{"a":', "}")))
        return Raw(opening * depth + "1" + closing * chance.choice((depth, depth, 0)))
    if what < 0.89:
        return [value] * (50 if isinstance(value, list | str) else chance.choice((50, 1000, 30_000)))
    if what < 0.91:
        return Pairs((f"k{number}", value) for number in range(chance.choice((50, 1000, 20_000))))
    return damaged_text(chance, value) if isinstance(value, str) else chance.choice(SCALARS)


def damaged_text(chance: Chance, text: str) -> str:
    at = chance.randrange(len(text) + 1)
    return chance.choice((
        text[:at] + chance.choice(NASTY) + text[at:], text[:at], text.upper(), text * 2, text * 500, f" {text} ",
        text[:at] + text[at + 1 :], text[::-1], text.replace("-", "_"), text + "\u0301",
    ))  # fmt: skip


def change_value(chance: Chance, slot: tuple[list[Any], int]) -> None:
    put(slot, another_value(chance, value_at(slot)))


def change_key(chance: Chance, slot: tuple[list[Any], int]) -> None:
    container, index = slot
    if not isinstance(container, Pairs):
        return change_value(chance, slot)
    key, value = container[index]
    changed = damaged_text(chance, key) if isinstance(key, str) and chance.random() < 0.6 else chance.choice(SCALARS)
    container[index] = (changed if isinstance(changed, str) else Raw(changed), value)
    return None


def drop(_: Chance, slot: tuple[list[Any], int]) -> None:
    container, index = slot
    del container[index]


def repeat(chance: Chance, slot: tuple[list[Any], int]) -> None:
    container, index = slot
    again = copy.deepcopy(container[index])
    container.insert(chance.randrange(len(container) + 1), again)
    if chance.random() < 0.5:
        change_value(chance, (container, index))


def swap(chance: Chance, slot: tuple[list[Any], int]) -> None:
    container, index = slot
    other = chance.randrange(len(container))
    mine, theirs = value_at(slot), value_at((container, other))
    put(slot, theirs)
    put((container, other), mine)


def add_unknown(chance: Chance, slot: tuple[list[Any], int]) -> None:
    container, _ = slot
    value = chance.choice(SCALARS)
    container.append((f"unknown_{chance.randrange(9)}", value) if isinstance(container, Pairs) else value)


TREE_CHANGES: tuple[Callable[[Chance, tuple[list[Any], int]], None], ...] = (
    change_value, change_value, change_value, change_value, change_value, change_value, change_key, drop, repeat, swap,
    add_unknown,
)  # fmt: skip


# --- texts ----------------------------------------------------------------------------------------------------


def damage_text(chance: Chance, data: bytes) -> bytes:
    """One to three changes to characters, lines and bytes."""
    for _ in range(chance.choice((1, 1, 2, 3))):
        data = chance.choice(TEXT_CHANGES)(chance, data)[:MAX_BYTES]
    return data


def insert_nasty(chance: Chance, data: bytes) -> bytes:
    at = chance.randrange(len(data) + 1)
    return data[:at] + encode(chance.choice(NASTY)) * chance.choice((1, 1, 1, 2, 3000)) + data[at:]


def insert_bytes(chance: Chance, data: bytes) -> bytes:
    at = chance.randrange(len(data) + 1)
    piece = chance.choice((b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xfe\xff", b"\x80"))
    return data[:at] + piece + data[at:]


def flip(chance: Chance, data: bytes) -> bytes:
    if not data:
        return b"\x00"
    found = bytearray(data)
    found[chance.randrange(len(found))] ^= 1 << chance.randrange(8)
    return bytes(found)


def cut(chance: Chance, data: bytes) -> bytes:
    at = chance.randrange(len(data) + 1)
    return chance.choice((data[:at], data[at:], data[:at] + data[at + 1 :], data[:at] + data[at + 20 :]))


def move_lines(chance: Chance, data: bytes) -> bytes:
    lines = data.splitlines(keepends=True) or [b""]
    at = chance.randrange(len(lines))
    what = chance.randrange(7)
    if what == 0:
        lines[at] *= chance.choice((2, 30, 3000))
    elif what == 1:
        lines.pop(at)
    elif what == 2:
        lines.insert(chance.randrange(len(lines) + 1), lines[at])
    elif what == 3:
        lines[at] = chance.choice((b" ", b"\t", b"    ")) + lines[at]
    elif what == 4:
        lines[at] = lines[at].lstrip()
    elif what == 5:
        lines[at] = lines[at].rstrip(b"\n") + chance.choice((b"\r\n", b"\r", b"", b"  # note\n", b"\n\n\n"))
    else:
        chance.shuffle(lines)
    return b"".join(lines)


def wrap(chance: Chance, data: bytes) -> bytes:
    before, after = chance.choice((
        (b"\xef\xbb\xbf", b""), (b"\xff\xfe", b""), (b"", b"\x00"), (b"---\n", b"...\n"), (b"---\n", b"---\n"), (b"[", b"]"),
        (b"\n" * 5000, b""), (b"", b" " * 5000), (b"#" * 5000 + b"\n", b""), (b"%YAML 1.2\n---\n", b""), (b"\t", b""),
        (b"[" * 10_000, b""), (b"{" * 10_000, b""), (b"- " * 10_000, b""), (b'"', b""), (b"a: &a [x]\nb: ", b"*a"),
    ))  # fmt: skip
    return before + data + after


def recode(chance: Chance, data: bytes) -> bytes:
    text = data.decode("utf-8", "replace")
    return text.encode(chance.choice(("utf-16", "utf-16-be", "utf-32", "latin-1")), "replace")


def enlarge(chance: Chance, data: bytes) -> bytes:
    """Rare: a file of up to 3 MB."""
    if chance.random() < 0.8:
        return cut(chance, data)
    return data * (chance.choice((100_000, 3_000_000)) // max(1, len(data)) + 1)


TEXT_CHANGES: tuple[Callable[[Chance, bytes], bytes], ...] = (
    insert_nasty, insert_nasty, insert_nasty, insert_bytes, flip, flip, cut, cut, move_lines, move_lines, move_lines, wrap,
    recode, enlarge,
)  # fmt: skip


def damage_table(chance: Chance, data: bytes) -> bytes:
    """Changes to the cells of a CSV file, its header included."""
    rows = [line.split(",") for line in data.decode().splitlines()]
    for _ in range(chance.choice((1, 1, 2, 4))):
        row = chance.choice(rows)
        at = chance.randrange(len(row)) if row else 0
        what = chance.random()
        if not row or what < 0.08:
            row.append("x")
        elif what < 0.6:
            row[at] = cell(chance)
        elif what < 0.75:
            row[at] = damaged_text(chance, row[at])
        elif what < 0.83:
            row.pop(at)
        elif what < 0.9:
            row[at] = row[chance.randrange(len(row))]
        elif what < 0.95:
            rows.append(list(row))
        else:
            row[at] = '"' + row[at]
    separator, end = chance.choice(((",", "\n"),) * 8 + ((";", "\n"), ("\t", "\n"), (",", "\r\n"), (",", "\r")))
    return encode(end.join(separator.join(row) for row in rows) + end)


def cell(chance: Chance) -> str:
    value = chance.choice(SCALARS)
    text = str(value)
    return '"' + text.replace('"', '""') + '"' if chance.random() < 0.5 else text
