"""The few sentences that click itself says ("Usage:", "No such option ..."), from our catalogue."""

from __future__ import annotations

import os


def speak_click(language: str) -> None:
    """Point the process-wide gettext domain, which click uses, at our catalogue and language."""
    import gettext

    from capienza.i18n.catalogue import DOMAIN, LOCALES

    gettext.bindtextdomain(DOMAIN, LOCALES)
    gettext.textdomain(DOMAIN)
    os.environ["LANGUAGE"] = language
