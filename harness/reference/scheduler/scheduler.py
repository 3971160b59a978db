"""Who runs: first come first served, as many as slots and memory hold, the latest admitted preempted first."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from harness.reference.cache.memory import MemoryBudget
from harness.reference.cache.policy import Span
from harness.reference.cache.prefix import Match, PrefixCache
from harness.reference.cache.state_io import StateIO
from harness.reference.scheduler.sequence import Sequence, Status
from harness.reference.scheduler.slots import SlotPool
from harness.reference.scheduler.stats import EngineStats


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Sizes the scheduler works with; ``chunk`` is a step's token budget, ``drafts`` the most drafts of a sequence."""

    block_size: int
    block_bytes: int
    state_bytes: int
    chunk: int
    drafts: int

    def sequence_bytes(self, tokens: int) -> int:
        """Memory of a running sequence of so many tokens: its state and whole blocks of latents."""
        return self.state_bytes + -(-tokens // self.block_size) * self.block_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One step's work: prefill chunks, and the sequences that decode."""

    chunks: tuple[tuple[Sequence, Span], ...]
    decodes: tuple[Sequence, ...]


class Preempter:
    """Takes a running sequence's memory away; its tokens and drafts stay, its state is computed again later."""

    def __init__(self, memory: MemoryBudget, slots: SlotPool, stats: EngineStats) -> None:
        self.memory = memory
        self.slots = slots
        self.stats = stats

    def preempt(self, sequence: Sequence) -> None:
        """Frees slot and memory and makes the sequence wait."""
        self.release(sequence)
        sequence.status = Status.WAITING
        sequence.computed = 0
        sequence.stored_blocks = 0
        sequence.preemptions += 1
        self.stats.preemptions += 1

    def release(self, sequence: Sequence) -> None:
        """Frees slot and memory."""
        self.slots.free(sequence.slot)
        self.memory.release(sequence.held_bytes)
        sequence.slot = -1
        sequence.held_bytes = 0


class Scheduler:
    """Keeps the waiting line and the running set, and plans each step."""

    def __init__(
        self,
        *,
        limits: Limits,
        memory: MemoryBudget,
        cache: PrefixCache | None,
        state_io: StateIO,
        slots: SlotPool,
        stats: EngineStats,
    ) -> None:
        self.limits = limits
        self.memory = memory
        self.cache = cache
        self.state_io = state_io
        self.slots = slots
        self.stats = stats
        self.preempter = Preempter(memory, slots, stats)
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []

    def plan(self, now_ns: int) -> Plan:
        """Grows or preempts what decodes, admits what fits, and shares the token budget: decodes first.

        Nothing is admitted in a step that preempted: what was just sent away would come straight back.
        """
        crowded = self._secure_decodes()
        decodes = tuple(s for s in self.running if s.status is Status.DECODE)
        budget = self.limits.chunk - len(decodes) * (1 + self.limits.drafts)
        chunks: list[tuple[Sequence, Span]] = []
        for sequence in self.running:
            budget = self._add_chunk(chunks, sequence, budget)
        while self.waiting and not crowded and budget >= self.limits.block_size:
            if not self._admit(self.waiting[0], now_ns):
                break
            self.running.append(self.waiting.popleft())
            budget = self._add_chunk(chunks, self.running[-1], budget)
        return Plan(chunks=tuple(chunks), decodes=decodes)

    def finish(self, sequence: Sequence) -> None:
        """Takes a sequence out, wherever it is."""
        if sequence.status is Status.WAITING:
            self.waiting.remove(sequence)
        elif sequence.status is not Status.FINISHED:
            self.running.remove(sequence)
            self.preempter.release(sequence)
        sequence.status = Status.FINISHED

    def preempt_all(self) -> None:
        """Sends every running sequence back to the head of the waiting line, in order."""
        for sequence in reversed(self.running):
            self.preempter.preempt(sequence)
            self.waiting.appendleft(sequence)
        self.running.clear()

    def _add_chunk(self, chunks: list[tuple[Sequence, Span]], sequence: Sequence, budget: int) -> int:
        """Gives a prefilling sequence what it can use; chunks other than the last end on block boundaries."""
        if sequence.status is not Status.PREFILL or budget <= 0:
            return budget
        start, target, size = sequence.computed, sequence.prefill_target, self.limits.block_size
        stop = min(start + budget, target)
        if stop < target:
            stop = stop // size * size
        if stop <= start:
            return budget
        chunks.append((sequence, Span(start=start, stop=stop, target=target, branch=sequence.branch)))
        return budget - (stop - start)

    def _secure_decodes(self) -> bool:
        """Makes sure every decoding sequence has memory for this step, at the cost of the latest admitted ones.

        Returns whether one of them had to go.
        """
        before = self.stats.preemptions
        for sequence in list(self.running):
            if sequence.status is not Status.DECODE:
                continue
            need = self.limits.sequence_bytes(sequence.computed + 1 + len(sequence.drafts)) - sequence.held_bytes
            while need > 0 and sequence.status is Status.DECODE:
                if self.memory.hold(need):
                    sequence.held_bytes += need
                    break
                victim = self.running.pop()
                self.preempter.preempt(victim)
                self.waiting.appendleft(victim)
        return self.stats.preemptions > before

    def _admit(self, sequence: Sequence, now_ns: int) -> bool:
        """Gives a waiting sequence a slot, memory and what the cache has of it; False when it must wait on."""
        need = self.limits.sequence_bytes(len(sequence.tokens) + 1)
        if not self.slots.free_slots or self.memory.held_bytes + need > self.memory.capacity_bytes:
            return False
        slot = self.slots.allocate()
        assert slot is not None
        sequence.slot = slot
        sequence.prefill_target = len(sequence.tokens) - (1 if sequence.generated else 0)
        sequence.resumed = sequence.generated > 0
        if sequence.request.score is not None and not sequence.generated:
            sequence.prompt_logprobs = [None]
        self.state_io.clear(slot)
        match = self.restore(sequence)
        held = self.memory.hold(need)
        assert held, "checked above: what sequences hold leaves room"
        sequence.held_bytes = need
        sequence.status = Status.PREFILL if sequence.computed < sequence.prefill_target else Status.DECODE
        self.count_first(sequence, match, now_ns)
        return True

    def restore(self, sequence: Sequence) -> Match | None:
        """Loads the cached part of a sequence into its slot."""
        sequence.branch = None
        request = sequence.request
        scored_anew = request.score is not None and not request.score.reads_cache
        if self.cache is None or scored_anew or not request.reads_cache:
            return None
        keys = self.cache.hasher.chain(sequence.tokens, request.cache_salt, sequence.keys)
        limit = sequence.prefill_target - (0 if sequence.generated else 1)
        if request.score is not None:
            limit = min(limit, request.score.start)
        match = self.cache.match(keys[: sequence.prefill_target // self.limits.block_size], limit)
        restored = self.cache.fetch(match)
        if restored.state is not None:
            self.state_io.load_latents(sequence.slot, restored.latents)
            self.state_io.load_snapshot(sequence.slot, restored.state)
        sequence.computed = match.blocks * self.limits.block_size
        sequence.stored_blocks = match.blocks
        reach = min(match.latent_blocks, limit // self.limits.block_size)
        if reach > match.blocks:
            sequence.branch = reach * self.limits.block_size
        return match

    def count_first(self, sequence: Sequence, match: Match | None, now_ns: int) -> None:
        """Notes what the first scheduling of a sequence found cached; later ones are not counted."""
        if sequence.cached_tokens is not None:
            return
        size = self.limits.block_size
        sequence.cached_tokens = match.blocks * size if match is not None else 0
        sequence.host_tokens = match.host_blocks * size if match is not None else 0
        sequence.scheduled_ns = now_ns
        self.stats.queried_tokens += sequence.prompt_tokens
        self.stats.cached_tokens += sequence.cached_tokens
        self.stats.host_tokens += sequence.host_tokens
        self.stats.queue.observe((now_ns - sequence.request.received_ns) / 1e9)
