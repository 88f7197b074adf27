"""vLLM: from flags and a card's CUDA total to the pool it will offer, and what one GPU holds in each phase."""
