"""What a person writes to give evidence: a form for each class of document, and the record it becomes."""
