"""The command line: parse, call one function of `capienza.api`, show its result. No arithmetic."""
