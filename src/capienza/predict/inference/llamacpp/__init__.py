"""The buffers that llama.cpp prints while it starts: weights, cache, state, compute and output, on each device."""
