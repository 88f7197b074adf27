"""The predictors against measured cases."""
