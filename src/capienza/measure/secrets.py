"""A command line as it may be kept: what looks like a secret is replaced, the rest stays word for word."""

from __future__ import annotations

import re
from collections.abc import Sequence

MASK = "***"
_NAME = re.compile(
    r"(?:^|[-_.])(?:api[-_]?key|access[-_]?key|secret|token|password|passwd|passphrase|credentials?|auth|bearer|pat)"
    r"(?:$|[-_.])|(?:(?:api|access|private|secret)key|token|secret|password)$"
    r"|(?:^|[-_.])(?:private|secret|signing|encryption|ssh|wandb|comet|neptune|openai|anthropic|azure|hf)[-_.]key$"
    r"|cookie$",
    re.IGNORECASE,
)
"""Names of options and variables whose value is a secret."""
_HARMLESS = re.compile(
    r"tokens$|tokenizer|max[-_].*token|token[-_](?:ids?|len|count)|pad[-_]token|[-_]token[-_]id", re.I
)
_VALUE = re.compile(
    r"hf_[A-Za-z0-9]{8,}|sk-[A-Za-z0-9_-]{8,}|gh[pousr]_[A-Za-z0-9]{8,}|github_pat_\w{8,}|xox[abprs]-[\w-]{8,}"
    r"|AKIA[A-Z0-9]{12,}|AIza[\w-]{20,}|nvapi-[\w-]{8,}|glpat-[\w-]{8,}|eyJ[\w-]{10,}\.[\w-]{5,}(?:\.[\w-]*)?"
)
"""Values that are secrets by their own form."""
_LOGIN = re.compile(r"(\w+://)[^/\s@]+@")
_HEADER = re.compile(r"((?:authorization|x-api-key)\s*[:=]\s*(?:bearer\s+|basic\s+)?)\S+|(bearer\s+)\S+", re.IGNORECASE)
_COOKIE = re.compile(r"((?:set-)?cookie\s*:\s*)\S.*", re.IGNORECASE | re.DOTALL)
_WITHIN = re.compile(
    r"(?P<name>[A-Za-z_][\w.-]{0,80})(?P<mid>[\"']?\s?[:=]\s?)(?P<value>\"[^\"]*\"|'[^']*'|[^\s;&|,}\"']+)"
)
"""A name and its value inside a word: an assignment in a line for a shell, a member of a JSON object."""
_PAIR = re.compile(r"(-{0,2}[\w.-]+)=(.*)", re.DOTALL)
_QUERY = re.compile(r"([?&](?:[\w-]*(?:token|key|secret|password|signature|sig))=)[^&#\s]+", re.IGNORECASE)
MAX_WORDS, MAX_CHARACTERS = 1000, 4000


def masked(command: Sequence[str]) -> list[str]:
    """The words of a command with secrets replaced by ***. Very long ones are cut."""
    words: list[str] = []
    is_value = False
    for given in command[:MAX_WORDS]:
        word = given.encode(errors="surrogateescape").decode(errors="replace")  # an argument need not be UTF-8
        pair = _PAIR.fullmatch(word)
        if is_value and not word.startswith("--"):
            words.append(MASK)
        elif pair is not None and _is_secret(pair[1]):
            words.append(f"{pair[1]}={MASK}")
        else:
            words.append(_inside(word[:MAX_CHARACTERS]))
        is_value = word.startswith("-") and pair is None and _is_secret(word)
    return words


def _is_secret(name: str) -> bool:
    bare = name.lstrip("-")
    return bool(_NAME.search(bare)) and not _HARMLESS.search(bare)


def _masked_value(match: re.Match[str]) -> str:
    value = match["value"]
    if not _is_secret(match["name"]) or value.lower() in ("bearer", "basic") or MASK in value:
        return match[0]
    mark = value[0] if value[0] in "\"'" else ""
    return f"{match['name']}{match['mid']}{mark}{MASK}{mark}"


def _inside(word: str) -> str:
    word = _HEADER.sub(lambda match: f"{match[1] or match[2]}{MASK}", word)
    word = _QUERY.sub(rf"\1{MASK}", _LOGIN.sub(rf"\1{MASK}@", _COOKIE.sub(rf"\1{MASK}", word)))
    word = _WITHIN.sub(_masked_value, word)
    return _VALUE.sub(MASK, word)
