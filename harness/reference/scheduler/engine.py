"""The engine: requests in, one step at a time, deltas out."""

from __future__ import annotations

import time
from collections.abc import Callable

from harness.reference.cache.memory import MemoryBudget
from harness.reference.cache.policy import Span
from harness.reference.cache.prefix import PrefixCache
from harness.reference.cache.tier import Kind
from harness.reference.scheduler.choosing import Chooser
from harness.reference.scheduler.decode import Decoder
from harness.reference.scheduler.emission import Emitter, UsageReporter
from harness.reference.scheduler.prefill import Prefiller
from harness.reference.scheduler.request import Delta, Finish, FinishReason, Request
from harness.reference.scheduler.scheduler import Scheduler
from harness.reference.scheduler.sequence import Sequence, Status
from harness.reference.scheduler.stats import EngineStats
from harness.reference.scheduler.stopping import OutputText, TextStream


class Engine:
    """Runs requests in continuous batches. Not thread-safe: one thread owns it.

    Its parts are plain attributes, each the only owner of what it does, so that a test can put another object in the
    place of one; see docs/reference-engine.md for the list.
    """

    def __init__(
        self,
        *,
        scheduler: Scheduler,
        prefiller: Prefiller,
        decoder: Decoder,
        chooser: Chooser,
        emitter: Emitter,
        text_stream: Callable[[], TextStream],
        stats: EngineStats,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.scheduler = scheduler
        self.prefiller = prefiller
        self.decoder = decoder
        self.chooser = chooser
        self.emitter = emitter
        self.usage = UsageReporter()
        self.text_stream = text_stream
        self.stats = stats
        self.clock = clock
        self._sequences: dict[str, Sequence] = {}
        self._ended: list[Sequence] = []

    @property
    def memory(self) -> MemoryBudget:
        """The byte budget."""
        return self.scheduler.memory

    @property
    def cache(self) -> PrefixCache | None:
        """The prefix cache, None when it is off."""
        return self.scheduler.cache

    @property
    def busy(self) -> bool:
        """Whether anything runs, waits, or has yet to be reported."""
        return bool(self._sequences)

    def submit(self, request: Request) -> None:
        """Takes a request in.

        Raises:
            ValueError: its id is in use.
        """
        if request.request_id in self._sequences:
            raise ValueError(f"request id {request.request_id} is in use")
        text = OutputText(self.text_stream(), request.sampling.stop)
        sequence = Sequence(request=request, text=text, tokens=list(request.prompt), constraint=request.constraint)
        self._sequences[request.request_id] = sequence
        self.scheduler.waiting.append(sequence)
        self.stats.requests_received += 1

    def abort(self, request_id: str) -> bool:
        """Ends a request where it stands; False when it is not there any more."""
        sequence = self._sequences.get(request_id)
        if sequence is None or sequence.status is Status.FINISHED:
            return False
        sequence.finish = Finish(reason=FinishReason.ABORT)
        self._end(sequence)
        self._ended.append(sequence)
        return True

    def step(self) -> list[Delta]:
        """Runs one step and reports what each sequence got."""
        plan = self.scheduler.plan(self.clock())
        began_ns = self.clock()
        fresh = [sequence for sequence, span in plan.chunks if self._prefill(sequence, span)]
        self.decoder.draft(fresh)
        prefilled_ns = self.clock()
        if plan.decodes:
            self.decoder.run(plan.decodes, self.clock)
            self.stats.decode_steps += 1
            self.stats.decode_rows += len(plan.decodes)
        self.stats.prefill_ns += prefilled_ns - began_ns
        self.stats.decode_ns += self.clock() - prefilled_ns
        return self._report([*(s for s, _ in plan.chunks), *plan.decodes])

    def reset_cache(self, *, force: bool) -> bool:
        """Empties the prefix cache; refused while anything runs, unless ``force`` sends it back to wait."""
        if (self.scheduler.running or self.scheduler.waiting) and not force:
            return False
        self.scheduler.preempt_all()
        if self.cache is not None:
            self.cache.reset()
        return True

    def erase_cache(self) -> int:
        """Empties the prefix cache whatever runs, which keeps its own state; how many tokens it held."""
        if self.cache is None:
            return 0
        erased = self.cache.device.counts[Kind.LATENT] * self.cache.hasher.block_size
        self.cache.reset()
        return erased

    def _prefill(self, sequence: Sequence, span: Span) -> bool:
        """Runs one chunk; whether the sequence got its first token and goes on."""
        hidden = self.prefiller.run(sequence, span)
        if span.stop < span.target:
            return False
        sequence.status = Status.DECODE
        if sequence.generated:
            return False
        self.stats.prompt_tokens += sequence.prompt_tokens
        if sequence.request.sampling.max_tokens == 0:
            sequence.finish = Finish(reason=FinishReason.LENGTH)
            return False
        logits = self.prefiller.runner.logits(hidden[None])
        verdict, logprobs = self.chooser.choose(sequence, logits)
        self.emitter.emit(sequence, verdict.tokens, logprobs, self.clock())
        return sequence.finish is None

    def _report(self, sequences: list[Sequence]) -> list[Delta]:
        for sequence in sequences:
            if sequence.finish is not None and sequence.status is not Status.FINISHED:
                self._end(sequence)
        fresh = [sequence for sequence in dict.fromkeys([*self._ended, *sequences]) if sequence.pending]
        self._ended.clear()
        deltas = [self.usage.delta(sequence) for sequence in fresh]
        for sequence in fresh:
            if sequence.finish is not None:
                del self._sequences[sequence.request.request_id]
        return deltas

    def _end(self, sequence: Sequence) -> None:
        assert sequence.finish is not None
        self.scheduler.finish(sequence)
        sequence.finished_ns = self.clock()
        stats = self.stats
        stats.finished[sequence.finish.reason] += 1
        stats.longest_tokens = max(stats.longest_tokens, len(sequence.tokens))
        stats.e2e.observe((sequence.finished_ns - sequence.request.received_ns) / 1e9)
        if sequence.generated > 1:
            gap_ns = (sequence.finished_ns - sequence.first_token_ns) / (sequence.generated - 1)
            stats.token_gap.observe(gap_ns / 1e9)
