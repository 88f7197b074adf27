"""Pickles of plain values, read without running any of them.

A pickle is a program for a stack machine, and one from elsewhere may call anything. Memory snapshots need only the
operations that make None, booleans, numbers, texts, lists, tuples and dictionaries; all others are refused by name.
Python's own unpickler is not used: besides calling what it is told to, it can be made to take memory without bound.
"""

from __future__ import annotations

import pickletools
import struct
from typing import Any

from capienza.errors import InputError, template

REFUSED = template(
    "pickled.refused",
    "byte {offset}: the operation {operation} is refused; only numbers, texts, lists and dictionaries are read",
    "Nothing of the file was run. Take a snapshot written by torch.cuda.memory._dump_snapshot.",
)
BROKEN = template(
    "pickled.broken", "byte {offset} of {count}: the pickle breaks off or is damaged", "Copy or record the file again."
)
TOO_MUCH = template(
    "pickled.too-much", "byte {offset}: more than {most} lists and dictionaries, or too deep in each other", ""
)
MOST_CONTAINERS = 20_000_000
MOST_OPEN = 200
NAMES = {ord(one.code): one.name for one in pickletools.opcodes}
CONSTANTS = {ord("N"): None, 0x88: True, 0x89: False}
UNSIGNED_LENGTHS = {ord("K"): 1, ord("M"): 2}
TEXT_LENGTHS = {0x8C: 1, ord("X"): 4, 0x8D: 8}
LONG_LENGTHS = {0x8A: 1, 0x8B: 4}
LONGEST_NUMBER = 64
GET_LENGTHS = {ord("h"): 1, ord("j"): 4}
PUT_LENGTHS = {ord("q"): 1, ord("r"): 4}
TUPLE_LENGTHS = {ord(")"): 0, 0x85: 1, 0x86: 2, 0x87: 3}
SKIPPED_LENGTHS = {0x80: 1, 0x95: 8}
MARK, STOP = ord("("), ord(".")
EMPTY_LIST, EMPTY_DICT, MEMOIZE = ord("]"), ord("}"), 0x94
APPEND, APPENDS, SET_ITEM, SET_ITEMS, TUPLE = ord("a"), ord("e"), ord("s"), ord("u"), ord("t")
INT, FLOAT = ord("J"), ord("G")


def read_plain(data: bytes) -> Any:
    """The value a pickle holds. Raises `InputError` for what is broken, too large, or more than plain values."""
    try:
        return _run(data)
    except (LookupError, TypeError, AttributeError, ValueError, struct.error) as error:
        # The stack or the memory of the machine does not hold what an operation needs.
        raise InputError(BROKEN(offset=len(data), count=len(data))) from error


def _run(data: bytes) -> Any:
    stack: list[Any] = []
    below: list[list[Any]] = []
    memory: dict[int, Any] = {}
    at, end, containers = 0, len(data), 0
    from_bytes = int.from_bytes
    while at < end:
        if containers > MOST_CONTAINERS:
            raise InputError(TOO_MUCH(offset=at, most=MOST_CONTAINERS))
        code = data[at]
        at += 1
        if code in GET_LENGTHS:
            width = GET_LENGTHS[code]
            stack.append(memory[from_bytes(data[at : at + width], "little")])
            at += width
        elif code == MEMOIZE:
            memory[len(memory)] = stack[-1]
        elif code in PUT_LENGTHS:
            width = PUT_LENGTHS[code]
            memory[from_bytes(data[at : at + width], "little")] = stack[-1]
            at += width
        elif code in TEXT_LENGTHS:
            width = TEXT_LENGTHS[code]
            length = from_bytes(data[at : at + width], "little")
            at += width
            if at + length > end:
                break
            stack.append(data[at : at + length].decode("utf-8", "surrogatepass"))
            at += length
        elif code in UNSIGNED_LENGTHS:
            width = UNSIGNED_LENGTHS[code]
            stack.append(from_bytes(data[at : at + width], "little"))
            at += width
        elif code == INT:
            stack.append(from_bytes(data[at : at + 4], "little", signed=True))
            at += 4
        elif code in LONG_LENGTHS:
            width = LONG_LENGTHS[code]
            length = from_bytes(data[at : at + width], "little")
            at += width
            if length > LONGEST_NUMBER:
                raise InputError(REFUSED(offset=at, operation=NAMES[code]))
            stack.append(from_bytes(data[at : at + length], "little", signed=True))
            at += length
        elif code in (EMPTY_DICT, EMPTY_LIST):
            containers += 1
            stack.append({} if code == EMPTY_DICT else [])
        elif code == MARK:
            if len(below) > MOST_OPEN:
                raise InputError(TOO_MUCH(offset=at, most=MOST_CONTAINERS))
            below.append(stack)
            stack = []
        elif code == SET_ITEMS:
            items, stack = stack, below.pop()
            stack[-1].update(zip(items[::2], items[1::2], strict=True))
        elif code == APPENDS:
            items, stack = stack, below.pop()
            stack[-1].extend(items)
        elif code == SET_ITEM:
            value, key = stack.pop(), stack.pop()
            stack[-1][key] = value
        elif code == APPEND:
            value = stack.pop()
            stack[-1].append(value)
        elif code == TUPLE:
            items, stack = stack, below.pop()
            stack.append(tuple(items))
        elif code in TUPLE_LENGTHS:
            containers += 1
            length = TUPLE_LENGTHS[code]
            items = stack[len(stack) - length :]
            if len(items) < length:
                break
            del stack[len(stack) - length :]
            stack.append(tuple(items))
        elif code in CONSTANTS:
            stack.append(CONSTANTS[code])
        elif code == FLOAT:
            stack.append(struct.unpack(">d", data[at : at + 8])[0])
            at += 8
        elif code in SKIPPED_LENGTHS:
            at += SKIPPED_LENGTHS[code]
        elif code == STOP:
            if len(stack) == 1 and not below:
                return stack[0]
            break
        else:
            raise InputError(REFUSED(offset=at - 1, operation=NAMES.get(code, f"0x{code:02x}")))
    raise InputError(BROKEN(offset=at, count=end))
