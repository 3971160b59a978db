"""Where along a sequence states are kept, and how deep a hit may reach."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

DECODE_INTERVAL = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One prefill chunk ``[start, stop)`` of a sequence.

    ``target`` is where its prefill ends; ``branch`` is where it leaves a prefix whose latents are cached deeper than
    any state, None when it does not.
    """

    start: int
    stop: int
    target: int
    branch: int | None = None


class SnapshotPolicy(Protocol):
    """Decides on block boundaries; all positions are token counts from the start of the sequence."""

    def hit_blocks(self, latent_blocks: int, limit_tokens: int, has_state: Callable[[int], bool]) -> int:
        """Blocks that a prompt may skip, given its cached latents, the most it may skip, and where states are."""
        ...

    def prefill_marks(self, span: Span) -> list[int]:
        """Positions in ``(start, stop]`` after which the state is kept, ascending."""
        ...

    def decode_mark(self, position: int) -> bool:
        """Whether to keep the state of a decoding sequence that has just reached ``position`` tokens."""
        ...


class AlignPolicy:
    """vLLM's ``align``: states at multiples of an interval, at the last boundary of a prompt, and while decoding.

    With MTP the last matched block is dropped, so that the draft layer recomputes it, and the last boundary kept lies
    one block earlier.
    """

    def __init__(self, *, block_size: int, interval: int, drop_last: bool) -> None:
        self.block_size = block_size
        self.interval = interval
        self.drop_last = drop_last

    def hit_blocks(self, latent_blocks: int, limit_tokens: int, has_state: Callable[[int], bool]) -> int:
        """The deepest state at or below the matched latents."""
        matched = latent_blocks - 1 if self.drop_last else latent_blocks
        return _deepest(min(matched, limit_tokens // self.block_size), has_state)

    def prefill_marks(self, span: Span) -> list[int]:
        """The interval's multiples and the last boundary from which a repeat of the prompt would go on."""
        first = span.start // self.interval + 1
        marks = {i * self.interval for i in range(first, span.stop // self.interval + 1)}
        last = self._last_boundary(span.target)
        if span.start < last <= span.stop:
            marks.add(last)
        return sorted(marks)

    def decode_mark(self, position: int) -> bool:
        """Every block boundary."""
        return position % self.block_size == 0

    def _last_boundary(self, target: int) -> int:
        size = self.block_size
        return target // size * size - size if self.drop_last else (target - 1) // size * size


class ForkPolicy:
    """SGLang's ``extra_buffer``: one state per prefill chunk, at its last block boundary, and rare ones while decoding.

    A prompt whose latents are cached deeper than any state stores its state at that fork instead; so a shared prefix
    with different tails is computed by the first request, forked by the second and hit in full by the third.
    """

    def __init__(self, *, block_size: int, decode_interval: int = DECODE_INTERVAL) -> None:
        self.block_size = block_size
        self.decode_interval = -(-decode_interval // block_size) * block_size

    def hit_blocks(self, latent_blocks: int, limit_tokens: int, has_state: Callable[[int], bool]) -> int:
        """The deepest state at or below the matched latents."""
        return _deepest(min(latent_blocks, limit_tokens // self.block_size), has_state)

    def prefill_marks(self, span: Span) -> list[int]:
        """One position: the fork when the chunk contains it, else the chunk's last boundary."""
        if span.branch is not None and span.start < span.branch <= span.stop:
            return [span.branch]
        last = span.start + (span.stop - span.start) // self.block_size * self.block_size
        return [last] if last > span.start else []

    def decode_mark(self, position: int) -> bool:
        """Multiples of the decode interval."""
        return position % self.decode_interval == 0


class DensePolicy:
    """For a model without recurrent state: every block boundary can be hit."""

    def __init__(self, *, block_size: int, drop_last: bool) -> None:
        self.block_size = block_size
        self.drop_last = drop_last

    def hit_blocks(self, latent_blocks: int, limit_tokens: int, has_state: Callable[[int], bool]) -> int:
        """The deepest boundary at or below the matched latents whose last hidden vector is there."""
        matched = latent_blocks - 1 if self.drop_last else latent_blocks
        return _deepest(min(matched, limit_tokens // self.block_size), has_state)

    def prefill_marks(self, span: Span) -> list[int]:
        """Every block boundary."""
        first = span.start // self.block_size + 1
        return [i * self.block_size for i in range(first, span.stop // self.block_size + 1)]

    def decode_mark(self, position: int) -> bool:
        """Every block boundary."""
        return position % self.block_size == 0


def _deepest(top: int, has_state: Callable[[int], bool]) -> int:
    return next((block for block in range(top, 0, -1) if has_state(block)), 0)
