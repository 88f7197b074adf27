"""Entries, phases, peaks, envelopes, capacities, and the plain calculator."""
