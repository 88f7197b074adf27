"""The decoder of an encoder-decoder model that reads images: it is described, and the note says what is not counted."""

from __future__ import annotations

from collections.abc import Collection

from capienza.architecture.reading import MISSING, Config
from capienza.architecture.seq2seq_parts import DECODER_ONLY
from capienza.architecture.wrapper import NESTED
from capienza.errors import phrase

KEY = "tie_word_embeddings"


def decoder_part(config: Config, key: str, accepted: Collection[str] | None, *, tied: bool | None = None) -> Config:
    """The decoder's part of the file, of one of the `accepted` types, the first of them where it states none.

    With `accepted` None the part must say its type. Where the whole file decides about the head, `tied` is its class
    default; a part that says something goes before that. Where `tied` is None, the part alone decides.
    """
    model_type = config.text("model_type")
    if config.nested:
        config.not_understood("model_type", model_type, NESTED, phrase("the weights would come out too small"))
    part = config.section(key)
    if part is None:
        config.refuse(key, MISSING(key=key))
    stated = part.text("model_type", next(iter(accepted), None) if accepted else None)
    if accepted and stated not in accepted:
        direction = phrase("another text model has other tensors and another cache")
        part.not_understood("model_type", stated, ", ".join(accepted), direction)
    mapping = {**part.mapping, "model_type": stated}
    if tied is not None:
        mapping[KEY] = config.flag(KEY, tied) if config.has(KEY) else part.flag(KEY, tied)
    config.notes.append(DECODER_ONLY(model_type=model_type))
    return Config(mapping, part.file, prefix=part.prefix, parent=part)
