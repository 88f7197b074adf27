"""The digests in the table of twenty exclusions, anew: an offer's digest is that of all its fields, known ones added.

Only the digest of an offer is written here; what it stands beside is worked out by hand.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "explanation" / "twenty-exclusions.md"
OFFERS = ROOT / "examples" / "offers" / "excluded-twenty.yaml"
ROW = re.compile(r"^(\| (\S+) \|.* )([0-9a-f]{12})( \|)$", re.MULTILINE)


def refreshed() -> str:
    """The page with the digests of today."""
    import zoneinfo

    from capienza.api.offer_files import offers
    from capienza.decide.documents import offer_digest

    digests = {offer.id: offer_digest(offer)[:12] for offer in offers([OFFERS], zone=zoneinfo.ZoneInfo("Europe/Rome"))}

    def row(match: re.Match[str]) -> str:
        before, offer, digest, after = match.groups()
        is_record = f"| {digest} " in match[0]  # A record's id is its digest, and is never written anew.
        return f"{before}{digest if is_record else digests[offer]}{after}"

    return ROW.sub(row, PAGE.read_text())


if __name__ == "__main__":
    PAGE.write_text(refreshed())
