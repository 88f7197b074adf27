"""The events of a program, as plain tuples `(code, block, size_bytes, stream)`.

A million of them are held at once, so there is no object for each. What a code does not use is 0.

    ALLOC           block = an identity, unique while alive; size_bytes = what the program asked for
    FREE            the block is given back and can be used again at once
    EMPTY_CACHE     torch.cuda.empty_cache()
    MARK            block = index of a phase's name; ends the phase before
    FREE_REQUESTED  the program let the block go, but another stream still uses it (record_stream);
                    a FREE of the same block completes it
    BEGIN_POOL      block = number of a private pool (from 1): what is allocated from here on comes from it;
                    size_bytes = 1 while a CUDA graph is captured (no cache is emptied then), else 0
    END_POOL        block = the pool opened last: back to the one before
    RELEASE_POOL    block = number of a private pool that nothing holds any more: its cache can be emptied
"""

from __future__ import annotations

from typing import Final, TypeAlias

ALLOC: Final = 0
FREE: Final = 1
EMPTY_CACHE: Final = 2
MARK: Final = 3
FREE_REQUESTED: Final = 4
BEGIN_POOL: Final = 5
END_POOL: Final = 6
RELEASE_POOL: Final = 7

Event: TypeAlias = tuple[int, int, int, int]
