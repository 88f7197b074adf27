"""How a training runs: every choice that changes memory, stated by the card or taken from the framework's habit."""
