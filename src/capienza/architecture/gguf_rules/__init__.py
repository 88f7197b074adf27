"""What llama.cpp keeps for each architecture name of a GGUF file."""
