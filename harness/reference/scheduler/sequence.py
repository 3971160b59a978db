"""One sequence on its way through the engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from harness.reference.constraint.base import Constraint
from harness.reference.sampling import F64, TokenLogprob
from harness.reference.scheduler.request import Finish, Request
from harness.reference.scheduler.stopping import OutputText


class Status(Enum):
    """Where a sequence is."""

    WAITING = "waiting"
    PREFILL = "prefill"
    DECODE = "decode"
    FINISHED = "finished"


@dataclass(slots=True, kw_only=True)
class SpeculationRecord:
    """Running counts of one sequence's drafting; ``histogram[i]`` counts steps that accepted ``i`` drafts."""

    steps: int = 0
    drafted: int = 0
    accepted: int = 0
    histogram: list[int] = field(default_factory=list)


@dataclass(slots=True, kw_only=True, eq=False)
class Sequence:
    """Mutable state of one request.

    Attributes:
        tokens: the prompt and everything generated.
        computed: how many of them are in the slot's state.
        prefill_target: where this run's prefill ends: at the prompt's length, or before the newest token when a
            preempted sequence comes back.
        branch: where the prompt leaves a prefix whose latents are cached deeper than any state, None when it does not.
        keys: names of the full blocks of ``tokens``; ``stored_blocks`` of them have been offered to the cache.
        resumed: it has just come back from preemption.
        cached_tokens: what the first scheduling skipped, None before it; ``host_tokens`` came from the host tier.
        created_tokens: tokens of the blocks that this sequence added to the cache.
        prefilled_tokens: prompt tokens computed before any preemption.
        drafts: proposals for the tokens after the last, drawn from ``draft_probabilities``.
        fresh_tokens: what has not been reported yet, with its text in pieces and its logprobs.
        reported: something has been reported.
    """

    request: Request
    text: OutputText
    tokens: list[int]
    status: Status = Status.WAITING
    slot: int = -1
    computed: int = 0
    prefill_target: int = 0
    branch: int | None = None
    keys: list[bytes] = field(default_factory=list)
    stored_blocks: int = 0
    held_bytes: int = 0
    resumed: bool = False
    cached_tokens: int | None = None
    host_tokens: int = 0
    created_tokens: int = 0
    prefilled_tokens: int = 0
    preemptions: int = 0
    drafts: list[int] = field(default_factory=list)
    draft_probabilities: list[F64] = field(default_factory=list)
    speculation: SpeculationRecord = field(default_factory=SpeculationRecord)
    constraint: Constraint | None = None
    finish: Finish | None = None
    prompt_logprobs: list[TokenLogprob | None] | None = None
    fresh_tokens: list[int] = field(default_factory=list)
    fresh_pieces: list[str] = field(default_factory=list)
    fresh_logprobs: list[TokenLogprob] = field(default_factory=list)
    reported: bool = False
    scheduled_ns: int = 0
    first_token_ns: int = 0
    finished_ns: int = 0

    @property
    def prompt_tokens(self) -> int:
        """Length of the prompt."""
        return len(self.request.prompt)

    @property
    def generated(self) -> int:
        """Tokens generated so far."""
        return len(self.tokens) - len(self.request.prompt)

    @property
    def pending(self) -> bool:
        """Whether this step brought something to report."""
        return bool(self.fresh_tokens) or self.finish is not None
