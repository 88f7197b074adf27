"""One file for each model type: `<model_type>.py` with `build(config) -> Architecture`."""
