"""What is counted in an answer: each metric turns one item and one output into a figure, or says why it cannot."""
