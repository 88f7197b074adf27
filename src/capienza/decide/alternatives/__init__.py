"""Exactly one change each from a configuration: what it does to the peaks, and what it invalidates."""
