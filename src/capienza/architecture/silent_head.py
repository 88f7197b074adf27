"""Wrappers whose class ties the head of a file that says nothing of it, as transformers before version 5 wrote them.

Such a file may hold a head of its own all the same: transformers loads that one, and says so in its log.
"""

from __future__ import annotations

from typing import Literal

from capienza.architecture.model import Architecture
from capienza.architecture.reading import Config
from capienza.architecture.wrapper import describe_text_side
from capienza.errors import template

KEY = "tie_word_embeddings"
SILENT_HEAD = template(
    "architecture.silent-head",
    "the file does not say whether the head is tied; it is counted as its text part has it, with {count} parameters of"
    " its own. Where the model's files hold no head, transformers takes the embedding for it, and the weights are that"
    " much less",
    "Compare with the headers of the model's own files, or state tie_word_embeddings.",
)


def describe_silent_head(config: Config, default_type: str) -> Architecture:
    """The text side; the text part says of the head what the whole file leaves out, and a note what that may change."""
    return note_silent_head(config, describe_text_side(config, default_type))


def describe_either_head(config: Config, default_type: str, *, flat: bool = False) -> Architecture:
    """The same where one part that ties is enough, and the text's class ties; with `flat`, older files are read."""
    part = config.section("text_config")
    says: Literal["text", "either"] = "text" if part is not None and not part.has(KEY) else "either"
    return note_silent_head(config, describe_text_side(config, default_type, says_tied=says, flat=flat))


def note_silent_head(config: Config, architecture: Architecture) -> Architecture:
    """The same architecture, with the note where the file says nothing and the head is counted as its own."""
    if architecture.tied_head or config.has(KEY):
        return architecture
    count = sum(parameter.elements for parameter in architecture.parameters if parameter.role == "head")
    config.notes.append(SILENT_HEAD(count=count))
    return architecture
