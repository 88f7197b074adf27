"""Price lists and answers of others, each form in a file of its own: rows become offers, and nothing is left unsaid."""
