"""Lines that engines, frameworks and systems print, as facts; what they mean together is `diagnose`'s to say."""
