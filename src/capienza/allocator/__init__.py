"""PyTorch's CUDA caching allocator, replayed without a GPU and without torch.

A program is a list of events (`events`); `replay` runs it through the allocator's rules under given settings
and, if wanted, a capacity; `smallest_capacity_bytes` finds the least memory with which it still runs.
"""
