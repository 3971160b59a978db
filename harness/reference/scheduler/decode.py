"""One decode step of all running sequences: feed the newest token and its drafts, judge, roll back, draft anew."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Items

import numpy as np

from harness.reference.model.arrays import F32, I64
from harness.reference.scheduler.choosing import Chooser
from harness.reference.scheduler.emission import Emitter
from harness.reference.scheduler.forward import ForwardRunner, KeptStates
from harness.reference.scheduler.keeper import CacheKeeper
from harness.reference.scheduler.sequence import Sequence
from harness.reference.speculation.counts import SpeculationCounter
from harness.reference.speculation.drafter import Drafter
from harness.reference.speculation.rollback import Rollback


class Decoder:
    """Advances each of a batch of sequences by one token or more."""

    def __init__(
        self,
        *,
        runner: ForwardRunner,
        chooser: Chooser,
        emitter: Emitter,
        keeper: CacheKeeper | None,
        drafter: Drafter | None,
        rollback: Rollback,
        counter: SpeculationCounter,
        max_model_len: int,
    ) -> None:
        self.runner = runner
        self.chooser = chooser
        self.emitter = emitter
        self.keeper = keeper
        self.drafter = drafter
        self.rollback = rollback
        self.counter = counter
        self.max_model_len = max_model_len

    def run(self, batch: Items[Sequence], now_ns: Callable[[], int]) -> None:
        """Decodes a batch; sequences come out with new tokens and, when they go on, with new drafts."""
        rows = sorted(batch, key=lambda sequence: sequence.slot)
        self._complete_resumed(rows)
        if self.drafter is None:
            self._plain(rows, now_ns)
        else:
            self._verify(rows, now_ns)
        self.draft(rows)

    def draft(self, batch: Items[Sequence]) -> None:
        """Drafts for every sequence of a batch that goes on."""
        if self.drafter is None:
            return
        going_on = [sequence for sequence in batch if sequence.finish is None]
        if going_on:
            self.drafter.propose(going_on, [self._draft_count(sequence, self.drafter.depth) for sequence in going_on])

    def _complete_resumed(self, rows: Items[Sequence]) -> None:
        """Gives sequences back from preemption the one draft-layer row that their prefill could not write."""
        for sequence in rows:
            if sequence.resumed and self.drafter is not None:
                self.drafter.absorb_newest(sequence.slot, sequence.tokens[-1])
            sequence.resumed = False

    def _draft_count(self, sequence: Sequence, depth: int) -> int:
        """Drafts worth making: not more than the answer may still hold after the token that is certain, but one."""
        wanted = sequence.request.sampling.max_tokens - sequence.generated - 1
        room = self.max_model_len - len(sequence.tokens) - 1
        return max(1, min(depth, wanted, room))

    def _plain(self, rows: Items[Sequence], now_ns: Callable[[], int]) -> None:
        hidden = self.runner.decode([s.slot for s in rows], [s.tokens[-1] for s in rows])
        logits = self.runner.logits(hidden)
        now = now_ns()
        for row, sequence in enumerate(rows):
            sequence.computed += 1
            verdict, logprobs = self.chooser.choose(sequence, logits[row : row + 1])
            self.emitter.emit(sequence, verdict.tokens, logprobs, now)
            if self.keeper is not None:
                self.keeper.store_blocks(sequence)
                if self.keeper.policy.decode_mark(sequence.computed):
                    self.keeper.store_state(sequence, sequence.computed)

    def _verify(self, rows: Items[Sequence], now_ns: Callable[[], int]) -> None:
        fed = self._feed(rows)
        hidden, states = self.runner.verify([s.slot for s in rows], fed)
        logits = self.runner.logits(hidden)
        now = now_ns()
        for row, sequence in enumerate(rows):
            drafted = len(sequence.drafts)
            verdict, logprobs = self.chooser.choose(sequence, logits[row, : drafted + 1])
            kept = self.emitter.emit(sequence, verdict.tokens, logprobs, now)
            self.counter.count(sequence, drafted, min(verdict.accepted, kept))
            self._commit(sequence, states, row, kept, fed.shape[1], hidden[row])

    def _feed(self, rows: Items[Sequence]) -> I64:
        """Newest tokens and drafts ``[B, n]``; rows with fewer drafts are filled up and rolled back."""
        width = 1 + max(len(sequence.drafts) for sequence in rows)
        fed = np.zeros((len(rows), width), np.int64)
        for row, sequence in enumerate(rows):
            fed[row, : len(sequence.drafts) + 1] = [sequence.tokens[-1], *sequence.drafts]
        return fed

    def _commit(self, sequence: Sequence, states: KeptStates, row: int, kept: int, width: int, hidden: F32) -> None:
        """Leaves in the slot the newest token and the accepted drafts, ``kept`` in all, and stores what is due."""
        start = sequence.computed
        if self.drafter is not None and kept > 1:
            accepted = sequence.tokens[start + 1 : start + kept]
            self.drafter.absorb_accepted(sequence.slot, start, accepted, hidden[: kept - 1])
        marks = self._marks(start, start + kept)
        for mark in marks:
            self.rollback.rewind(states, row, sequence.slot, mark - start)
            sequence.computed = mark
            self._store_state(sequence, mark)
        if kept < width or marks:
            self.rollback.rewind(states, row, sequence.slot, kept)
        sequence.computed = start + kept
        if self.keeper is not None:
            self.keeper.store_blocks(sequence)

    def _marks(self, start: int, stop: int) -> list[int]:
        if self.keeper is None:
            return []
        return [position for position in range(start + 1, stop + 1) if self.keeper.policy.decode_mark(position)]

    def _store_state(self, sequence: Sequence, position: int) -> None:
        assert self.keeper is not None
        self.keeper.store_state(sequence, position)
