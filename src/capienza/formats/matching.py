"""Which modules a list of patterns names, in the spelling rules of each library.

module  transformers: a pattern matches from the start to a dot, or as a plain suffix ("lm_head", "layers.1")
target  compressed-tensors: an exact name, a class ("Linear"), or an expression after "re:"
glob    modelopt: an exact name, a name above it, or a shell pattern ("*self_attn*")
regex   gptqmodel: an expression from the start of the name
suffix  optimum, transformers' modules_to_convert: the end of the name

Expressions come from files nobody has vetted, so `checked` bounds what one may contain before it is used:
three repeats, four optional parts, flat groups that are not repeated. Matching is then at worst cubic in a module's
name, whose length is ours to choose.
Source: quantizers_utils, quantizer_*.py of transformers 5.24; compressed-tensors utils/match; gptqmodel dynamic.
"""

from __future__ import annotations

import re
from fnmatch import translate
from functools import lru_cache

import msgspec

from capienza.errors import InputError, Place, template
from capienza.formats.layout import Style

MAX_EXPRESSIONS = 64
MAX_LENGTH = 256
MAX_REPEATS = 3
MAX_OPTIONAL = 4

UNSAFE_PATTERN = template(
    "formats.unsafe-pattern",
    "the pattern {found} is not accepted: at most {length} characters, {repeats} repeats and {optional} optional parts,"
    " no group that is repeated or inside another, no back reference",
    "write the module names out, or size the weights from the checkpoint's own tensors",
)
TOO_MANY_PATTERNS = template(
    "formats.too-many-patterns",
    "{found} patterns with wildcards; at most {accepted} are accepted",
    "write the module names out, or size the weights from the checkpoint's own tensors",
)
UNKNOWN_CLASS = template(
    "formats.unknown-module-class",
    "modules are chosen by the class {found}; the only classes understood are {accepted}",
    "size the weights from the checkpoint's own tensors: which modules have that class is not known here",
)

CLASSES = ("Linear", "Embedding")
_PLAIN = re.compile(r"[\w.\-]*\Z", re.ASCII)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_SET = re.compile(r"\[\^?\]?[^\]]*\]")
_REPEAT = re.compile(r"[*+?]|\{[\d,]+\}", re.ASCII)
_LAZY = re.compile(r"([*+?}])[?+]")
_GROUP_KIND = re.compile(r"\(\?(?::|=|!|<=|<!)")
_GROUP = re.compile(r"\(([^()]*)\)")
_REPEATED_GROUP = re.compile(r"\)[*+{]")
_REFUSED = re.compile(r"\\[1-9]|\(\?(?!:|=|!|<=|<!)")
_CLASS_NAME = re.compile(r"[A-Z]\w*\Z", re.ASCII)
_FUSED = re.compile(r"(.*\bexperts)\.(gate_up_proj|down_proj|up_proj|gate_proj)\Z", re.ASCII)


class Module(msgspec.Struct, frozen=True):
    """A module to be matched: every name it goes by, and the class of its weight."""

    names: tuple[str, ...]
    kind: str


class _Compiled(msgspec.Struct, frozen=True):
    exact: frozenset[str]
    above: frozenset[str]
    suffixes: tuple[str, ...]
    expressions: tuple[re.Pattern[str], ...]
    classes: frozenset[str]


def matches(style: Style, patterns: tuple[str, ...], module: Module) -> bool:
    """Whether any pattern names the module."""
    compiled = _compile(style, patterns)
    if module.kind in compiled.classes:
        return True
    for name in module.names:
        if name in compiled.exact or (compiled.suffixes and name.endswith(compiled.suffixes)):
            return True
        if compiled.above and any(above in compiled.above for above in _above(name)):
            return True
        if any(expression.match(name) for expression in compiled.expressions):
            return True
    return False


