"""The few sentences that click itself says ("Usage:", "No such option ..."), from our catalogue."""

from __future__ import annotations

import os

VARIABLE = "LANGUAGE"
_replaced: list[str | None] = []
"""The variable as it was before `speak_click` set it; empty where it is as it was."""


def speak_click(language: str) -> None:
    """Point the process-wide gettext domain, which click uses, at our catalogue and language."""
    import gettext

    from capienza.i18n.catalogue import DOMAIN, LOCALES

    gettext.bindtextdomain(DOMAIN, LOCALES)
    gettext.textdomain(DOMAIN)
    _replaced.append(os.environ.get(VARIABLE))
    os.environ[VARIABLE] = language


def leave_language() -> None:
    """Put the variable back, before another program is started: it speaks the language of its user."""
    if _replaced:
        before = _replaced[0]
        os.environ.pop(VARIABLE, None)
        if before is not None:
            os.environ[VARIABLE] = before
        _replaced.clear()
