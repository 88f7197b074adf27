"""A command line as it may be kept: what looks like a secret is replaced, the rest stays word for word.

What cannot be told from a secret is masked too: a lost word costs less than a kept password.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

MASK = "***"
_NAME = re.compile(
    r"(?:^|[-_.])(?:api[-_]?key|access[-_]?key|secret|token|password|passwd|passphrase|passin|passout|pass|pwd"
    r"|credentials?|auth|bearer|pat)(?:$|[-_.])|(?:(?:api|access|private|secret)key|token|secret|password|passwd)$"
    r"|(?:^|[-_.])(?:private|secret|signing|encryption|ssh|wandb|comet|neptune|openai|anthropic|azure|hf)[-_.]key$"
    r"|cookie$",
    re.IGNORECASE,
)
"""Names of options and variables whose value is a secret."""
_HARMLESS = re.compile(
    r"tokens$|tokenizer|max[-_].*token|token[-_](?:ids?|len|count)|pad[-_]token|[-_]token[-_]id|pass[-_]through", re.I
)
_VALUE = re.compile(
    r"hf_[A-Za-z0-9]{8,}|sk-[A-Za-z0-9_-]{8,}|[sr]k_(?:live|test)_\w{8,}|gh[pousr]_[A-Za-z0-9]{8,}|github_pat_\w{8,}"
    r"|xox[abprs]-[\w-]{8,}|AKIA[A-Z0-9]{12,}|AIza[\w-]{20,}|nvapi-[\w-]{8,}|glpat-[\w-]{8,}"
    r"|eyJ[\w-]{10,}\.[\w-]{5,}(?:\.[\w-]*)?"
)
"""Values that are secrets by their own form."""
_LOGIN = re.compile(r"(\w+://)(?:[^/\s\"']*|[^/\s:@\"']*:(?!\d+/)[^\s@\"']*)@")
_AT_HOST = re.compile(r"(?<![\w/:.+-])[\w.+-]+:[^\s/@:\"']+@(?!sha\d)(?=[\w.-]+)")
"""`user:password@host` without a scheme; an image's `name:tag@sha256:` is none."""
_HEADER = re.compile(
    r"((?:authorization|x-api-key)[\"']?\s*[:=]\s*[\"']?(?:(?:bearer|basic|token|digest|apikey)\s+)?)[^\"'\n]+"
    r"|(bearer\s+)[^\s\"']+",
    re.IGNORECASE,
)
_COOKIE = re.compile(r"((?:set-)?cookie\s*:\s*)\S.*", re.IGNORECASE | re.DOTALL)
_QUOTED = r"\"[^\"]*\"|'[^']*'"
_WITHIN = re.compile(rf"(?P<name>[A-Za-z_][\w.-]{{0,80}})(?P<mid>[\"']?\s?[:=]\s?)(?P<value>{_QUOTED}|[^\s;&|,}}\"']+)")
"""A name and its value inside a word: an assignment in a line for a shell, a member of a JSON object."""
_OPTION = re.compile(rf"(?<![\w-])(?P<name>--?[A-Za-z][\w.-]*)(?P<mid>\s+)(?P<value>{_QUOTED}|[^\s;&|\"'-][^\s;&|]*)")
"""An option and its value in a line for a shell."""
_ATTACHED = re.compile(r"(?<![\w-])(-[pP])(?=[^\s=]*[\dA-Z!@#$%^*+~?])([A-Za-z][^\s=\"']{3,}|[^\s\w=\"'-][^\s\"']{3,})")
"""A password that follows its short option at once, where it does not look like the name of an option."""
_ATTACHES = re.compile(r"(?:.*/)?(?:mysql\w*|mariadb[\w-]*|sshpass)")
"""Programs whose `-p` is always followed by a password at once."""
_PLAIN_SHORT = re.compile(r"[\d.:,/-]+(?:/(?:tcp|udp))?|[./~].*|[A-Za-z]:[\\/].*")
"""What follows `-p` and is a port, a number or a path."""
_USER = re.compile(r"([^\s:/\"']+):(?!//)(?!\d+:)[^\s\"']+")
_PAIR = re.compile(r"(-{0,2}[\w.-]+)=(.*)", re.DOTALL)
_QUERY = re.compile(r"([?&](?:[\w-]*(?:token|key|secret|password|signature|sig))=)[^&#\s]+", re.IGNORECASE)
_SHELL_LINE = re.compile(r"-[a-z]*c")
_SHORT, _LOGINS = ("-p", "-P"), ("-u", "--user", "-U")
MAX_WORDS, MAX_CHARACTERS = 1000, 4000


def masked(command: Sequence[str]) -> list[str]:
    """The words of a command with secrets replaced by ***. Very long ones are cut."""
    words: list[str] = []
    before = ""
    for given in command[:MAX_WORDS]:
        word = given.encode(errors="surrogateescape").decode(errors="replace")  # an argument need not be UTF-8
        pair = _PAIR.fullmatch(word)
        if _takes_secret(before, word):
            words.append(MASK)
        elif pair is not None and _is_secret(pair[1]) and not _SHELL_LINE.fullmatch(before):
            words.append(f"{pair[1]}={MASK}")
        elif word.startswith("-p") and len(word) > 2 and _ATTACHES.fullmatch(command[0]):
            words.append(f"-p{MASK}")
        elif before in _LOGINS:
            words.append(_inside(_login(word[:MAX_CHARACTERS])))
        else:
            words.append(_inside(word[:MAX_CHARACTERS]))
        before = "" if pair is not None else word
    return words


def masked_setting(name: str, value: str) -> str:
    """The value of a variable, masked where its name or its own form says that it is a secret."""
    return MASK if _is_secret(name) else masked([value])[0]


def _takes_secret(option: str, value: str) -> bool:
    """Is a word the secret that the one before it announces?"""
    if option in _SHORT:
        return not value.startswith("-") and not _PLAIN_SHORT.fullmatch(value)
    if option.lower() == "bearer":
        return True
    return option.startswith("-") and _is_secret(option) and not value.startswith("--")


def _is_secret(name: str) -> bool:
    bare = name.lstrip("-")
    return bool(_NAME.search(bare)) and not _HARMLESS.search(bare)


def _login(word: str) -> str:
    return _USER.sub(rf"\1:{MASK}", word)


def _masked_value(match: re.Match[str]) -> str:
    value = match["value"]
    if not _is_secret(match["name"]) or value.lower() in ("bearer", "basic") or MASK in value:
        return match[0]
    mark = value[0] if value[0] in "\"'" else ""
    return f"{match['name']}{match['mid']}{mark}{MASK}{mark}"


def _masked_option(match: re.Match[str]) -> str:
    name, value = match["name"], match["value"]
    mark = value[0] if value[0] in "\"'" else ""
    if name in _LOGINS:
        return f"{name}{match['mid']}{_login(value)}"
    if MASK in value or not _takes_secret(name, value.strip("\"'")):
        return match[0]
    return f"{name}{match['mid']}{mark}{MASK}{mark}"


def _inside(word: str) -> str:
    word = _HEADER.sub(lambda match: f"{match[1] or match[2]}{MASK}", word)
    word = _QUERY.sub(rf"\1{MASK}", _LOGIN.sub(rf"\1{MASK}@", _COOKIE.sub(rf"\1{MASK}", word)))
    word = _WITHIN.sub(_masked_value, _AT_HOST.sub(f"{MASK}@", word))
    word = _ATTACHED.sub(rf"\1{MASK}", word)
    if any(letter.isspace() for letter in word):
        word = _OPTION.sub(_masked_option, word)
    return _VALUE.sub(MASK, word)
