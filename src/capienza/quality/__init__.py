"""The quality gate: a frozen corpus, margins fixed before looking, and three answers."""
