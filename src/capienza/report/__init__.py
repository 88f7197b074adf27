"""From results to tables, plain text and Markdown. No arithmetic beyond what a table shows."""
