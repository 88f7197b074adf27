"""The tables of docs/explanation/quality.md are what the code computes.."""

from __future__ import annotations

from pathlib import Path

from test_power import SIX, simulated

from capienza.quality.power import needed, power
from capienza.quality.tango import interval

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "quality.md"
MARGINS = (0.005, 0.01, 0.02, 0.05)


def tables() -> dict[str, str]:
    """Rows of each table."""
    ties = (f"| {count:,} | {interval(count, 0, 0, 0.025).lower:.2%} |" for count in (20, 50, 100, 200, 400, 1_000))
    errors = (
        f"| {count:,} | {share:.0%} | {margin:.0%} | {power(count, share, margin, 0.025, -margin):.3f} | "
        f"{simulated(count, share, margin):.3f} |"
        for count, share, margin in SIX
    )
    items = (
        f"| {share:.0%} | {' | '.join(f'{needed(share, margin, 0.025, 0.9):,}' for margin in MARGINS)} |"
        for share in (0.02, 0.05, 0.1, 0.2)
    )
    powers = (f"| {margin:.0%} | {power(300, 0.05, margin, 0.025):.2f} |" for margin in (0.01, 0.02, 0.03, 0.05, 0.1))
    made = {"ties": ties, "errors": errors, "needed": items, "power": powers}
    return {name: "\n".join(rows) for name, rows in made.items()}


def test_the_page_shows_what_the_code_computes() -> None:
    page = PAGE.read_text()
    for name, rows in tables().items():
        assert rows in page, name
