"""Counting drafts."""

from __future__ import annotations

from harness.reference.scheduler.sequence import Sequence
from harness.reference.scheduler.stats import EngineStats


class SpeculationCounter:
    """Counts verify steps, drafted and accepted tokens, of each sequence and of the engine.

    A draft that was accepted behind the end of its sequence was not emitted and does not count as accepted. An answer
    has one token from its prefill and then one from each step beside the accepted drafts, except that a draft may be
    the last token: tokens = 1 + steps + accepted, or one less.
    """

    def __init__(self, stats: EngineStats) -> None:
        self.stats = stats

    def count(self, sequence: Sequence, drafted: int, accepted: int) -> None:
        """One verify step of one sequence."""
        record = sequence.speculation
        record.steps += 1
        record.drafted += drafted
        record.accepted += accepted
        record.histogram += [0] * (drafted + 1 - len(record.histogram))
        record.histogram[accepted] += 1
        stats = self.stats
        stats.draft_steps += 1
        stats.drafted_tokens += drafted
        stats.accepted_tokens += accepted
        stats.accepted_per_position += [0] * (drafted - len(stats.accepted_per_position))
        for position in range(accepted):
            stats.accepted_per_position[position] += 1
