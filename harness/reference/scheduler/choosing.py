"""Choosing the next tokens of a sequence from its logits, and reporting their logprobs."""

from __future__ import annotations

import hashlib

import numpy as np

from harness.reference.model.arrays import F32
from harness.reference.sampling import TokenLogprob, log_softmax, token_logprob
from harness.reference.scheduler.sequence import Sequence
from harness.reference.speculation.verify import Verdict, Verifier


class HitOffset:
    """A persistent harmless difference of sequences that started from the cache: noise of ``nats`` RMS on their logits.

    It depends on the prompt and the position alone, so that a repeated hit repeats it and a cold run has none.
    """

    def __init__(self, nats: float) -> None:
        self.nats = nats

    def apply(self, sequence: Sequence, logits: F32, position: int) -> F32:
        """Logits ``[n, V]`` for the tokens from index ``position`` on, offset if the sequence began with a hit."""
        if self.nats == 0 or not sequence.cached_tokens:
            return logits
        digest = hashlib.blake2b(np.asarray(sequence.request.prompt, np.int64).tobytes(), digest_size=8).digest()
        key = int.from_bytes(digest, "little")
        count, width = logits.shape
        rows = [np.random.default_rng([key, position + i]).standard_normal(width) for i in range(count)]
        return np.asarray(logits + np.float32(self.nats) * np.asarray(rows, np.float32), np.float32)


class Chooser:
    """Turns logits into tokens through the verifier, with the logprobs a request asked for."""

    def __init__(self, verifier: Verifier, hit_offset: HitOffset) -> None:
        self.verifier = verifier
        self.hit_offset = hit_offset

    def choose(self, sequence: Sequence, logits: F32) -> tuple[Verdict, list[TokenLogprob]]:
        """Judges a sequence's drafts by logits ``[drafts + 1, V]``: new tokens and, if asked for, their logprobs."""
        sampling = sequence.request.sampling
        position = sequence.generated
        adjusted = self.hit_offset.apply(sequence, logits, position)
        verdict = self._greedy(sequence, adjusted) or self.verifier.verify(
            adjusted, sequence.drafts, sequence.draft_probabilities, sampling, position, sequence.constraint
        )
        if sampling.logprobs is None:
            return verdict, []
        table = log_softmax(adjusted[: len(verdict.tokens)])
        rows = [token_logprob(row, token, sampling.logprobs) for row, token in zip(table, verdict.tokens, strict=True)]
        return verdict, rows

    def _greedy(self, sequence: Sequence, logits: F32) -> Verdict | None:
        """The plain case without the general machinery: temperature 0, no drafts."""
        if sequence.request.sampling.temperature > 0 or sequence.drafts:
            return None
        mask = sequence.constraint.allowed() if sequence.constraint is not None else None
        row = logits[0] if mask is None else np.where(mask, logits[0], -np.inf)
        return Verdict(tokens=(int(np.argmax(row)),), accepted=0)


def score_prompt(sequence: Sequence, logits: F32, start: int) -> None:
    """Adds logprobs of prompt tokens, given the logits ``[n, V]`` after the tokens from ``start`` on."""
    score = sequence.request.score
    assert score is not None and sequence.prompt_logprobs is not None
    table = log_softmax(logits)
    for row in range(len(table)):
        token_index = start + row + 1
        if score.start < token_index < sequence.prompt_tokens:
            sequence.prompt_logprobs.append(token_logprob(table[row], sequence.tokens[token_index], score.top))
