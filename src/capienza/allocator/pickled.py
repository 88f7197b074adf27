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
    "pickled.too-much",
    "byte {offset}: more than {most} lists and dictionaries, or too deep in each other",
    "Record less: max_entries of torch.cuda.memory._record_memory_history, or context=None.",
)
MOST_CONTAINERS = 10_000_000
MOST_OPEN = 200
NAMES = {ord(one.code): one.name for one in pickletools.opcodes}
LONGEST_NUMBER = 64
MARK, STOP, NONE, TRUE, FALSE = ord("("), ord("."), ord("N"), 0x88, 0x89
GET, LONG_GET, MEMOIZE, PUT, LONG_PUT = ord("h"), ord("j"), 0x94, ord("q"), ord("r")
INT_1, INT_2, INT_4, LONG_1, LONG_4, FLOAT = ord("K"), ord("M"), ord("J"), 0x8A, 0x8B, ord("G")
TEXT_1, TEXT_4, TEXT_8 = 0x8C, ord("X"), 0x8D
EMPTY_LIST, APPEND, APPENDS = ord("]"), ord("a"), ord("e")
EMPTY_DICT, SET_ITEM, SET_ITEMS = ord("}"), ord("s"), ord("u")
TUPLE, TUPLES = ord("t"), {ord(")"): 0, 0x85: 1, 0x86: 2, 0x87: 3}
SKIPPED = {0x80: 1, 0x95: 8}
"""The protocol's number, and the length of a frame."""


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
    unsigned = struct.Struct("<I").unpack_from
    signed = struct.Struct("<i").unpack_from
    # The order is that of how often they come: this is where the time goes.
    while at < end:
        code = data[at]
        at += 1
        if code == GET:
            stack.append(memory[data[at]])
            at += 1
        elif code == MEMOIZE:
            memory[len(memory)] = stack[-1]
        elif code == INT_1:
            stack.append(data[at])
            at += 1
        elif code == INT_2:
            stack.append(data[at] | data[at + 1] << 8)
            at += 2
        elif code == INT_4:
            stack.append(signed(data, at)[0])
            at += 4
        elif code == LONG_GET:
            stack.append(memory[unsigned(data, at)[0]])
            at += 4
        elif code == LONG_PUT:
            memory[unsigned(data, at)[0]] = stack[-1]
            at += 4
        elif code in (LONG_1, LONG_4):
            length, at = (data[at], at + 1) if code == LONG_1 else (unsigned(data, at)[0], at + 4)
            if length > LONGEST_NUMBER:
                raise InputError(REFUSED(offset=at, operation=NAMES[code]))
            stack.append(int.from_bytes(data[at : at + length], "little", signed=True))
            at += length
        elif code == SET_ITEMS:
            items, stack = stack, below.pop()
            stack[-1].update(zip(items[::2], items[1::2], strict=True))
        elif code == MARK:
            if len(below) > MOST_OPEN:
                raise InputError(TOO_MUCH(offset=at, most=MOST_CONTAINERS))
            below.append(stack)
            stack = []
        elif code in (EMPTY_DICT, EMPTY_LIST) or code in TUPLES:
            containers += 1
            if containers > MOST_CONTAINERS:
                raise InputError(TOO_MUCH(offset=at, most=MOST_CONTAINERS))
            if code == EMPTY_DICT:
                stack.append({})
            elif code == EMPTY_LIST:
                stack.append([])
            else:
                length = TUPLES[code]
                items = stack[len(stack) - length :]
                if len(items) < length:
                    break
                del stack[len(stack) - length :]
                stack.append(tuple(items))
        elif code in (TEXT_1, TEXT_4, TEXT_8):
            width = 1 if code == TEXT_1 else 4 if code == TEXT_4 else 8
            length = int.from_bytes(data[at : at + width], "little")
            at += width
            if at + length > end:
                break
            stack.append(data[at : at + length].decode("utf-8", "surrogatepass"))
            at += length
        elif code == PUT:
            memory[data[at]] = stack[-1]
            at += 1
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
        elif code == NONE:
            stack.append(None)
        elif code in (TRUE, FALSE):
            stack.append(code == TRUE)
        elif code == FLOAT:
            stack.append(struct.unpack_from(">d", data, at)[0])
            at += 8
        elif code in SKIPPED:
            at += SKIPPED[code]
        elif code == STOP:
            if len(stack) == 1 and not below:
                return stack[0]
            break
        else:
            raise InputError(REFUSED(offset=at - 1, operation=NAMES.get(code, f"0x{code:02x}")))
    raise InputError(BROKEN(offset=at, count=end))
