"""A record as an in-toto Statement v1: what it is about by digest, a type, and the record itself as predicate.

Form: in-toto/attestation, spec/v1/statement.md. No signature is made; an envelope (DSSE) may
hold the bytes as they are.
"""

from __future__ import annotations

from typing import Any

from capienza.canon import canonical, digest_bytes

TYPE = "https://in-toto.io/Statement/v1"
PREDICATE = "urn:capienza:record:{kind}:v1"


def statement(document: dict[str, Any], path: str, data: bytes) -> bytes:
    """The statement of one record, as canonical JSON.

    Its subjects are those of the record that have a digest; for a record without one, the record's own file, `data` at
    `path`.
    """
    subjects = [
        {"name": subject["name"], "digest": {"sha256": subject["sha256"]}}
        for subject in document.get("subject", ())
        if subject.get("sha256")
    ]
    return (
        canonical(
            {
                "_type": TYPE,
                "subject": subjects or [{"name": path, "digest": {"sha256": digest_bytes(data)}}],
                "predicateType": PREDICATE.format(kind=document["kind"]),
                "predicate": document,
            }
        )
        + b"\n"
    )
