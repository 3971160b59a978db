"""Drafting with the MTP layer, and keeping that layer's latents complete."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.reference.model.arrays import F32, I64
from harness.reference.model.state import LiveState
from harness.reference.sampling import DRAFT_STREAM, F64, distribution, draw, uniform
from harness.reference.scheduler.forward import LanguageModel
from harness.reference.scheduler.sequence import Sequence as Running


class Drafter:
    """Proposes up to ``depth`` tokens per sequence.

    Row ``i`` of the MTP layer's latents belongs to the hidden vector of token ``i`` and the embedding of token
    ``i + 1``: after ``n`` tokens the rows below ``n - 1`` are written, and the last one once its successor is known.
    """

    def __init__(self, model: LanguageModel, state: LiveState, depth: int) -> None:
        self.model = model
        self.state = state
        self.depth = depth

    def absorb_prompt(self, slot: int, start: int, tokens: Sequence[int], hidden: F32, before: F32) -> None:
        """Writes the rows that a prefill piece makes final.

        ``tokens`` from ``start`` on have the vectors ``hidden``; ``before`` is that of the token before them.
        """
        if start == 0:
            self._write(slot, 0, tokens[1:], hidden[:-1])
        else:
            self._write(slot, start - 1, tokens, np.concatenate([before[None], hidden[:-1]]))

    def absorb_accepted(self, slot: int, start: int, tokens: Sequence[int], hidden: F32) -> None:
        """Writes the rows from ``start`` on, given the vectors there and the accepted ``tokens`` one further on."""
        self._write(slot, start, tokens, hidden)

    def absorb_newest(self, slot: int, token: int) -> None:
        """Writes the last row of a sequence that came back from preemption, given its newest token."""
        length = int(self.state.length[slot])
        self._write(slot, length - 1, [token], self.state.hidden[slot][None].copy())

    def propose(self, sequences: Sequence[Running], counts: Sequence[int]) -> None:
        """Drafts ``counts[i]`` tokens, at least one, for each sequence; the first step also completes their latents."""
        slots = np.asarray([s.slot for s in sequences], np.int64)
        positions = self.state.length[slots] - 1
        tokens = np.asarray([s.tokens[-1] for s in sequences], np.int64)
        hidden = self.state.hidden[slots]
        active = list(range(len(sequences)))
        for sequence in sequences:
            sequence.drafts, sequence.draft_probabilities = [], []
        for depth in range(max(counts)):
            logits, hidden = self.draft(slots, tokens, hidden, positions + depth)
            keep = [i for i, row in enumerate(active) if counts[row] > depth]
            tokens = np.asarray([self._draw(sequences[active[i]], logits[i]) for i in keep], np.int64)
            active = [active[i] for i in keep]
            slots, hidden, positions = slots[keep], hidden[keep], positions[keep]

    def draft(self, slots: I64, tokens: I64, hidden: F32, positions: I64) -> tuple[F32, F32]:
        """One draft for each of several slots: logits ``[B, V]``, and hidden vectors ``[B, H]`` to draft on from."""
        return self.model.draft_step(self.state, slots, tokens, hidden, positions)

    def _draw(self, sequence: Running, logits: F32) -> int:
        sampling = sequence.request.sampling
        proposal: F64 = distribution(logits, sampling)
        position = sequence.generated + len(sequence.drafts)
        draft = draw(proposal, uniform(sampling.seed, position, DRAFT_STREAM))
        sequence.drafts.append(draft)
        sequence.draft_probabilities.append(proposal)
        return draft

    def _write(self, slot: int, start: int, next_tokens: Sequence[int], hidden: F32) -> None:
        if len(next_tokens):
            self.model.draft_prefill(self.state, slot, np.asarray(next_tokens, np.int64), hidden, start)
