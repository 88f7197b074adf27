"""From a card and a model to a ledger. Today: weights and caches exactly; the rest as unknown entries by name."""
