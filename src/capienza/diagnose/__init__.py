"""From a log to its failure: the phase, the cause, what explains it, what to examine, what not to change in silence."""