def module_names(name: str) -> tuple[str, ...]:
    """Every spelling of a parameter's module that a checkpoint's own lists may use.

    A fused expert tensor also answers to the separate experts it stands for, and the text side of a wrapper to
    the names it has inside and outside the wrapper.
    """
    module = name.removesuffix(".weight")
    spellings = [module]
    fused = _FUSED.match(module)
    if fused:
        experts, projection = fused[1], fused[2]
        projections = ("gate_proj", "up_proj") if projection == "gate_up_proj" else (projection,)
        old = ("w1", "w3") if projection == "gate_up_proj" else ("w2",)
        spellings += [experts, *(f"{experts}.0.{part}" for part in (*projections, *old))]
    for spelling in tuple(spellings):
        for inner, outer in (
            ("model.language_model.", "language_model.model."),
            ("model.language_model.", "model."),
            ("model.", "language_model.model."),
            ("model.", "model.language_model."),
            ("lm_head", "language_model.lm_head"),
        ):
            if spelling.startswith(inner):
                spellings.append(outer + spelling.removeprefix(inner))
    return tuple(dict.fromkeys(spellings))


def checked(style: Style, patterns: tuple[str, ...], place: Place) -> tuple[str, ...]:
    """The patterns, once each is known to be safe. Raises `InputError` for one that is not."""
    expressions = [text for pattern in patterns if (text := _expression(style, pattern)) is not None]
    if len(expressions) > MAX_EXPRESSIONS:
        raise InputError(TOO_MANY_PATTERNS(found=len(expressions), accepted=MAX_EXPRESSIONS), place)
    for text in expressions if style != "glob" else ():
        if not _is_safe(text):
            unsafe = UNSAFE_PATTERN(found=text[:64], length=MAX_LENGTH, repeats=MAX_REPEATS, optional=MAX_OPTIONAL)
            raise InputError(unsafe, place)
    for text in patterns if style == "target" else ():
        if _CLASS_NAME.match(text) and text not in CLASSES:
            raise InputError(UNKNOWN_CLASS(found=text[:64], accepted=CLASSES), place)
    return patterns


def _expression(style: Style, pattern: str) -> str | None:
    """The regular expression in a pattern, or None for one that is compared as plain text."""
    if style == "target":
        return pattern[3:] if pattern.startswith("re:") else None
    if style == "regex":
        return pattern
    if style == "suffix" or _PLAIN.match(pattern):
        return None
    return pattern


@lru_cache(maxsize=256)
def _compile(style: Style, patterns: tuple[str, ...]) -> _Compiled:
    expressions: list[str] = []
    plain: list[str] = []
    for pattern in patterns:
        text = _expression(style, pattern)
        if text is None:
            plain.append(pattern)
        elif style == "glob":
            expressions.append(translate(text))
        elif style == "module":
            # Up to a dot or the end; or the whole text as a suffix, which only a plain one can be.
            expressions.append(rf"(?:{text})(?:(?<=\.)|(?=\.|\Z))")
        else:
            expressions.append(text)
    return _Compiled(
        exact=frozenset(plain),
        above=frozenset(plain) if style in {"module", "glob"} else frozenset(),
        suffixes=tuple(plain) if style in {"module", "suffix"} else (),
        expressions=tuple(re.compile(text) for text in expressions),
        classes=frozenset(plain) & frozenset(CLASSES) if style == "target" else frozenset(),
    )


def _above(name: str) -> list[str]:
    """The names of the modules that contain this one, with and without their final dot."""
    ends = [index for index, letter in enumerate(name) if letter == "."]
    return [name[:end] for end in ends] + [name[: end + 1] for end in ends]


def _is_safe(text: str) -> bool:
    """Whether an expression compiles and stays within the limits of the module's legend."""
    if len(text) > MAX_LENGTH or _REFUSED.search(text):
        return False
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError):
        return False
    bare = _GROUP_KIND.sub("(", _LAZY.sub(r"\1", _SET.sub(".", _ESCAPE.sub(_escaped, text))))
    groups = _GROUP.findall(bare)
    repeats = _REPEAT.findall(bare)
    optional = repeats.count("?")
    return (
        len(groups) == bare.count("(")  # none inside another
        and not _REPEATED_GROUP.search(bare)
        and len(repeats) - optional <= MAX_REPEATS
        and optional <= MAX_OPTIONAL
        and sum("|" in group and "." in group for group in groups) <= 1
    )


def _escaped(match: re.Match[str]) -> str:
    """A letter that stands for an escape: a wildcard for a kind of letter, plain for one literal letter."""
    return "." if match[1].isalnum() else "_"
