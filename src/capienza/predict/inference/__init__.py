"""What each inference engine takes and offers, one file or package an engine."""
