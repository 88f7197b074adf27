"""The predictor against measured cases: what a user knew beforehand goes in, what was logged is compared."""
