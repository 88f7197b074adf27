"""The parts of a model as programs on a tape."""
