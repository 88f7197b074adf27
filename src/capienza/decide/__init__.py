"""Verdicts with three values from requirements, predictions, offers and records."""
