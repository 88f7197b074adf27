"""What a model is: a list of layers and the parameters that make them up, from a config or from GGUF metadata."""
