"""One file for each mandatory criterion."""
