"""Models as files: safetensors, GGUF and `config.json`, local or on the Hub, of which only headers are read."""
