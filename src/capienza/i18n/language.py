"""Which language to speak: the option, then CAPIENZA_LANG, then the locale, then English."""

from __future__ import annotations

from collections.abc import Mapping

LANGUAGES = ("en", "it")
_VARIABLES = ("CAPIENZA_LANG", "LC_ALL", "LC_MESSAGES", "LANG")


def choose_language(option: str | None, environ: Mapping[str, str]) -> str:
    """The language to use. The first variable that is set decides; one we do not speak gives English."""
    if option is not None:
        return option
    wanted = next((environ[name] for name in _VARIABLES if environ.get(name)), "")
    code = wanted.replace("-", "_").split("_")[0].split(".")[0].lower()
    return code if code in LANGUAGES else "en"
