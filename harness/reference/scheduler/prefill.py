"""Computing prompts, chunk by chunk."""

from __future__ import annotations

import numpy as np

from harness.reference.cache.policy import Span
from harness.reference.model.arrays import F32
from harness.reference.scheduler.choosing import score_prompt
from harness.reference.scheduler.forward import ForwardRunner
from harness.reference.scheduler.keeper import CacheKeeper
from harness.reference.scheduler.sequence import Sequence
from harness.reference.scheduler.stats import EngineStats
from harness.reference.speculation.drafter import Drafter


class Prefiller:
    """Runs one chunk of one sequence, in pieces that end where states are to be kept."""

    def __init__(
        self,
        *,
        runner: ForwardRunner,
        keeper: CacheKeeper | None,
        drafter: Drafter | None,
        stats: EngineStats,
        recurrent: bool,
    ) -> None:
        self.runner = runner
        self.keeper = keeper
        self.drafter = drafter
        self.stats = stats
        self.recurrent = recurrent

    def run(self, sequence: Sequence, span: Span) -> F32:
        """Computes a span and returns the hidden vector of its last token, ``[H]``."""
        marks = self.keeper.policy.prefill_marks(span) if self.keeper is not None else []
        if not self.recurrent:
            hidden = self._piece(sequence, span.stop)
            self._keep_hidden(sequence, span, marks, hidden)
            return np.asarray(hidden[-1])
        for stop in sorted({*marks, span.stop}):
            hidden = self._piece(sequence, stop)
            if self.keeper is not None and stop in marks:
                self.keeper.store_state(sequence, stop)
        return np.asarray(hidden[-1])

    def _piece(self, sequence: Sequence, stop: int) -> F32:
        start = sequence.computed
        tokens = sequence.tokens[start:stop]
        before = self.runner.state.hidden[sequence.slot].copy()
        hidden = self.runner.prefill(sequence.slot, tokens)
        if self.drafter is not None:
            self.drafter.absorb_prompt(sequence.slot, start, tokens, hidden, before)
        if sequence.request.score is not None and sequence.generated == 0:
            score_prompt(sequence, self.runner.logits(hidden), start)
        sequence.computed = stop
        self._count(sequence, start, stop)
        if self.keeper is not None:
            self.keeper.store_blocks(sequence)
        return hidden

    def _keep_hidden(self, sequence: Sequence, span: Span, marks: list[int], hidden: F32) -> None:
        if self.keeper is None:
            return
        for mark in marks:
            self.keeper.store_hidden(sequence, mark, hidden[mark - span.start - 1])

    def _count(self, sequence: Sequence, start: int, stop: int) -> None:
        self.stats.prefilled_tokens += stop - start
        if sequence.preemptions:
            self.stats.recomputed_tokens += stop - start
        else:
            sequence.prefilled_tokens += stop - start
