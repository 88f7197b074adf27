"""Canonical JSON and digests: equal facts give equal bytes, on every machine.

Keys sorted, no spaces, UTF-8 unescaped, integers for bytes, decimal strings for money, and no NaN or
infinity: neither has a meaning in a record, and `null` in its place would turn "not a number" into "unknown".
"""

from __future__ import annotations

from typing import Any

import msgspec


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

    return json.dumps(msgspec.to_builtins(value, str_keys=True), allow_nan=False, ensure_ascii=False, indent=2)


def digest_bytes(data: bytes) -> str:
    """The sha256 of some bytes, in hexadecimal."""
    import hashlib

    return hashlib.sha256(data).hexdigest()


def digest(value: Any) -> str:
    """The sha256 of a value's canonical JSON, in hexadecimal; a path in it need not be UTF-8."""
    return digest_bytes(_text(value).encode(errors="surrogatepass"))
