"""What every JSON document says of the program that wrote it."""

from __future__ import annotations

from capienza import __version__

TOOL = {"name": "capienza", "version": __version__}
