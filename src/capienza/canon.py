"""Canonical JSON and digests: equal facts give equal bytes, on every machine.

Keys sorted, no spaces, UTF-8 unescaped, integers for bytes, decimal strings for money, and no NaN or
infinity: neither has a meaning in a record, and `null` in its place would turn "not a number" into "unknown".
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

_UNSEEN = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
"""Characters that show nothing: deletion, C1 controls, marks of direction and of no width."""


def plain(value: Any) -> Any:
    """Structs, enums, decimals and dates as plain JSON types. Raises `TypeError` for anything else."""
    return msgspec.to_builtins(value, str_keys=True, order="deterministic")


def canonical(value: Any) -> bytes:
    """The canonical JSON bytes of a value. Raises `ValueError` for NaN and infinity, at any depth."""
    return _text(value).encode()


def _text(value: Any) -> str:
    import json

    return json.dumps(
        plain(value),
        allow_nan=False,
        ensure_ascii=False,
        separators=(",", ":"),
        sort_keys=True,
    )


def pretty(value: Any) -> str:
    """The same document for people: indented, keys in their written order, no NaN or infinity."""
    import json

    return seen(json.dumps(msgspec.to_builtins(value, str_keys=True), allow_nan=False, ensure_ascii=False, indent=2))


def seen(json_text: str) -> str:
    """JSON in which what could drive a terminal, or turn its text around, is an escape that means the same."""
    return _UNSEEN.sub(lambda match: f"\\u{ord(match[0]):04x}", json_text)


def digest_bytes(data: bytes) -> str:
    """The sha256 of some bytes, in hexadecimal."""
    import hashlib

    return hashlib.sha256(data).hexdigest()


def digest(value: Any) -> str:
    """The sha256 of a value's canonical JSON, in hexadecimal; a path in it need not be UTF-8."""
    return digest_bytes(_text(value).encode(errors="surrogatepass"))
