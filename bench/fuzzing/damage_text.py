"""Damage to texts: characters, lines, bytes, and the cells of a table."""

from __future__ import annotations

import random
from collections.abc import Callable

from fuzzing.damage_tree import damaged_text
from fuzzing.hostile import NASTY, SCALARS, encode

Chance = random.Random
MAX_BYTES = 4_000_000


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
        lines[at] *= min(chance.choice((2, 30, 3000)), 2 + MAX_BYTES // (len(lines[at]) + 1))
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
        (b"\xef\xbb\xbf", b""), (b"\xff\xfe", b""), (b"", b"\x00"), (b"---\n", b"...\n"), (b"---\n", b"---\n"),
        (b"[", b"]"), (b"\n" * 5000, b""), (b"", b" " * 5000), (b"#" * 5000 + b"\n", b""), (b"%YAML 1.2\n---\n", b""),
        (b"\t", b""),
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
    insert_nasty, insert_nasty, insert_nasty, insert_bytes, flip, flip, cut, cut, move_lines, move_lines, move_lines,
    wrap, recode, enlarge,
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
