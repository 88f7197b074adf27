"""Closed forms of a training's memory, phase by phase, without torch."""
