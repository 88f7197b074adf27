"""Lines in which a server shows what a client wrote or was answered: whatever stands in them did not happen here."""

from __future__ import annotations

import re

_QUOTED = re.compile(
    r"\b(?:received request \S+: prompt: |request \S+ details: prompt: "
    r"|generated response \S+(?: \([^)]{0,40}\))?: output: )|\breceive: obj=\w{0,40}ReqInput\(",
    re.IGNORECASE,
)
_HEAD_CHARACTERS = 400
"""Characters at the start of a line in which a server names the request."""


def is_quoted(words: str) -> bool:
    """Does the line show the text of a request or of its answer (vLLM, SGLang)?"""
    if "prompt: " not in words and "output: " not in words and "ReqInput(" not in words:
        return False
    return _QUOTED.search(words, 0, _HEAD_CHARACTERS) is not None
