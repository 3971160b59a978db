"""What a request asks of the engine, and what the engine says back after each step."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from harness.reference.constraint.base import Constraint
from harness.reference.sampling import SamplingParams, TokenLogprob


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptScore:
    """Asks for logprobs of the prompt's tokens from index ``start`` on, with ``top`` alternatives each.

    The token at ``start`` itself gets none when nothing before it is computed (``start`` 0). ``reads_cache`` False
    computes the whole prompt, as vLLM does for such requests.
    """

    start: int
    top: int
    reads_cache: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One sequence to generate; times are monotonic nanoseconds.

    ``reads_cache`` False computes the whole prompt; what it leaves in the cache is kept all the same.

    Raises:
        ValueError: the prompt is empty.
    """

    request_id: str
    prompt: tuple[int, ...]
    sampling: SamplingParams
    cache_salt: str = ""
    reads_cache: bool = True
    score: PromptScore | None = None
    constraint: Constraint | None = None
    received_ns: int = 0

    def __post_init__(self) -> None:
        if not self.prompt:
            raise ValueError("the prompt is empty")


class FinishReason(Enum):
    """Why a sequence ended."""

    STOP = "stop"
    LENGTH = "length"
    ABORT = "abort"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """The end of a sequence; ``matched`` is the stop string or stop token that ended it, None for EOS and length."""

    reason: FinishReason
    matched: str | int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeculationCounts:
    """Drafting of one sequence: verify steps, drafted and accepted tokens, steps by number of accepted tokens."""

    steps: int = 0
    drafted: int = 0
    accepted: int = 0
    histogram: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Token counts of one sequence so far.

    ``cached_tokens`` is what the first scheduling skipped, ``host_tokens`` the part of it that came from the host
    tier; ``created_tokens`` is what this request added to the cache.
    """

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    host_tokens: int
    created_tokens: int
    preemptions: int
    speculation: SpeculationCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Monotonic nanoseconds of a sequence's stages; 0 where it has not got there."""

    received_ns: int
    scheduled_ns: int
    first_token_ns: int
    finished_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """What one step added to one sequence.

    ``pieces`` is the text that each token completed; it may lag behind the tokens (held-back bytes or a possible stop
    string) and catches up later.
    ``logprobs`` is empty unless asked for. ``prompt_logprobs`` comes with the first delta of a request that asked for a
    score; its entries are None where there is no logprob.
    """

    request_id: str
    tokens: tuple[int, ...]
    pieces: tuple[str, ...]
    usage: Usage
    timing: Timing
    logprobs: tuple[TokenLogprob, ...] = ()
    prompt_logprobs: tuple[TokenLogprob | None, ...] | None = None
    finish: Finish | None = None

    @property
    def text(self) -> str:
        """All pieces together."""
        return "".join(self.pieces)
