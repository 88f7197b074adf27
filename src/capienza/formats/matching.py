"""Which modules a list of patterns names, in the spelling rules of each library.

module  transformers: a pattern matches from the start to a dot, or as a plain suffix ("lm_head", "layers.1")
target  compressed-tensors: an exact name, a class ("Linear"), or an expression after "re:"
glob    modelopt: an exact name, a name above it, or a shell pattern ("*self_attn*")
regex   gptqmodel: an expression from the start of the name
suffix  optimum, transformers' modules_to_convert: the end of the name

Source: quantizers_utils, quantizer_*.py of transformers 5.24; compressed-tensors utils/match; gptqmodel dynamic.
"""

from __future__ import annotations

import re
from functools import lru_cache

import msgspec

from capienza.errors import InputError, Place, template
from capienza.formats.expressions import ExpressionError
from capienza.formats.layout import Style
from capienza.formats.matcher import Matcher

BAD_PATTERN = template(
    "formats.pattern",
    "the pattern {found} is not understood: groups, sets, alternatives and repeats are; look-around, flags and back"
    " references are not",
    "write the module names out, or size the weights from the checkpoint's own tensors",
)
COSTLY_PATTERNS = template(
    "formats.costly-patterns",
    "the {count} patterns that choose modules are too costly to match together",
    "write the module names out, or size the weights from the checkpoint's own tensors",
)
UNKNOWN_CLASS = template(
    "formats.unknown-module-class",
    "modules are chosen by the class {found}; the only classes understood are {accepted}",
    "size the weights from the checkpoint's own tensors: which modules have that class is not known here",
)

CLASSES = ("Linear", "Embedding")
_PLAIN = re.compile(r"[\w.\-]*\Z", re.ASCII)
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
    matcher: Matcher | None
    classes: frozenset[str]


def matches(style: Style, patterns: tuple[str, ...], module: Module) -> bool:
    """Whether any pattern names the module. Raises `InputError` for patterns too costly to match."""
    compiled = _compile(style, patterns)
    if module.kind in compiled.classes:
        return True
    for name in module.names:
        if name in compiled.exact or (compiled.suffixes and name.endswith(compiled.suffixes)):
            return True
        if compiled.above and any(above in compiled.above for above in _above(name)):
            return True
    if compiled.matcher is None:
        return False
    try:
        return any(_matches(style, compiled.matcher, name) for name in module.names)
    except ExpressionError:
        raise InputError(COSTLY_PATTERNS(count=len(patterns)), Place(key=module.names[0])) from None


def _matches(style: Style, matcher: Matcher, name: str) -> bool:
    """Whether an expression matches the name from its start, as far as the style wants it to."""
    return any(
        style != "module" or end == len(name) or name[end] == "." or name[end - 1 : end] == "."
        for end in matcher.ends(name)
    )


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
    """The patterns, once each is known to be understood. Raises `InputError` for one that is not."""
    for pattern in patterns:
        if style == "target" and _CLASS_NAME.match(pattern) and pattern not in CLASSES:
            raise InputError(UNKNOWN_CLASS(found=pattern[:64], accepted=CLASSES), place)
        text = _expression(style, pattern)
        if text is not None:
            try:
                Matcher((text,))
            except ExpressionError:
                raise InputError(BAD_PATTERN(found=text[:64]), place) from None
    try:
        _compile(style, patterns)
    except ExpressionError:
        raise InputError(COSTLY_PATTERNS(count=len(patterns)), place) from None
    return patterns


def _expression(style: Style, pattern: str) -> str | None:
    """The regular expression in a pattern, or None for one that is compared as plain text."""
    if style == "target":
        return pattern[3:] if pattern.startswith("re:") else None
    if style == "regex":
        return pattern
    if style == "suffix" or _PLAIN.match(pattern):
        return None
    if style == "glob":
        signs = {"*": ".*", "?": ".", "[": "(?[)"}  # a set means something else to a shell: not understood
        return "".join(signs.get(letter, letter if letter.isalnum() else f"\\{letter}") for letter in pattern) + "$"
    return pattern


@lru_cache(maxsize=256)
def _compile(style: Style, patterns: tuple[str, ...]) -> _Compiled:
    expressions = [text for pattern in patterns if (text := _expression(style, pattern)) is not None]
    plain = [pattern for pattern in patterns if _expression(style, pattern) is None]
    return _Compiled(
        exact=frozenset(plain),
        above=frozenset(plain) if style in {"module", "glob"} else frozenset(),
        suffixes=tuple(plain) if style in {"module", "suffix"} else (),
        matcher=Matcher(tuple(expressions)) if expressions else None,
        classes=frozenset(plain) & frozenset(CLASSES) if style == "target" else frozenset(),
    )


def _above(name: str) -> list[str]:
    """The names of the modules that contain this one, with and without their final dot."""
    ends = [index for index, letter in enumerate(name) if letter == "."]
    return [name[:end] for end in ends] + [name[: end + 1] for end in ends]
