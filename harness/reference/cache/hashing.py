"""Names of prefix blocks."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

DIGEST_BYTES = 16


class BlockHasher:
    """Chained hashes: a block's key covers its salt, every token before it and its own tokens."""

    def __init__(self, block_size: int) -> None:
        self.block_size = block_size

    def root(self, salt: str) -> bytes:
        """The parent of a prompt's first block."""
        return hashlib.blake2b(b"salt:" + salt.encode(), digest_size=DIGEST_BYTES).digest()

    def extend(self, parent: bytes, tokens: Sequence[int]) -> bytes:
        """The key of the block that follows ``parent`` and holds ``tokens``."""
        return hashlib.blake2b(parent + np.asarray(tokens, np.int64).tobytes(), digest_size=DIGEST_BYTES).digest()

    def chain(self, tokens: Sequence[int], salt: str, known: list[bytes]) -> list[bytes]:
        """Adds to ``known``, the keys of the first blocks, those of all further full blocks of ``tokens``."""
        size = self.block_size
        parent = known[-1] if known else self.root(salt)
        for start in range(len(known) * size, len(tokens) - size + 1, size):
            parent = self.extend(parent, tokens[start : start + size])
            known.append(parent)
        return known
