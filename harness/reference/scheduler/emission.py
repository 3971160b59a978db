"""Adding new tokens to a sequence: text, stops, what to report."""

from __future__ import annotations

from collections.abc import Collection
from collections.abc import Sequence as Items

from harness.reference.sampling import TokenLogprob
from harness.reference.scheduler.request import Delta, Finish, FinishReason, SpeculationCounts, Timing, Usage
from harness.reference.scheduler.sequence import Sequence
from harness.reference.scheduler.stats import EngineStats
from harness.reference.scheduler.stopping import finish_of


class Emitter:
    """Appends tokens until one of them ends the sequence."""

    def __init__(self, stats: EngineStats, eos_ids: Collection[int], max_model_len: int) -> None:
        self.stats = stats
        self.eos_ids = eos_ids
        self.max_model_len = max_model_len

    def emit(self, sequence: Sequence, tokens: Items[int], logprobs: Items[TokenLogprob], now_ns: int) -> int:
        """Adds tokens with their logprobs (none, or one each); how many were added before the sequence ended."""
        if sequence.first_token_ns == 0:
            sequence.first_token_ns = now_ns
            self.stats.ttft.observe((now_ns - sequence.request.received_ns) / 1e9)
        for count, token in enumerate(tokens, 1):
            sequence.tokens.append(token)
            sequence.fresh_tokens.append(token)
            if logprobs:
                sequence.fresh_logprobs.append(logprobs[count - 1])
            self.stats.generated_tokens += 1
            sequence.fresh_pieces.append(self._settle(sequence, token))
            if sequence.finish is not None:
                return count
        return len(tokens)

    def _settle(self, sequence: Sequence, token: int) -> str:
        """Moves text and constraint on by one token and ends the sequence when it is time; the text now ready."""
        room = self.max_model_len - len(sequence.tokens)
        finish = finish_of(token, sequence.generated, sequence.request.sampling, self.eos_ids, room)
        ended_by_token = finish is not None and finish.reason is FinishReason.STOP
        matched = None if ended_by_token else sequence.text.push(token)
        if sequence.constraint is not None:
            sequence.constraint = sequence.constraint.advance(token)
            if sequence.constraint.finished() and finish is None:
                finish = Finish(reason=FinishReason.STOP)
        if matched is not None and sequence.generated >= sequence.request.sampling.min_tokens:
            finish = Finish(reason=FinishReason.STOP, matched=matched)
        sequence.finish = finish
        return sequence.text.take() if finish is None else sequence.text.finish(stopped=isinstance(finish.matched, str))


class UsageReporter:
    """The token counts a client is told."""

    def usage(self, sequence: Sequence) -> Usage:
        """Counts of a sequence so far."""
        return Usage(
            prompt_tokens=sequence.prompt_tokens,
            completion_tokens=sequence.generated,
            cached_tokens=self.cached_tokens(sequence),
            host_tokens=sequence.host_tokens,
            created_tokens=sequence.created_tokens,
            preemptions=sequence.preemptions,
            speculation=self.speculation(sequence),
        )

    def cached_tokens(self, sequence: Sequence) -> int:
        """Prompt tokens that the first scheduling did not compute."""
        return sequence.cached_tokens if sequence.cached_tokens is not None else 0

    def speculation(self, sequence: Sequence) -> SpeculationCounts:
        """Drafting counts of a sequence."""
        record = sequence.speculation
        return SpeculationCounts(
            steps=record.steps,
            drafted=record.drafted,
            accepted=record.accepted,
            histogram=tuple(record.histogram),
        )

    def delta(self, sequence: Sequence) -> Delta:
        """What is new since the last report; marks it as reported."""
        prompt_logprobs = sequence.prompt_logprobs if not sequence.reported else None
        delta = Delta(
            request_id=sequence.request.request_id,
            tokens=tuple(sequence.fresh_tokens),
            pieces=tuple(sequence.fresh_pieces),
            usage=self.usage(sequence),
            timing=Timing(
                received_ns=sequence.request.received_ns,
                scheduled_ns=sequence.scheduled_ns,
                first_token_ns=sequence.first_token_ns,
                finished_ns=sequence.finished_ns,
            ),
            logprobs=tuple(sequence.fresh_logprobs),
            prompt_logprobs=tuple(prompt_logprobs) if prompt_logprobs is not None else None,
            finish=sequence.finish,
        )
        sequence.fresh_tokens, sequence.fresh_pieces, sequence.fresh_logprobs = [], [], []
        sequence.reported = True
        return delta
